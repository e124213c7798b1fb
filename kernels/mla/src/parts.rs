//! Results of tiles whose keys were divided among CTAs, put together.
//!
//! Sequences have as many parts as a list says, of whole tiles; those that were not cut are left alone.

use core::f32::consts::LN_2;

use tilewright_device::kernel;
use tilewright_device::tile::{
    Element, Fragment, FragmentLayout, GlobalMut, List, Overlaps, Rows, Striped, block_x, block_y, copy,
    math::ex2, math::lg2,
};

use crate::partials::Partials;

/// Rows of a CTA: one a warp.
pub const ROWS: usize = 4;
/// Partial results whose loads are under way at a time.
const AHEAD: u32 = 4;

/// O = Σ wᵢ Oᵢ with the weights wᵢ of the parts' sums of exponentials (Dao et al. 2023, "Flash-Decoding").
///
/// The parts are tiles of `M` x `DV` in `partials`, each row with log2 of its sum. For every `block_y`, `list` has a sequence,
/// the first tile of its first part, how many parts it has, and how many tiles each of them. O is \[batch, rows, DV\], the
/// log-sum-exp \[batch, rows, 1\] in natural logarithms, unless `lse` has no rows.
#[kernel(program = P)]
pub fn combine<P: Overlaps, T: Element, const M: usize, const DV: usize>(
    partials: Partials<M, DV>,
    mut o: GlobalMut<T, 3>,
    mut lse: GlobalMut<f32, 3>,
    list: List,
) where
    Striped<ROWS>: FragmentLayout<ROWS, DV>,
{
    let [sequence, first, parts, tiles] = list.get4(block_y());
    let row = |part: u32| (first + part * tiles) * M as u32 + block_x() * ROWS as u32;
    P::wait_for_preceding_grid();
    let mut max = Rows::<f32, ROWS, DV, Striped<ROWS>>::splat(f32::NEG_INFINITY);
    for part in 0..parts {
        max = max.zip(&partials.load_rows(row(part)), f32::max);
    }
    // Rows without any key: 2 ^ (-inf - 0), not 2 ^ (-inf + inf).
    let max = max.map(|max| if max == f32::NEG_INFINITY { 0.0 } else { max });
    let mut sum = Rows::<f32, ROWS, DV, Striped<ROWS>>::splat(0.0);
    let mut acc = Fragment::<f32, ROWS, DV, Striped<ROWS>>::zero();
    for begin in (0..parts).step_by(AHEAD as usize) {
        let loaded = [0, 1, 2, 3].map(|i| {
            // The last one takes the place of those that are not there, with weight 0.
            let part = (begin + i).min(parts - 1);
            let log2 = partials.load_rows::<Striped<ROWS>, ROWS>(row(part));
            let there = begin + i < parts;
            (log2.map(|x| if there { x } else { f32::NEG_INFINITY }), partials.load(row(part)))
        });
        for (log2, x) in loaded {
            let weight = log2.zip(&max, |x, max| ex2(x - max));
            sum = sum.zip(&weight, |a, b| a + b);
            acc = acc.zip(&x.zip_rows(&weight, |x, by| x * by), |a, b| a + b);
        }
    }
    let inverse = sum.map(|sum| if sum == 0.0 { 0.0 } else { 1.0 / sum });
    let place = [sequence, block_x(), 0];
    copy(acc.zip_rows(&inverse, |x, by| x * by).cast::<T>(), o.tile(place));
    if lse.rows() > 0 {
        let log2 = sum.zip(&max, |sum, max| if sum == 0.0 { f32::NEG_INFINITY } else { max + lg2(sum) });
        copy(log2.map(|log2| log2 * LN_2), lse.tile(place));
    }
}
