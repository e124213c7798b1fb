//! Softmax and log-softmax of rows.

use core::f32::consts::LN_2;

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Element, Fragment, FragmentLayout, RowOrder, RowReducer, RowTile, Rows, Unmapped, UnmappedMut, math,
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

/// The largest of what this thread has of each row: every fourth element waits for the one before it, and not each.
#[inline(always)]
fn largest<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: &Fragment<f32, M, N, L>,
) -> Rows<f32, M, N, L> {
    x.fold_rows([f32::NEG_INFINITY; 4], |[a, b, c, d], x| [b, c, d, math::max(a, x)])
        .map(|[a, b, c, d]| math::max(math::max(a, b), math::max(c, d)))
}

/// The sum of `f` of what this thread has of each row, as [`largest`] goes about it.
#[inline(always)]
fn total<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: &Fragment<f32, M, N, L>,
    f: impl Fn(f32) -> f32,
) -> Rows<f32, M, N, L> {
    x.fold_rows([0.0; 4], |[a, b, c, d], x| [b, c, d, a + f(x)]).map(|[a, b, c, d]| (a + b) + (c + d))
}

/// The maximum of this thread's scores and of those `before`, and the sum of their exponentials by it.
#[inline(always)]
pub(crate) fn sums_after<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Fragment<T, M, N, L>,
    before: Rows<Sum, M, N, L>,
    scale: f32,
) -> Rows<Sum, M, N, L> {
    let x = x.map(T::to_f32);
    let max = largest(&x).zip(&before, |max, before| math::max(max, before.max));
    let origin = max.map(|max| Sum { max, sum: 0.0 }.origin());
    let sums = total(&x.zip_rows(&origin, |x, origin| (x - origin) * scale), math::ex2);
    let own = max.map(|max| Sum { max, sum: 0.0 }).zip(&sums, |own, sum| Sum { sum, ..own });
    own.zip(&before, |own, before| Sum {
        sum: own.sum + before.sum * math::ex2((before.max - own.origin()) * scale),
        ..own
    })
}

/// The sums of the lanes that share a row: their maximum first, so that each rescales its sum once.
#[inline(always)]
pub(crate) fn over_lanes<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    own: Rows<Sum, M, N, L>,
    scale: f32,
) -> Rows<Sum, M, N, L> {
    let max = own.map(|own| own.max).across_lanes(math::max);
    let sums = max
        .zip(&own, |max, own| own.sum * math::ex2((own.max - Sum { max, sum: 0.0 }.origin()) * scale))
        .across_lanes(|a, b| a + b);
    max.map(|max| Sum { max, sum: 0.0 }).zip(&sums, |all, sum| Sum { sum, ..all })
}

/// This thread's scores as results are made of them: exponentials from the maximum on of what the warp has of the row, or of logarithms their
/// exponents of 2. And the warp's sum.
#[inline(always)]
pub(crate) fn exponentials<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Fragment<T, M, N, L>,
    scale: f32,
    log: bool,
) -> (Fragment<f32, M, N, L>, Rows<Sum, M, N, L>) {
    let x = x.map(T::to_f32);
    let max = largest(&x).across_lanes(math::max);
    let origin = max.map(|max| Sum { max, sum: 0.0 }.origin());
    let mut z = x.zip_rows(&origin, |x, origin| (x - origin) * scale);
    let sums = if log {
        total(&z, math::ex2)
    } else {
        z = z.map(math::ex2);
        total(&z, |e| e)
    };
    let sums = sums.across_lanes(|a, b| a + b);
    (z, max.map(|max| Sum { max, sum: 0.0 }).zip(&sums, |own, sum| Sum { sum, ..own }))
}

/// What makes probabilities of the exponentials that are counted from their own maximum, where `all` is the rows' sum: 0 of no scores.
#[inline(always)]
pub(crate) fn shares<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    own: Rows<Sum, M, N, L>,
    all: &Rows<Sum, M, N, L>,
    scale: f32,
) -> Rows<f32, M, N, L> {
    own.map(|own| own.max).zip(all, |max, all| match all.sum {
        0.0 => 0.0,
        sum => math::ex2((max - all.origin()) * scale) * math::rcp(sum),
    })
}

/// The results of what [`exponentials`] gave, where `all` is the rows' sum.
#[inline(always)]
pub(crate) fn results_of<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    (z, own): (Fragment<f32, M, N, L>, Rows<Sum, M, N, L>),
    all: &Rows<Sum, M, N, L>,
    scale: f32,
    log: bool,
) -> Fragment<T, M, N, L> {
    if log {
        let shift = own
            .map(|own| own.origin())
            .zip(all, |origin, all| ((origin - all.origin()) * scale - all.log2()) * LN_2);
        return z.zip_rows(&shift, |z, shift| math::fma(z, LN_2, shift)).cast::<T>();
    }
    z.zip_rows(&shares(own, all, scale), |e, share| e * share).cast::<T>()
}

