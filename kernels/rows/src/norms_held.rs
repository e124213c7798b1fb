//! RMSNorm and LayerNorm of rows that lie in shared memory, or begin anywhere.

use tilewright_device::arch::special::trap;
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cols, ColumnsFrom, Cta, Element, Fragment, FragmentLayout, GlobalMut, RowMajor, RowOrder, RowPart,
    RowReducer, RowTile, Rows, Unmapped, UnmappedMut, math,
};

use crate::norm_rows::{Moments, by_rows, columns, moments_inside, of_row, scaled, squares_inside, sum};
use crate::program::{Residual, RowProgram, resident, resident_held};

/// As [`norm`](fn@crate::norm), for rows of at most `N` `CTAS` `PLACES` columns: shared memory holds them, and what it has room for of the next ones.
/// `TERMS` is 2 where a residual is added, and 1 where none is: then residual and sum are not used.
#[kernel(program = P, cluster = [CTAS as u32, 1, 1], min_ctas = resident_held(P::THREADS, TERMS * N * T::BYTES, RAGGED))]
pub fn norm_held<
    P: RowProgram,
    T: Element,
    L,
    const N: usize,
    const CTAS: usize,
    const PLACES: usize,
    const RAGGED: bool,
    const TERMS: usize,
>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    residual: Unmapped<T, 3>,
    weight: Unmapped<T, 3>,
    bias: Unmapped<T, 3>,
    y: UnmappedMut<T, 3>,
    sums: UnmappedMut<T, 3>,
    order: RowOrder,
    per_column: f32,
    epsilon: f32,
    centred: u32,
) where
    L: FragmentLayout<1, N>,
{
    const { assert!(TERMS == 1 || TERMS == 2, "a row, or a row and a residual") };
    let mut rows = cta.row_reducer::<L, 1, N, CTAS>();
    P::wait_for_preceding_grid();
    let mut terms = [x.get(); TERMS];
    if TERMS > 1 {
        terms[TERMS - 1] = residual.get();
    }
    let sum = |terms: [Fragment<T, 1, N, L>; TERMS]| {
        if TERMS > 1 { sum(terms[0], &terms[TERMS - 1]) } else { terms[0].map(T::to_f32) }
    };
    let mut parts = cta.row_parts::<T, L, N, CTAS, PLACES, RAGGED, TERMS>(terms, order, T::ZERO);
    let ([one, zero], at) = (T::from_f32x2(1.0, 0.0), [0, 0, 0]);
    let from = RAGGED
        .then(|| [ColumnsFrom::new(weight.get().tile(at), one), ColumnsFrom::new(bias.get().tile(at), zero)]);
    let part = rows.part();
    while parts.row().exists() {
        // On their way while the row is reduced; behind them those of the next part while one is computed.
        let mut ahead = [Cols::splat(one), Cols::splat(zero)];
        if !RAGGED {
            ahead = columns([&weight, &bias], part);
        }
        let own = parts.fold(Rows::splat(Moments::NONE), |before, terms, part| {
            let s = sum(terms);
            let own = moments_inside(|| s, &part, centred != 0);
            own.zip(&before, |own, before| before.and(own, centred != 0))
        });
        let by = by_rows(&of_row(&mut rows, own, centred != 0), (per_column, epsilon));
        let mut to = parts.row_of(&mut y.get());
        let mut sums_to = if TERMS > 1 { Some(parts.row_of(&mut sums.get())) } else { None };
        parts.take(|terms, part| {
            let by_column = match &from {
                Some([weight, bias]) => [weight.load(part.first()), bias.load(part.first())],
                None => {
                    let next = part.number() + CTAS as u32;
                    core::mem::replace(&mut ahead, columns([&weight, &bias], next))
                }
            };
            let s = sum(terms);
            if let Some(to) = &mut sums_to {
                part.store(&s.cast::<T>(), to);
            }
            part.store(&scaled::<T, L, 1, N>(s, &by, by_column), &mut to);
        });
    }
}

/// As [`norm`](fn@crate::norm), for rows of contiguous tensors that begin anywhere, with at most `N` `CTAS` columns less those of a vector but one: one tile
/// a CTA. Without a residual that and the sum are not used.
#[kernel(
    program = P,
    cluster = [CTAS as u32, 1, 1],
    min_ctas = resident(P::THREADS, if R::ADDED { 512 } else if P::THREADS < 512 { 768 } else { 1024 }),
)]
pub fn norm_ragged<
    P: RowProgram,
    R: Residual,
    T: Element,
    L,
    const M: usize,
    const N: usize,
    const CTAS: usize,
