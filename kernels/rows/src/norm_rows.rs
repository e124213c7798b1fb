//! RMSNorm and LayerNorm of rows, with weights, biases and residual addition.

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cols, ColumnsFrom, Cta, Element, Fragment, FragmentLayout, Global, GlobalMut, InBlock, RowOrder,
    RowReducer, RowTile, Rows, math,
};

use crate::program::{Prefetch, Residual, RowProgram, resident, resident_held};

/// Adds in f32.
#[inline(always)]
fn sum<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Fragment<T, M, N, L>,
    residual: &Fragment<T, M, N, L>,
) -> Fragment<f32, M, N, L> {
    x.map(T::to_f32).zip(residual, |x, r| x + r.to_f32())
}

/// How many elements of a row there are, their mean, or 0 of rows that are not centred, and the sum of their squared distances from it.
#[derive(Clone, Copy)]
struct Moments {
    count: f32,
    mean: f32,
    squares: f32,
}

impl Moments {
    const NONE: Self = Moments { count: 0.0, mean: 0.0, squares: 0.0 };

    /// Those of both (Chan et al. 1983), the same to the bit whichever comes first.
    #[inline(always)]
    fn with(self, other: Self) -> Self {
        let (count, apart) = (self.count + other.count, self.mean - other.mean);
        let per = math::rcp(math::max(count, 1.0));
        let mean = (self.count * self.mean + other.count * other.mean) * per;
        let weight = self.count * other.count * per;
        // Of elements and none nothing is between, not even infinity times 0.
        let between = if weight == 0.0 { 0.0 } else { apart * apart * weight };
        Moments { count, mean, squares: self.squares + other.squares + between }
    }
    /// As [`with`](Self::with), or the squares alone.
    #[inline(always)]
    fn and(self, other: Self, centred: bool) -> Self {
        match centred {
            true => self.with(other),
            false => Moments { squares: self.squares + other.squares, ..Self::NONE },
        }
    }
}

/// The moments of rows of which each thread knows those of its part: of rows that are not centred only the squares are added up.
#[inline(always)]
fn of_row<P: RowProgram, L: FragmentLayout<1, N>, const N: usize, const CTAS: usize>(
    rows: &mut RowReducer<P, L, 1, N, CTAS>,
    own: Rows<Moments, 1, N, L>,
    centred: bool,
) -> Rows<Moments, 1, N, L> {
    if centred {
        return rows.reduce(own, Moments::with);
    }
    let squares = rows.reduce(own.map(|own| own.squares), |a, b| a + b);
    squares.map(|squares| Moments { squares, ..Moments::NONE })
}

/// Those of what this thread has of its rows, in columns before `end`, or of all the threads over which `over` adds up. Without `centred` only the
/// squares count.
#[inline(always)]
fn moments<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    values: impl Fn() -> Fragment<f32, M, N, L>,
    end: u32,
    centred: bool,
    over: impl Fn(Rows<f32, M, N, L>) -> Rows<f32, M, N, L>,
) -> Rows<Moments, M, N, L> {
    let mut own = Rows::splat(Moments::NONE);
    if centred {
        let ones = Fragment::<u32, M, N, L>::splat(1);
        let counts = over(ones.fold_rows_before(end, 0, |count, one| count + one).map(|count| count as f32));
        // Outside are zeros.
        let sums = over(values().fold_rows(0.0, |sum, x| sum + x));
        own = sums.map(|mean| Moments { mean, ..Moments::NONE }).zip(&counts, |own, count| Moments {
            count,
            mean: own.mean * math::rcp(math::max(count, 1.0)),
            ..own
        });
    }
    let from_mean = values().zip_rows(&own, |x, own| x - own.mean);
    let squares = over(from_mean.fold_rows_before(end, 0.0, |sum, d| math::fma(d, d, sum)));
    own.zip(&squares, |own, squares| Moments { squares, ..own })
}

/// How many columns this thread has from the one to below the other.
#[inline(always)]
fn columns_inside<L: FragmentLayout<1, N>, const N: usize>(inside: [u32; 2]) -> u32 {
    let (first, run) = (L::coord(thread_x(), 0).1, L::RUN as u32);
    let (mut count, mut i) = (0, 0);
    while i < L::Regs::<f32>::LEN {
        let [from, to] = inside.map(|end| end.saturating_sub(first + L::offset(i).1).min(run));
        count += to - from;
        i += L::RUN;
    }
    count
}

/// Those of what this thread has of a part of a row, of which the columns from the one to below the other are `inside`; the others are 0.
#[inline(always)]
fn moments_inside<L: FragmentLayout<1, N>, const N: usize>(
    mut values: Fragment<f32, 1, N, L>,
    inside: [u32; 2],
    centred: bool,
) -> Rows<Moments, 1, N, L> {
    let (mut own, whole) = (Rows::splat(Moments::NONE), inside == [0, N as u32]);
    if centred {
        let mut count = L::Regs::<f32>::LEN as f32;
        if !whole {
            count = columns_inside::<L, N>(inside) as f32;
        }
        let per = math::rcp(math::max(count, 1.0));
        let sums = values.fold_rows(0.0, |sum, x| sum + x);
        own = sums.map(|sum| Moments { count, mean: sum * per, ..Moments::NONE });
        if !whole {
            let ends = inside.map(|column| Rows::<_, 1, N, L>::splat(column as i32));
            // At no distance from the mean.
            values = values.fill_outside(&ends[0], &ends[1], own.regs.get(0).mean);
        }
    }
    let squares = values.zip_rows(&own, |x, own| x - own.mean).fold_rows(0.0, |sum, d| math::fma(d, d, sum));
    own.zip(&squares, |own, squares| Moments { squares, ..own })
}

