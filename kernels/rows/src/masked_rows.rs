//! Softmax and log-softmax of masked rows.

use core::f32::consts::LOG2_E;

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Element, Fragment, FragmentLayout, RowOrder, RowPart, RowTile, Rows, Unmapped, UnmappedMut, math,
};

use crate::program::{RowProgram, resident, resident_held};
use crate::softmax_rows::{Sum, exponentials, over_lanes, results, results_of, sums_after};

/// What is added to scores: rows of `T`, or of f32, or none; and whether rows see no further than their own column.
#[derive(Clone, Copy)]
struct Mask<T: Element> {
    narrow: Unmapped<T, 3>,
    wide: Unmapped<f32, 3>,
    causal: bool,
}

impl<T: Element> Mask<T> {
    /// `scale` x + mask of the tile of columns `part`, of matrices of so many rows and columns.
    #[inline(always)]
    fn scores<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &self,
        x: Fragment<T, M, N, L>,
        scale: f32,
        at: [u32; 3],
        [rows, cols]: [u32; 2],
    ) -> Fragment<f32, M, N, L> {
        let scores = if self.wide.get().rows() > 0 {
            let mask = Fragment::<f32, M, N, L>::load_rows(self.wide.get().tile(at), 0.0);
            x.map(T::to_f32).zip(&mask, |x, mask| math::fma(x, scale, mask))
        } else if self.narrow.get().rows() > 0 {
            let mask = Fragment::<T, M, N, L>::load_rows(self.narrow.get().tile(at), T::ZERO);
            x.map(T::to_f32).zip(&mask, |x, mask| math::fma(x, scale, mask.to_f32()))
        } else {
            x.map(|x| x.to_f32() * scale)
        };
        if !self.causal {
            return scores;
        }
        let [_, row_tile, part] = at;
        scores
            .mask_beyond(|row| seen(row_tile * M as u32 + row, [rows, cols]).saturating_sub(part * N as u32))
    }

    /// The same of a part of the row at `at` that begins anywhere, with that of a mask of `T`.
    ///
    /// Not for [`masked_softmax_held`](fn@masked_softmax_held), which spills with it.
    #[inline(always)]
    fn scores_of_part<L: FragmentLayout<1, N>, const N: usize>(
        &self,
        [row, held]: [Fragment<T, 1, N, L>; 2],
        (at, part): ([u32; 3], &RowPart),
        scale: f32,
        size: [u32; 2],
    ) -> Fragment<f32, 1, N, L> {
        let scores = if self.narrow.get().rows() > 0 {
            row.map(T::to_f32).zip(&held, |x, mask| math::fma(x, scale, mask.to_f32()))
        } else if self.wide.get().rows() > 0 {
            let mask = self.wide.get().tile(at);
            row.map_indexed(|_, col, x| {
                math::fma(x.to_f32(), scale, mask.element::<1, N>(0, part.first().wrapping_add(col)))
            })
        } else {
            row.map(|x| x.to_f32() * scale)
        };
        if !self.causal {
            return scores;
        }
        let end = seen(at[1], size);
        scores.mask_beyond(|_| (end.wrapping_sub(part.first()) as i32).max(0) as u32)
    }
}

/// The columns that row `row` of a matrix of so many rows and columns sees, where rows see no further than their own: the last one sees all.
#[inline(always)]
fn seen(row: u32, [rows, cols]: [u32; 2]) -> u32 {
    let end = row + 1;
    if cols < rows { end.saturating_sub(rows - cols) } else { end + (cols - rows) }
}

/// y = softmax(s x + mask) or its logarithm of every row, for x and y \[batch, rows, columns\] with at most `N` `CTAS` columns.
///
/// The mask is of the same shape in `mask` or in `wide_mask`, or none: those that are not there have no elements. If `causal` is not 0, row i's
/// columns from i + 1 + columns - rows on do not count. `scale` is s, and positive; the logarithm is taken if `log` is not 0. A cluster of
/// `CTAS` CTAs takes tiles of `M` rows in the order of `order`, each CTA `N` columns of them. A row of which nothing is left becomes zeros, or -inf
/// where the logarithm is taken.
#[kernel(
    program = P,
    cluster = [CTAS as u32, 1, 1],
    min_ctas = resident(P::THREADS, if T::BYTES == 2 && L::RUN > 1 { 1024 } else { 512 }),
)]
pub fn masked_softmax<P: RowProgram, T: Element, L, const M: usize, const N: usize, const CTAS: usize>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    mask: Unmapped<T, 3>,
    wide_mask: Unmapped<f32, 3>,
    y: UnmappedMut<T, 3>,
    order: RowOrder,
    scale: f32,
    log: u32,
    causal: u32,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, CTAS>();
    let part = rows.part();
    let mask = Mask { narrow: mask, wide: wide_mask, causal: causal != 0 };
    let [least, _] = T::from_f32x2(f32::NEG_INFINITY, f32::NEG_INFINITY);
    let mut tile = RowTile::first(order, CTAS as u32);
    P::wait_for_preceding_grid();
    while tile.exists() {
        let at = tile.at(part);
        let row = Fragment::<T, M, N, L>::load_rows(x.get().tile(at), least);
        let scores = mask.scores(row, scale, at, [x.get().rows(), x.get().cols()]);
        let (z, own) = exponentials(scores, LOG2_E, log != 0);
        let all = rows.across_warps(own, |a, b| a.with(b, LOG2_E));
        results_of::<T, L, M, N>((z, own), &all, LOG2_E, log != 0).store_rows(y.get().tile(at));
        tile = tile.next();
    }
}

