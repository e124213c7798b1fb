//! The gradient of softmax and log-softmax of rows.

use core::f32::consts::LOG2_E;

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Element, Fragment, FragmentLayout, Global, RowMajor, RowOrder, RowTile, Rows, Unmapped, UnmappedMut,
    math,
};

use crate::program::{Prefetch, RowProgram, resident, resident_held};

/// Σ y dy of this thread's elements, or Σ dy.
#[inline(always)]
fn products<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    y: Fragment<T, M, N, L>,
    dy: Fragment<T, M, N, L>,
    log: bool,
) -> Rows<f32, M, N, L> {
    let dy = dy.map(T::to_f32);
    if log {
        return dy.fold_rows(0.0, |sum, dy| sum + dy);
    }
    dy.zip(&y, |dy, y| dy * y.to_f32()).fold_rows(0.0, |sum, product| sum + product)
}

/// The gradient, by the rows' sums.
#[inline(always)]
fn gradient<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    y: Fragment<T, M, N, L>,
    dy: Fragment<T, M, N, L>,
    sums: &Rows<f32, M, N, L>,
    scale: f32,
    log: bool,
) -> Fragment<T, M, N, L> {
    let (y, dy) = (y.map(T::to_f32), dy.map(T::to_f32));
    if log {
        let shares = y.map(|y| math::ex2(y * LOG2_E)).zip_rows(sums, |p, sum| p * sum);
        return dy.zip(&shares, |dy, share| (dy - share) * scale).cast::<T>();
    }
    dy.zip_rows(sums, |dy, sum| (dy - sum) * scale).zip(&y, |d, y| d * y).cast::<T>()
}

/// dx = s y (dy - Σ y dy) for y = softmax(s x) of every row, or s (dy - exp(y) Σ dy) for its logarithm.
///
/// y, dy and dx are \[batch, rows, columns\] with at most `N` `CTAS` columns. `scale` is s; y is a logarithm if `log` is not 0. A cluster of `CTAS`
/// CTAs takes tiles of `M` rows in the order of `order`, each CTA `N` columns of them.
#[kernel(
    program = P,
    cluster = [CTAS as u32, 1, 1],
    min_ctas = resident(P::THREADS, if T::BYTES == 2 { 512 } else { 256 }),
)]
pub fn softmax_gradient<
    P: RowProgram,
    F: Prefetch,
    T: Element,
    L,
    const M: usize,
    const N: usize,
    const CTAS: usize,
>(
    mut cta: Cta<P>,
    y: Unmapped<T, 3>,
    dy: Unmapped<T, 3>,
    dx: UnmappedMut<T, 3>,
    order: RowOrder,
    scale: f32,
    log: u32,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, CTAS>();
    let part = rows.part();
    let mut tile = RowTile::first(order, CTAS as u32);
    P::wait_for_preceding_grid();
    let load = |tile: RowTile| {
        let load = |from: Global<T, 3, RowMajor, 0>| {
            Fragment::<T, M, N, L>::load_rows(from.tile(tile.at(part)), T::ZERO)
        };
        (load(y.get()), load(dy.get()))
    };
    let mut ahead = (Fragment::splat(T::ZERO), Fragment::splat(T::ZERO));
    if F::NEXT {
        ahead = load(tile);
    }
    while tile.exists() {
        let ((y, dy), to) = (if F::NEXT { ahead } else { load(tile) }, dx.get().tile(tile.at(part)));
        tile = tile.next();
        if F::NEXT {
            ahead = load(tile);
        }
        let sums = rows.reduce(products(y, dy, log != 0), |a, b| a + b);
        gradient(y.anew(), dy.anew(), &sums, scale, log != 0).store_rows(to);
    }
}

/// As [`softmax_gradient`](fn@softmax_gradient), for rows of at most `N` `PLACES` columns that begin anywhere: shared memory holds those of y and
/// of dy, and what it has room for of the next ones.
#[kernel(program = P, min_ctas = resident_held(P::THREADS, 2 * N * T::BYTES, true))]
pub fn softmax_gradient_held<P: RowProgram, T: Element, L, const N: usize, const PLACES: usize>(
    mut cta: Cta<P>,
    y: Unmapped<T, 3>,
    dy: Unmapped<T, 3>,
    dx: UnmappedMut<T, 3>,
    order: RowOrder,
    scale: f32,
    log: u32,
) where
    L: FragmentLayout<1, N>,
{
    let mut rows = cta.row_reducer::<L, 1, N, 1>();
    P::wait_for_preceding_grid();
    let mut parts = cta.row_parts::<T, L, N, 1, PLACES, true, 2>([y.get(), dy.get()], order, T::ZERO);
    while parts.row().exists() {
        let own = parts
            .fold(Rows::splat(0.0), |sums, [y, dy], _| products(y, dy, log != 0).zip(&sums, |a, b| a + b));
        let sums = rows.reduce(own, |a, b| a + b);
        let mut to = parts.row_of(&mut dx.get());
        parts.take(|[y, dy], part| part.store(&gradient(y, dy, &sums, scale, log != 0), &mut to));
    }
}

/// As [`softmax_gradient`](fn@softmax_gradient), for rows of any length: they are read twice, `N` columns at a time.
#[kernel(program = P)]
pub fn softmax_gradient_long<P: RowProgram, T: Element, L, const M: usize, const N: usize>(
    mut cta: Cta<P>,
    y: Unmapped<T, 3>,
    dy: Unmapped<T, 3>,
    dx: UnmappedMut<T, 3>,
    order: RowOrder,
    scale: f32,
    log: u32,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, 1>();
    let mut tile = RowTile::first(order, 1);
    P::wait_for_preceding_grid();
    while tile.exists() {
        let by = |part| Fragment::<T, M, N, L>::load_rows(dy.get().tile(tile.at(part)), T::ZERO);
        let zero = Rows::<f32, M, N, L>::splat(0.0);
        let own = y.get().fold_row_parts::<M, N, L, _>(tile, T::ZERO, zero, |sums, y, part| {
            products(y, by(part), log != 0).zip(&sums, |a, b| a + b)
        });
        let sums = rows.reduce(own, |a, b| a + b);
        y.get().fold_row_parts::<M, N, L, _>(tile, T::ZERO, (), |(), y, part| {
            let to = dx.get().tile(tile.at(part));
            gradient(y, by(part), &sums, scale, log != 0).store_rows(to);
        });
        tile = tile.next();
    }
}