/// What rows are multiplied with, and what is added then: 1 / sqrt(variance + epsilon), and minus the mean times that.
#[inline(always)]
fn by_rows<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    all: &Rows<Moments, M, N, L>,
    (per_column, epsilon): (f32, f32),
) -> Rows<(f32, f32), M, N, L> {
    all.map(|all| {
        let r = math::rsqrt(math::fma(all.squares, per_column, epsilon));
        (r, -all.mean * r)
    })
}

/// The moments of rows of which each thread holds all that it has.
#[inline(always)]
fn moments_of_rows<
    P: RowProgram,
    L: FragmentLayout<M, N>,
    const M: usize,
    const N: usize,
    const CTAS: usize,
>(
    rows: &mut RowReducer<P, L, M, N, CTAS>,
    values: impl Fn() -> Fragment<f32, M, N, L>,
    (end, centred): (u32, bool),
    per_column: f32,
) -> Rows<Moments, M, N, L> {
    if centred && CTAS > 1 {
        // A second barrier of the cluster would take longer than to merge moments.
        let own = moments(values, end, true, |own| own.across_lanes(|a, b| a + b));
        return rows.across_warps(own, Moments::with);
    }
    let mut means = Rows::splat(0.0);
    if centred {
        let own = values().fold_rows(0.0, |sum, x| sum + x);
        means = rows.reduce(own, |a, b| a + b).map(|sum| sum * per_column);
    }
    let from_mean = values().zip_rows(&means, |x, mean| x - mean);
    let own = from_mean.fold_rows_before(end, 0.0, |sum, d| math::fma(d, d, sum));
    let squares = rows.reduce(own, |a, b| a + b);
    means
        .map(|mean| Moments { mean, ..Moments::NONE })
        .zip(&squares, |all, squares| Moments { squares, ..all })
}

/// (s - mean) r w + b, rounded.
#[inline(always)]
fn scaled<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    s: Fragment<f32, M, N, L>,
    by: &Rows<(f32, f32), M, N, L>,
    [weight, bias]: [Cols<T, M, N, L>; 2],
) -> Fragment<T, M, N, L> {
    s.zip_rows(by, |s, (r, shift)| math::fma(s, r, shift)).affine_cols(&weight, &bias).cast::<T>()
}

/// The weights and biases of the columns of tile `part`: 1 and 0 where there are none.
#[inline(always)]
fn columns<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    [weight, bias]: [&InBlock<Global<T, 3>>; 2],
    part: u32,
) -> [Cols<T, M, N, L>; 2] {
    let [one, zero] = T::from_f32x2(1.0, 0.0);
    let at = [0, 0, part];
    [Cols::load(weight.get().tile(at), one), Cols::load(bias.get().tile(at), zero)]
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
        2 if !F::PERSISTENT => 1024,
        2 if R::ADDED => 512,
        2 => 640,
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
    // Registers hold weights and biases of 16 bits over all tiles, if they have room.
    let held = const { F::PERSISTENT && T::BYTES == 2 && (!R::ADDED || P::THREADS < 512) };
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
    let mut by_column = [Cols::splat(T::ZERO); 2];
    if held {
        by_column = columns([&weight, &bias], part);
    }
    let end = x.get().cols().saturating_sub(part * N as u32);
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
        let all = moments_of_rows(&mut rows, values, (end, centred != 0), per_column);
        let (by, to) = (by_rows(&all, (per_column, epsilon)), y.get().tile(at));
        if held {
            scaled(values(), &by, by_column.map(Cols::anew)).store_rows(to);
        } else {
            let ([one, zero], at) = (T::from_f32x2(1.0, 0.0), [0, 0, part]);
            let cols = [weight.get().tile(at), bias.get().tile(at)];
            values().store_rows_with_cols(to, &by, (cols, [one, zero]), |s, (r, shift), [w, b]| {
                math::fma(math::fma(s, r, shift), w.to_f32(), b.to_f32())
            });
        }
    }
}

/// As [`norm`](fn@norm), for rows of at most `N` `CTAS` `PLACES` columns: shared memory holds them, and what it has room for of the next ones.
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
            let own = moments_inside(sum(terms), part.inside(), centred != 0);
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

/// As [`norm`](fn@norm), for rows of any length: they are read twice, `N` columns at a time. Without
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
        let (cols, none) = (x.get().cols(), Rows::<_, M, N, L>::splat(Moments::NONE));
        let own = x.get().fold_row_parts::<M, N, L, _>(tile, T::ZERO, none, |before, x, part| {
            let end = cols.saturating_sub(part * N as u32);
            let s = added(x, part);
            moments(|| s, end, centred != 0, |sums| sums).zip(&before, |own, before| before.with(own))
        });
        let by = by_rows(&rows.reduce(own, Moments::with), (per_column, epsilon));
        x.get().fold_row_parts::<M, N, L, _>(tile, T::ZERO, (), |(), x, part| {
            let s = added(x, part);
            s.cast::<T>().store_rows(sums.get().tile(tile.at(part)));
            let by_column = columns([&weight, &bias], part);
            let y_part = y.get().tile(tile.at(part));
            scaled::<T, L, M, N>(s, &by, by_column).store_rows(y_part);
        });
        tile = tile.next();
    }
}