>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    residual: Unmapped<T, 3>,
    weight: Unmapped<T, 3>,
    bias: Unmapped<T, 3>,
    y: UnmappedMut<T, 3>,
    sums: UnmappedMut<T, 3>,
    order: RowOrder,
    per_column: f32,
    epsilon: f32,
    centred: u32,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, CTAS>();
    P::wait_for_preceding_grid();
    let part = x.get().ragged_part::<L, M, N>(RowTile::first(order, CTAS as u32), rows.part());
    let row = part.load::<T, L, M, N>(&x.get(), T::ZERO);
    let (columns, how) = ([weight, bias], (per_column, epsilon, centred != 0));
    if R::ADDED {
        let s = sum(row, &part.load::<T, L, M, N>(&residual.get(), T::ZERO));
        part.store(&s.cast::<T>(), &mut part.row_of(&mut sums.get()));
        store_normalised(&mut rows, || s, &part, columns, y.get(), how);
    } else {
        store_normalised(&mut rows, || row.anew(), &part, columns, y.get(), how);
    }
}

/// The moments of rows of which registers hold a part, which `values` gives.
#[inline(always)]
fn moments_of_part<
    P: RowProgram,
    X: Element,
    L: FragmentLayout<M, N>,
    const M: usize,
    const N: usize,
    const CTAS: usize,
>(
    rows: &mut RowReducer<P, L, M, N, CTAS>,
    values: impl Fn() -> Fragment<X, M, N, L>,
    part: &RowPart,
    per_column: f32,
    centred: bool,
) -> Rows<Moments, M, N, L> {
    if CTAS > 1 && centred {
        // A second barrier of the cluster would take longer than to merge moments.
        return rows.reduce(moments_inside(&values, part, true), Moments::with);
    }
    let mut mean = 0.0;
    if centred {
        let own = values().fold_rows(0.0, |sum, x| sum + x.to_f32());
        mean = rows.reduce(own, |a, b| a + b).regs.get(0) * per_column;
    }
    let own = Rows::splat(squares_inside(&values(), part, mean));
    rows.reduce(own, |a, b| a + b).map(|squares| Moments { mean, squares, ..Moments::NONE })
}

/// Stores a part of rows, normalised, of which registers hold what `values` gives.
#[inline(always)]
fn store_normalised<
    P: RowProgram,
    X: Element,
    T: Element,
    L: FragmentLayout<M, N>,
    const M: usize,
    const N: usize,
    const CTAS: usize,
>(
    rows: &mut RowReducer<P, L, M, N, CTAS>,
    values: impl Fn() -> Fragment<X, M, N, L>,
    part: &RowPart,
    columns: [Unmapped<T, 3>; 2],
    mut y: GlobalMut<T, 3, RowMajor, 0>,
    (per_column, epsilon, centred): (f32, f32, bool),
) {
    let all = moments_of_part(rows, &values, part, per_column, centred);
    let (mean, (r, _)) = (all.regs.get(0).mean, by_rows(&all, (per_column, epsilon)).regs.get(0));
    let ([one, zero], [weight, bias], at) = (T::from_f32x2(1.0, 0.0), columns, [0, 0, 0]);
    let columns = [(weight, one), (bias, zero)]
        .map(|(from, outside)| ColumnsFrom::for_part::<L, M, N, 3, 0>(from.get().tile(at), outside, part));
    part.store_with_cols(&values(), &mut part.row_of(&mut y), &columns, |s, [w, b]| {
        math::fma((s - mean) * r, w.to_f32(), b.to_f32())
    });
}

/// As [`norm_ragged`](fn@norm_ragged) without a residual, of tiles of which each thread's rows begin alike behind a multiple of 16 bytes: it has the weights and biases of the same
/// columns of each, in registers, over all tiles of its CTA. The CTAs of a grid are as many as have tiles, or so many that rows of as many tiles fill whole
/// vectors of 16 bytes; the kernel traps at others.
#[kernel(program = P, min_ctas = resident(P::THREADS, if L::Regs::<f32>::LEN > 16 { 512 } else { 768 }))]
pub fn norm_alike<P: RowProgram, T: Element, L, const M: usize, const N: usize>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    _residual: Unmapped<T, 3>,
    weight: Unmapped<T, 3>,
    bias: Unmapped<T, 3>,
    y: UnmappedMut<T, 3>,
    _sums: UnmappedMut<T, 3>,
    order: RowOrder,
    per_column: f32,
    epsilon: f32,
    centred: u32,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, 1>();
    P::wait_for_preceding_grid();
    let mut tile = RowTile::first(order, 1);
    let first = x.get().ragged_part::<L, M, N>(tile, 0).first();
    let [one, zero] = T::from_f32x2(1.0, 0.0);
    let by_column = [(weight, one), (bias, zero)]
        .map(|(from, outside)| ColumnsFrom::new(from.get().tile([0, 0, 0]), outside).load(first));
    while tile.exists() {
        let part = x.get().ragged_part::<L, M, N>(tile, 0);
        if part.inside()[1] > 0 && part.first() != first {
            trap();
        }
        tile = tile.next();
        let row = part.load::<T, L, M, N>(&x.get(), T::ZERO);
        let all = moments_of_part(&mut rows, || row.anew(), &part, per_column, centred != 0);
        let by = by_rows(&all, (per_column, epsilon));
        let result = scaled::<T, L, M, N>(row.anew().map(T::to_f32), &by, by_column.map(Cols::anew));
        part.store(&result, &mut part.row_of(&mut y.get()));
    }
}
