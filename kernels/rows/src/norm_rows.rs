//! RMSNorm and LayerNorm of rows, with weights, biases and residual addition.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Element, Fragment, FragmentLayout, Global, GlobalMut, InBlock, RowOrder, RowTile, Rows, math,
};

use crate::program::{Prefetch, Residual, RowProgram, resident};

/// Adds in f32.
#[inline(always)]
fn sum<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Fragment<T, M, N, L>,
    residual: &Fragment<T, M, N, L>,
) -> Fragment<f32, M, N, L> {
    x.map(T::to_f32).zip(residual, |x, r| x + r.to_f32())
}

/// The distances from the rows' means; 0 in columns from `inside` on, which are none of the rows'.
#[inline(always)]
fn distances<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    s: Fragment<f32, M, N, L>,
    mean: &Rows<f32, M, N, L>,
    inside: u32,
) -> Fragment<f32, M, N, L> {
    s.zip_rows(mean, |s, mean| s - mean).map_indexed(|_, col, d| if col < inside { d } else { 0.0 })
}

/// d r w + b, rounded, for the columns of tile `part`.
#[inline(always)]
fn scaled<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    d: Fragment<f32, M, N, L>,
    r: &Rows<f32, M, N, L>,
    [weight, bias]: [InBlock<Global<T, 3>>; 2],
    part: u32,
) -> Fragment<T, M, N, L> {
    let [one, zero] = T::from_f32x2(1.0, 0.0);
    let y = d.zip_rows(r, |d, r| d * r).zip_row(weight.get().tile([0, 0, part]), one, |y, w| y * w);
    y.zip_row(bias.get().tile([0, 0, part]), zero, |y, b| y + b).cast::<T>()
}

/// y = (s - mean) / sqrt(mean of (s - mean)² + epsilon) w + b of every row of s = x + residual, the mean being that of s if `centred` is not 0
/// and else 0: LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019).
///
/// x, residual, y and sum, which becomes s rounded, \[batch, rows, columns\] with at most `N` `CTAS` columns; w and b \[1, 1, columns\], or without
/// elements where they are 1 and 0. `per_column` is one over the columns. Without residual addition (`R`) residual and sum are not used.
/// A cluster of `CTAS` CTAs takes tiles of `M` rows in the order of `order`, each CTA `N` columns of them.
#[kernel(
    program = P,
    cluster = [CTAS as u32, 1, 1],
    min_ctas = resident(P::THREADS, match T::BYTES {
        2 if R::ADDED => 512,
        2 if F::PERSISTENT => 640,
        2 => 768,
        _ => 256,
    }),
)]
pub fn norm<
    P: RowProgram,
    F: Prefetch,
    R: Residual,
    T: Element,
    L,
    const M: usize,
    const N: usize,
    const CTAS: usize,
