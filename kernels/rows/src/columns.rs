//! Sums of columns, in an order that depends on nothing but the number of lines.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Element, Fragment, FragmentLayout, Padded, Shared, Unmapped, UnmappedMut, block_x, block_y, copy,
};

use crate::program::RowProgram;

/// Tiles whose loads are in flight at a time.
const AHEAD: u32 = 16;

/// y = the sums of x's columns, rounded, for two tensors: the CTAs' second index says which.
///
/// Each x is \[1, lines, columns\], each y \[1, 1, columns\] or less. A CTA takes `N` columns, `M` lines at a time, and then adds up its threads' sums.
#[kernel(program = P)]
pub fn column_sums<P: RowProgram, T: Element, L, B, const M: usize, const N: usize>(
    mut cta: Cta<P>,
    x: Unmapped<f32, 3>,
    y: UnmappedMut<T, 3>,
    other_x: Unmapped<f32, 3>,
    other_y: UnmappedMut<T, 3>,
) where
    L: FragmentLayout<M, N>,
    B: FragmentLayout<N, M>,
{
    P::wait_for_preceding_grid();
    let mut sums_s = cta.scratch::<Shared<f32, M, N, Padded>>();
    let (x, mut y) = if block_y() == 0 { (x.get(), y.get()) } else { (other_x.get(), other_y.get()) };
    let mut sums = Fragment::<f32, M, N, L>::zero();
    let mut first = 0;
    while first * (M as u32) < x.rows() {
        let mut parts = [Fragment::<f32, M, N, L>::zero(); AHEAD as usize];
        let mut i = 0;
        while i < AHEAD {
            parts[i as usize] = Fragment::load_rows(x.tile([0, first + i, block_x()]), 0.0);
            i += 1;
        }
        let mut i = 0;
        while i < AHEAD {
            sums = sums.zip(&parts[i as usize], |a, b| a + b);
            i += 1;
        }
        first += AHEAD;
    }
    copy(sums, &mut sums_s);
    let columns = Fragment::<f32, N, M, B>::load(sums_s.full().t()).reduce_rows(0.0, |a, b| a + b);
    let to = y.tile([0, 0, block_x()]);
    columns.for_each(|column, first, sum| {
        if first {
            to.put::<1, N>(0, column, T::from_f32x2(sum, 0.0)[0]);
        }
    });
}
