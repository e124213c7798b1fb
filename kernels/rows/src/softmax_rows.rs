//! Softmax and log-softmax of rows.

use core::f32::consts::LN_2;

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Element, Fragment, FragmentLayout, Global, GlobalMut, InBlock, RowOrder, RowTile, Rows, math,
};

use crate::program::{Prefetch, RowProgram, resident, resident_held};

/// The maximum of some scores, and the sum of their exponentials by it (Milakov & Gimelshein 2018).
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    max: f32,
    sum: f32,
}

impl Sum {
    pub(crate) const NONE: Self = Sum { max: f32::NEG_INFINITY, sum: 0.0 };

    /// What scores are counted from: without any, 2 ^ (-inf - 0) and not 2 ^ (-inf + inf).
    #[inline(always)]
    pub(crate) fn origin(&self) -> f32 {
        if self.max == f32::NEG_INFINITY { 0.0 } else { self.max }
    }
    /// The sum of both; scores times `scale` are exponents of 2.
    #[inline(always)]
    pub(crate) fn with(self, other: Self, scale: f32) -> Self {
        let both = Sum { max: math::max(self.max, other.max), sum: 0.0 };
        let by = |part: Self| part.sum * math::ex2((part.max - both.origin()) * scale);
        Sum { sum: by(self) + by(other), ..both }
    }
    /// The logarithm of the sum, base 2; 0 of no scores, all of which then stay -inf.
    #[inline(always)]
    pub(crate) fn log2(&self) -> f32 {
        if self.sum == 0.0 { 0.0 } else { math::lg2(self.sum) }
    }
}

/// The exponents of 2 of this thread's scores, from the maximum of each of its rows on, and what they sum up to.
#[inline(always)]
pub(crate) fn exponents<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Fragment<T, M, N, L>,
    before: Rows<Sum, M, N, L>,
    scale: f32,
) -> (Fragment<f32, M, N, L>, Rows<Sum, M, N, L>) {
    let x = x.map(T::to_f32);
    let max =
        x.fold_rows(f32::NEG_INFINITY, math::max).zip(&before, |max, before| math::max(max, before.max));
    let origin = max.map(|max| Sum { max, sum: 0.0 }.origin());
    let z = x.zip_rows(&origin, |x, origin| (x - origin) * scale);
    let sums = z.fold_rows(0.0, |sum, z| sum + math::ex2(z));
    let own = max.map(|max| Sum { max, sum: 0.0 }).zip(&sums, |own, sum| Sum { sum, ..own });
    let rescaled = own.zip(&before, |own, before| Sum {
        sum: own.sum + before.sum * math::ex2((before.max - own.origin()) * scale),
        ..own
    });
    (z, rescaled)
}

/// The exponents of 2 of scores, counted from `origin` in each row.
#[inline(always)]
pub(crate) fn exponents_from<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Fragment<T, M, N, L>,
    origin: &Rows<f32, M, N, L>,
    scale: f32,
) -> Fragment<f32, M, N, L> {
    x.map(T::to_f32).zip_rows(origin, |x, origin| (x - origin) * scale)
}

/// The results of exponents counted from `from`, where `all` is the rows' sum.
#[inline(always)]
pub(crate) fn results<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    z: Fragment<f32, M, N, L>,
    from: Rows<f32, M, N, L>,
    all: &Rows<Sum, M, N, L>,
    scale: f32,
    log: bool,
) -> Fragment<T, M, N, L> {
    let shift = from.zip(all, |from, all| (from - all.origin()) * scale - all.log2());
    let z = z.zip_rows(&shift, |z, shift| z + shift);
    if log { z.map(|z| z * LN_2).cast::<T>() } else { z.map(math::ex2).cast::<T>() }
}