>(
    mut cta: Cta<P>,
    x: InBlock<Global<T, 3>>,
    residual: InBlock<Global<T, 3>>,
    weight: InBlock<Global<T, 3>>,
    bias: InBlock<Global<T, 3>>,
    y: InBlock<GlobalMut<T, 3>>,
    sums: InBlock<GlobalMut<T, 3>>,
    order: RowOrder,
    per_column: f32,
    epsilon: f32,
    centred: u32,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, CTAS>();
    let part = rows.part();
    let mut tile = RowTile::first(order, CTAS as u32);
    P::wait_for_preceding_grid();
    let load = |tile: RowTile| {
        let x = Fragment::<T, M, N, L>::load_rows(x.get().tile(tile.at(part)), T::ZERO);
        let mut r = Fragment::<T, M, N, L>::splat(T::ZERO);
        if R::ADDED {
            r = Fragment::load_rows(residual.get().tile(tile.at(part)), T::ZERO);
        }
        (x, r)
    };
    let mut ahead = (Fragment::splat(T::ZERO), Fragment::splat(T::ZERO));
    if F::NEXT {
        ahead = load(tile);
    }
    while tile.exists() {
        let ((row, r), at) = (if F::NEXT { ahead } else { load(tile) }, tile.at(part));
        tile = tile.next();
        if F::NEXT {
            ahead = load(tile);
        }
        // A sum is held in f32; rows in `T`, and converted for each use.
        let mut s = Fragment::<f32, M, N, L>::zero();
        if R::ADDED {
            s = sum(row, &r);
            s.cast::<T>().store_rows(sums.get().tile(at));
        }
        let values = || if R::ADDED { s } else { row.anew().map(T::to_f32) };
        let mut mean = Rows::splat(0.0);
        if centred != 0 {
            mean = rows.reduce_rows(&values(), 0.0, |a, b| a + b).map(|sum| sum * per_column);
        }
        // Read here: what each column's test gives is in no register over the loop.
        let inside = x.get().cols().saturating_sub(part * N as u32);
        let d = distances(values(), &mean, inside);
        let squares = rows.reduce(d.fold_rows(0.0, |sum, d| math::fma(d, d, sum)), |a, b| a + b);
        let by = squares.map(|sum| math::rsqrt(math::fma(sum, per_column, epsilon)));
        let d = if R::ADDED { d } else { values().zip_rows(&mean, |s, mean| s - mean) };
        scaled::<T, L, M, N>(d, &by, [weight, bias], part).store_rows(y.get().tile(at));
    }
}

/// As [`norm`](fn@norm), for rows of any length: they are read twice, three times where they are centred, `N` columns at a time. Without
/// residual addition residual and sum have no elements.
#[kernel(program = P)]
pub fn norm_long<P: RowProgram, T: Element, L, const M: usize, const N: usize>(
    mut cta: Cta<P>,
    x: InBlock<Global<T, 3>>,
    residual: InBlock<Global<T, 3>>,
    weight: InBlock<Global<T, 3>>,
    bias: InBlock<Global<T, 3>>,
    y: InBlock<GlobalMut<T, 3>>,
    sums: InBlock<GlobalMut<T, 3>>,
    order: RowOrder,
    per_column: f32,
    epsilon: f32,
    centred: u32,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, 1>();
    let mut tile = RowTile::first(order, 1);
    P::wait_for_preceding_grid();
    while tile.exists() {
        let added = |x, part| sum(x, &Fragment::load_rows(residual.get().tile(tile.at(part)), T::ZERO));
        let inside = |part: u32| x.get().cols() - part * N as u32;
        let mut mean = Rows::<f32, M, N, L>::splat(0.0);
        if centred != 0 {
            let own = x.get().fold_row_parts::<M, N, L, _>(tile, T::ZERO, mean, |sums, x, part| {
                added(x, part).fold_rows(0.0, |sum, s| sum + s).zip(&sums, |a, b| a + b)
            });
            mean = rows.reduce(own, |a, b| a + b).map(|sum| sum * per_column);
        }
        let zero = Rows::<f32, M, N, L>::splat(0.0);
        let own = x.get().fold_row_parts::<M, N, L, _>(tile, T::ZERO, zero, |sums, x, part| {
            let d = distances(added(x, part), &mean, inside(part));
            d.fold_rows(0.0, |sum, d| math::fma(d, d, sum)).zip(&sums, |a, b| a + b)
        });
        let squares = rows.reduce(own, |a, b| a + b);
        let by = squares.map(|sum| math::rsqrt(math::fma(sum, per_column, epsilon)));
        x.get().fold_row_parts::<M, N, L, _>(tile, T::ZERO, (), |(), x, part| {
            let s = added(x, part);
            s.cast::<T>().store_rows(sums.get().tile(tile.at(part)));
            let d = distances(s, &mean, inside(part));
            scaled::<T, L, M, N>(d, &by, [weight, bias], part).store_rows(y.get().tile(tile.at(part)));
        });
        tile = tile.next();
    }
}