/// As [`masked_softmax`](fn@masked_softmax), for rows of contiguous tensors that begin anywhere, with at most `N` columns less those of a vector but
/// one: a row a CTA, of which an SM holds as many as have `RESIDENT` threads.
#[kernel(program = P, min_ctas = resident(P::THREADS, RESIDENT))]
pub fn masked_softmax_ragged<P: RowProgram, T: Element, L, const N: usize, const RESIDENT: u32>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    mask: Unmapped<T, 3>,
    wide_mask: Unmapped<f32, 3>,
    y: UnmappedMut<T, 3>,
    order: RowOrder,
    scale: f32,
    log: u32,
    causal: u32,
) where
    L: FragmentLayout<1, N>,
{
    let mut rows = cta.row_reducer::<L, 1, N, 1>();
    let [least, _] = T::from_f32x2(f32::NEG_INFINITY, f32::NEG_INFINITY);
    P::wait_for_preceding_grid();
    let tile = RowTile::first(order, 1);
    let part = x.get().ragged_part::<L, 1, N>(tile, 0);
    let row = part.load::<T, L, 1, N>(&x.get(), least);
    let held = if mask.get().rows() > 0 { part.load(&mask.get(), T::ZERO) } else { Fragment::splat(T::ZERO) };
    let mask = Mask { narrow: mask, wide: wide_mask, causal: causal != 0 };
    let scores =
        mask.scores_of_part([row, held], (tile.at(0), &part), scale, [x.get().rows(), x.get().cols()]);
    let (z, own) = exponentials(scores, LOG2_E, log != 0);
    let all = rows.across_warps(own, |a, b| a.with(b, LOG2_E));
    part.store(&results_of::<T, L, 1, N>((z, own), &all, LOG2_E, log != 0), &mut part.row_of(&mut y.get()));
}

/// As [`masked_softmax`](fn@masked_softmax), for rows of at most `N` `PLACES` columns that begin anywhere: shared memory holds those of x and of a mask
/// of its type, and what it has room for of the next ones.
#[kernel(program = P, min_ctas = resident_held(P::THREADS, 2 * N * T::BYTES, true))]
pub fn masked_softmax_held<P: RowProgram, T: Element, L, const N: usize, const PLACES: usize>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    mask: Unmapped<T, 3>,
    wide_mask: Unmapped<f32, 3>,
    y: UnmappedMut<T, 3>,
    order: RowOrder,
    scale: f32,
    log: u32,
    causal: u32,
) where
    L: FragmentLayout<1, N>,
{
    let mut rows = cta.row_reducer::<L, 1, N, 1>();
    let [least, _] = T::from_f32x2(f32::NEG_INFINITY, f32::NEG_INFINITY);
    P::wait_for_preceding_grid();
    let (narrow, wide) = (mask.get().rows() > 0, wide_mask.get().rows() > 0);
    // Without such a mask x has its place.
    let held = [x.get(), if narrow { mask.get() } else { x.get() }];
    let mut parts = cta.row_parts::<T, L, N, 1, PLACES, true, 2>(held, order, least);
    while parts.row().exists() {
        let at = parts.row().at(0);
        let scores = |[row, held]: [Fragment<T, 1, N, L>; 2], part: RowPart| {
            let scores = if narrow {
                row.map(T::to_f32).zip(&held, |x, mask| math::fma(x, scale, mask.to_f32()))
            } else if wide {
                let mask = wide_mask.get().tile(at);
                row.map_indexed(|_, col, x| {
                    math::fma(x.to_f32(), scale, mask.element::<1, N>(0, part.first().wrapping_add(col)))
                })
            } else {
                row.map(|x| x.to_f32() * scale)
            };
            if causal == 0 {
                return scores;
            }
            let end = seen(at[1], [x.get().rows(), x.get().cols()]);
            scores.mask_beyond(|_| (end.wrapping_sub(part.first()) as i32).max(0) as u32)
        };
        let own =
            parts.fold(Rows::splat(Sum::NONE), |own, held, part| sums_after(scores(held, part), own, LOG2_E));
        let all = rows.across_warps(over_lanes(own, LOG2_E), |a, b| a.with(b, LOG2_E));
        let mut to = parts.row_of(&mut y.get());
        parts.take(|held, part| {
            part.store(&results::<T, f32, L, 1, N>(scores(held, part), &all, LOG2_E, log != 0), &mut to);
        });
    }
}

/// As [`masked_softmax`](fn@masked_softmax), for rows of any length: they are read twice, `N` columns at a time.
#[kernel(program = P)]
pub fn masked_softmax_long<P: RowProgram, T: Element, L, const M: usize, const N: usize>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    mask: Unmapped<T, 3>,
    wide_mask: Unmapped<f32, 3>,
    y: UnmappedMut<T, 3>,
    order: RowOrder,
    scale: f32,
    log: u32,
    causal: u32,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, 1>();
    let mask = Mask { narrow: mask, wide: wide_mask, causal: causal != 0 };
    let [least, _] = T::from_f32x2(f32::NEG_INFINITY, f32::NEG_INFINITY);
    let mut tile = RowTile::first(order, 1);
    P::wait_for_preceding_grid();
    while tile.exists() {
        let scores = |row, part| mask.scores(row, scale, tile.at(part), [x.get().rows(), x.get().cols()]);
        let none = Rows::splat(Sum::NONE);
        let own = x.get().fold_row_parts::<M, N, L, _>(tile, least, none, |own, row, part| {
            sums_after(scores(row, part), own, LOG2_E)
        });
        let all = rows.across_warps(over_lanes(own, LOG2_E), |a, b| a.with(b, LOG2_E));
        x.get().fold_row_parts::<M, N, L, _>(tile, least, (), |(), row, part| {
            let to = y.get().tile(tile.at(part));
            results::<T, f32, L, M, N>(scores(row, part), &all, LOG2_E, log != 0).store_rows(to);
        });
        tile = tile.next();
    }
}