/// The results of scores, where `all` is the rows' sum.
#[inline(always)]
pub(crate) fn results<T: Element, X: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Fragment<X, M, N, L>,
    all: &Rows<Sum, M, N, L>,
    scale: f32,
    log: bool,
) -> Fragment<T, M, N, L> {
    let (x, from) = (x.map(X::to_f32), all.map(|all| (all.origin(), -all.log2())));
    if log {
        let by = scale * LN_2;
        return x.zip_rows(&from, |x, (origin, shift)| math::fma(x - origin, by, shift * LN_2)).cast::<T>();
    }
    x.zip_rows(&from, |x, (origin, shift)| math::ex2(math::fma(x - origin, scale, shift))).cast::<T>()
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
        _ if F::PERSISTENT && T::BYTES > 2 => 512,
        2 if F::PERSISTENT || M * N > 32 * P::THREADS as usize => 768,
        _ => 1024,
    }),
)]
pub fn softmax<P: RowProgram, F: Prefetch, T: Element, L, const M: usize, const N: usize, const CTAS: usize>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    y: UnmappedMut<T, 3>,
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
        computed(&mut rows, scores, scale, log != 0).store_rows(to);
        if !F::PERSISTENT {
            // Known when it is compiled: nothing is kept for another tile.
            break;
        }
    }
}

/// The results of rows whose scores registers hold.
#[inline(always)]
fn computed<
    P: RowProgram,
    T: Element,
    L: FragmentLayout<M, N>,
    const M: usize,
    const N: usize,
    const CTAS: usize,
>(
    rows: &mut RowReducer<P, L, M, N, CTAS>,
    scores: Fragment<T, M, N, L>,
    scale: f32,
    log: bool,
) -> Fragment<T, M, N, L> {
    let (z, own) = exponentials(scores, scale, log);
    let all = rows.across_warps(own, |a, b| a.with(b, scale));
    results_of((z, own), &all, scale, log)
}

/// As [`softmax`](fn@softmax), for rows of contiguous tensors that begin anywhere, with at most `N` `CTAS` columns less those of a vector but one: one
/// tile a CTA.
#[kernel(
    program = P,
    cluster = [CTAS as u32, 1, 1],
    min_ctas = resident(P::THREADS, match CTAS {
        1 => 768,
        _ => 640,
    }),
)]
pub fn softmax_ragged<P: RowProgram, T: Element, L, const M: usize, const N: usize, const CTAS: usize>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    y: UnmappedMut<T, 3>,
    order: RowOrder,
    scale: f32,
    log: u32,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, CTAS>();
    let [least, _] = T::from_f32x2(f32::NEG_INFINITY, f32::NEG_INFINITY);
    P::wait_for_preceding_grid();
    let part = x.get().ragged_part::<L, M, N>(RowTile::first(order, CTAS as u32), rows.part());
    let scores = part.load::<T, L, M, N>(&x.get(), least);
    let y_part = computed(&mut rows, scores, scale, log != 0);
    part.store(&y_part, &mut part.row_of(&mut y.get()));
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
    x: Unmapped<T, 3>,
    y: UnmappedMut<T, 3>,
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
        let own = parts.fold(Rows::splat(Sum::NONE), |own, [scores], _| sums_after(scores, own, scale));
        let all = rows.across_warps(over_lanes(own, scale), |a, b| a.with(b, scale));
        let mut to = parts.row_of(&mut y.get());
        parts.take(|[scores], part| {
            part.store(&results::<T, T, L, 1, N>(scores, &all, scale, log != 0), &mut to);
        });
    }
}

/// As [`softmax`](fn@softmax), for rows of any length: they are read twice, `N` columns at a time.
#[kernel(program = P)]
pub fn softmax_long<P: RowProgram, T: Element, L, const M: usize, const N: usize>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    y: UnmappedMut<T, 3>,
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
                sums_after(scores, own, scale)
            });
        let all = rows.across_warps(over_lanes(own, scale), |a, b| a.with(b, scale));
        x.get().fold_row_parts::<M, N, L, _>(tile, least, (), |(), scores, part| {
            let to = y.get().tile(tile.at(part));
            results::<T, T, L, M, N>(scores, &all, scale, log != 0).store_rows(to);
        });
        tile = tile.next();
    }
}
