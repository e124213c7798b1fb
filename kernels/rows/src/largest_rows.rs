//! The places of rows' largest elements.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Element, Fragment, FragmentLayout, Global, GlobalMut, InBlock, RowOrder, RowTile, Rows, math,
};

use crate::program::RowProgram;

/// An element and its column as a number: a larger one is of a larger element, or of an equal one farther left. NaN is the largest of all;
/// -0 is 0.
#[inline(always)]
fn rank(x: f32, col: u32) -> u64 {
    let bits = (x + 0.0).to_bits();
    let ordered = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    let ordered = if x.is_nan() { u32::MAX } else { ordered };
    (ordered as u64) << 32 | !col as u64
}

/// The largest of what this thread holds of each row: its value first, then the first column that has it.
#[inline(always)]
fn largest<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Fragment<T, M, N, L>,
    from: u32,
) -> Rows<u64, M, N, L> {
    let x = x.to_f32();
    let max = x.fold_rows(f32::NEG_INFINITY, math::max_nan);
    let has = |x: f32, max: f32| if max.is_nan() { x.is_nan() } else { x == max };
    let places = x.map_indexed(|_, col, x| (x, col));
    let places = places.zip_rows(&max, |(x, col), max| (x, if has(x, max) { col } else { u32::MAX }));
    let first = places.fold_rows(u32::MAX, |first, (_, col)| first.min(col));
    max.map(|max| rank(max, 0)).zip(&first, |rank, col| rank - (from + col) as u64)
}

/// y = the column of the largest element of every row of x, the first of equal ones; the first NaN where there is one.
///
/// x is \[batch, rows, columns\], y \[batch, rows, 1\]. Rows of any length: they are read once, `N` columns at a time.
#[kernel(program = P)]
pub fn argmax<P: RowProgram, T: Element, L, const M: usize, const N: usize>(
    mut cta: Cta<P>,
    x: InBlock<Global<T, 3>>,
    y: InBlock<GlobalMut<i32, 3>>,
    order: RowOrder,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, 1>();
    // What lies outside is as small as can be, and farther right than all that is inside.
    let [least, _] = T::from_f32x2(f32::NEG_INFINITY, f32::NEG_INFINITY);
    let mut tile = RowTile::first(order, 1);
    P::wait_for_preceding_grid();
    while tile.exists() {
        let own = x.get().fold_row_parts::<M, N, L, _>(tile, least, Rows::splat(0), |own, x, part| {
            own.zip(&largest(x, part * N as u32), u64::max)
        });
        let to = y.get().tile(tile.at(0));
        rows.reduce(own, u64::max).for_each(|row, first, all| {
            if first {
                to.put::<M, 1>(row, 0, !(all as u32) as i32);
            }
        });
        tile = tile.next();
    }
}
