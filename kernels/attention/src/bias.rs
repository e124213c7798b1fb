//! What is added to scores, \[batch, heads, queries, keys\], element by element as the fragment's threads need it.

use tilewright_device::layout::FragmentLayout;
use tilewright_device::tile::{Element, Fragment, Global, InPlace, RowMajor, math};

use crate::score::Score;
use crate::sequences::Sequences;
use crate::terms::HeadTerms;

/// Scores with their tile of the bias, if there is one: packed sequences have none.
#[inline(always)]
pub(crate) fn added<
    F: Score,
    S: Sequences,
    T: Element,
    const M: usize,
    const N: usize,
    L: FragmentLayout<M, N>,
>(
    s: Fragment<f32, M, N, L>,
    bias: InPlace<Global<T, 4, RowMajor, 0>>,
    terms: InPlace<HeadTerms>,
    tile: [u32; 4],
) -> Fragment<f32, M, N, L> {
    if !F::CHANGES || S::PACKED || bias.get().rows() == 0 {
        return s;
    }
    let unit = terms.get().unit;
    s.zip_global(bias.get().tile(tile), |s, bias| math::fma(bias, unit, s))
}