/// y = softmax(s x) or log softmax(s x) of every row, for x and y \[batch, rows, columns\] with at most `N` `CTAS` columns.
///
/// `scale` is s log2(e), and positive; the logarithm is taken if `log` is not 0. A cluster of `CTAS` CTAs takes tiles of `M` rows in the
/// order of `order`, each CTA `N` columns of them. A row that is all -inf becomes zeros,
/// or -inf where the logarithm is taken.
#[kernel(
    program = P,
    cluster = [CTAS as u32, 1, 1],
    min_ctas = resident(P::THREADS, match T::BYTES {
        2 if F::PERSISTENT || M * N > 32 * P::THREADS as usize => 768,
        2 => 1024,
        _ => 512,
    }),
)]
pub fn softmax<P: RowProgram, F: Prefetch, T: Element, L, const M: usize, const N: usize, const CTAS: usize>(
    mut cta: Cta<P>,
    x: InBlock<Global<T, 3>>,
    y: InBlock<GlobalMut<T, 3>>,
    order: RowOrder,
    scale: f32,
    log: u32,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, CTAS>();
    let part = rows.part();
    let [least, _] = T::from_f32x2(f32::NEG_INFINITY, f32::NEG_INFINITY);
    let mut tile = RowTile::first(order, CTAS as u32);
    P::wait_for_preceding_grid();
    let load = |tile: RowTile| Fragment::<T, M, N, L>::load_rows(x.get().tile(tile.at(part)), least);
    let mut ahead = Fragment::splat(least);
    if F::NEXT {
        ahead = load(tile);
    }
    while tile.exists() {
        let (scores, to) = (if F::NEXT { ahead } else { load(tile) }, y.get().tile(tile.at(part)));
        tile = tile.next();
        if F::NEXT {
            ahead = load(tile);
        }
        let (z, own) = exponents(scores, Rows::splat(Sum::NONE), scale);
        let all = rows.reduce(own, |a, b| a.with(b, scale));
        results::<T, L, M, N>(z, own.map(|own| own.origin()), &all, scale, log != 0).store_rows(to);
    }
}

/// As [`softmax`](fn@softmax), for rows of at most `N` `CTAS` `PLACES` columns: shared memory holds them, and what it has room for of the next
/// ones.
#[kernel(program = P, cluster = [CTAS as u32, 1, 1], min_ctas = resident_held(P::THREADS, N * T::BYTES, RAGGED))]
pub fn softmax_held<
    P: RowProgram,
    T: Element,
    L,
    const N: usize,
    const CTAS: usize,
    const PLACES: usize,
    const RAGGED: bool,
>(
    mut cta: Cta<P>,
    x: InBlock<Global<T, 3>>,
    y: InBlock<GlobalMut<T, 3>>,
    order: RowOrder,
    scale: f32,
    log: u32,
) where
    L: FragmentLayout<1, N>,
{
    let mut rows = cta.row_reducer::<L, 1, N, CTAS>();
    let [least, _] = T::from_f32x2(f32::NEG_INFINITY, f32::NEG_INFINITY);
    P::wait_for_preceding_grid();
    let mut parts = cta.row_parts::<T, L, N, CTAS, PLACES, RAGGED, 1>([x.get()], order, least);
    while parts.row().exists() {
        let own = parts.fold(Rows::splat(Sum::NONE), |own, [scores], _| exponents(scores, own, scale).1);
        let all = rows.reduce(own, |a, b| a.with(b, scale));
        let origin = all.map(|all| all.origin());
        parts.take(|[scores], part| {
            let z = exponents_from(scores, &origin, scale);
            part.store(&results::<T, L, 1, N>(z, origin, &all, scale, log != 0), &mut y.get());
        });
    }
}

/// As [`softmax`](fn@softmax), for rows of any length: they are read twice, `N` columns at a time.
#[kernel(program = P)]
pub fn softmax_long<P: RowProgram, T: Element, L, const M: usize, const N: usize>(
    mut cta: Cta<P>,
    x: InBlock<Global<T, 3>>,
    y: InBlock<GlobalMut<T, 3>>,
    order: RowOrder,
    scale: f32,
    log: u32,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, 1>();
    let [least, _] = T::from_f32x2(f32::NEG_INFINITY, f32::NEG_INFINITY);
    let mut tile = RowTile::first(order, 1);
    P::wait_for_preceding_grid();
    while tile.exists() {
        let own =
            x.get().fold_row_parts::<M, N, L, _>(tile, least, Rows::splat(Sum::NONE), |own, scores, _| {
                exponents(scores, own, scale).1
            });
        let all = rows.reduce(own, |a, b| a.with(b, scale));
        let origin = all.map(|all| all.origin());
        x.get().fold_row_parts::<M, N, L, _>(tile, least, (), |(), scores, part| {
            let z = exponents_from(scores, &origin, scale);
            results::<T, L, M, N>(z, origin, &all, scale, log != 0).store_rows(y.get().tile(tile.at(part)));
        });
        tile = tile.next();
    }
}
