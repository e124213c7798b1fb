//! RMSNorm and LayerNorm of rows, with weights, biases and residual addition.

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cols, Cta, Element, Fragment, FragmentLayout, RowOrder, RowPart, RowReducer, RowTile, Rows, Unmapped,
    UnmappedMut, math,
};

use crate::program::{Prefetch, Residual, RowProgram, resident};

/// Adds in f32.
#[inline(always)]
pub(crate) fn sum<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Fragment<T, M, N, L>,
    residual: &Fragment<T, M, N, L>,
) -> Fragment<f32, M, N, L> {
    x.map(T::to_f32).zip(residual, |x, r| x + r.to_f32())
}

/// How many elements of a row there are, their mean, or 0 of rows that are not centred, and the sum of their squared distances from it.
#[derive(Clone, Copy)]
pub(crate) struct Moments {
    pub(crate) count: f32,
    pub(crate) mean: f32,
    pub(crate) squares: f32,
}

impl Moments {
    pub(crate) const NONE: Self = Moments { count: 0.0, mean: 0.0, squares: 0.0 };

    /// Those of both (Chan et al. 1983), the same to the bit whichever comes first.
    #[inline(always)]
    pub(crate) fn with(self, other: Self) -> Self {
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
    pub(crate) fn and(self, other: Self, centred: bool) -> Self {
        match centred {
            true => self.with(other),
            false => Moments { squares: self.squares + other.squares, ..Self::NONE },
        }
    }
}

/// The moments of rows of which each thread knows those of its part: of rows that are not centred only the squares are added up.
#[inline(always)]
pub(crate) fn of_row<
    P: RowProgram,
    L: FragmentLayout<M, N>,
    const M: usize,
    const N: usize,
    const CTAS: usize,
>(
    rows: &mut RowReducer<P, L, M, N, CTAS>,
    own: Rows<Moments, M, N, L>,
    centred: bool,
) -> Rows<Moments, M, N, L> {
    if centred {
        return rows.reduce(own, Moments::with);
    }
    let squares = rows.reduce(own.map(|own| own.squares), |a, b| a + b);
    squares.map(|squares| Moments { squares, ..Moments::NONE })
}

/// Those of what this thread has of its rows, in columns before `end`, or of all the threads over which `over` adds up. Without `centred` only the
/// squares count.
#[inline(always)]
fn moments<X: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    values: impl Fn() -> Fragment<X, M, N, L>,
    end: u32,
    centred: bool,
    over: impl Fn(Rows<f32, M, N, L>) -> Rows<f32, M, N, L>,
) -> Rows<Moments, M, N, L> {
    let mut own = Rows::splat(Moments::NONE);
    if centred {
        let counts = over(Rows::splat(columns_inside::<L, M, N>([0, end]) as f32));
        // Outside are zeros.
        let sums = over(values().fold_rows(0.0, |sum, x| sum + x.to_f32()));
        own = sums.map(|mean| Moments { mean, ..Moments::NONE }).zip(&counts, |own, count| Moments {
            count,
            mean: own.mean * math::rcp(math::max(count, 1.0)),
            ..own
        });
    }
    let squares = over(squares(values(), &own, end));
    own.zip(&squares, |own, squares| Moments { squares, ..own })
}

/// The sums of the squared distances from their rows' means of what this thread has of rows, in columns before `end`.
#[inline(always)]
fn squares<X: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    values: Fragment<X, M, N, L>,
    rows: &Rows<Moments, M, N, L>,
    end: u32,
) -> Rows<f32, M, N, L> {
    const { assert!(L::Rows::<u32>::LEN == 1, "a thread has one row: use Spread") };
    let mean = rows.regs.get(0).mean;
    // Converted one by one: registers have no room for all of many elements.
    values.fold_rows_before(end, 0.0, |sum, x| {
        let d = x.to_f32() - mean;
        math::fma(d, d, sum)
    })
}

/// How many columns this thread has from the one to below the other.
#[inline(always)]
fn columns_inside<L: FragmentLayout<M, N>, const M: usize, const N: usize>(inside: [u32; 2]) -> u32 {
    let (first, run) = (L::coord(thread_x(), 0).1, L::RUN as u32);
    let (mut count, mut i) = (0, 0);
    while i < L::Regs::<f32>::LEN {
        let [from, to] = inside.map(|end| end.saturating_sub(first + L::offset(i).1).min(run));
        count += to - from;
        i += L::RUN;
    }
    count
}

/// Those of what this thread has of a part of a row, outside of which are zeros.
#[inline(always)]
pub(crate) fn moments_inside<X: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    values: impl Fn() -> Fragment<X, M, N, L>,
    part: &RowPart,
    centred: bool,
) -> Rows<Moments, M, N, L> {
    let (mut count, mut mean) = (0.0, 0.0);
    if centred {
        count = columns_inside::<L, M, N>(part.inside()) as f32;
        let sum = values().fold_rows(0.0, |sum, x| sum + x.to_f32());
        mean = sum.regs.get(0) * math::rcp(math::max(count, 1.0));
    }
    Rows::splat(Moments { count, mean, squares: squares_inside(&values(), part, mean) })
}

/// The sum of the squared distances from `mean` of what this thread has of a part of a row.
#[inline(always)]
pub(crate) fn squares_inside<X: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    values: &Fragment<X, M, N, L>,
    part: &RowPart,
    mean: f32,
) -> f32 {
    part.fold(values, 0.0, |sum, x| {
        let d = x.to_f32() - mean;
        math::fma(d, d, sum)
    })
}

/// What rows are multiplied with, and what is added then: 1 / sqrt(variance + epsilon), and minus the mean times that.
#[inline(always)]
pub(crate) fn by_rows<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
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
    X: Element,
    P: RowProgram,
    L: FragmentLayout<M, N>,
    const M: usize,
    const N: usize,
    const CTAS: usize,
>(
    rows: &mut RowReducer<P, L, M, N, CTAS>,
    values: impl Fn() -> Fragment<X, M, N, L>,
    (end, centred): (u32, bool),
    per_column: f32,
) -> Rows<Moments, M, N, L> {
    if centred && CTAS > 1 {
        // A second barrier of the cluster would take longer than to merge moments.
        let own = moments(values, end, true, |own| own.across_lanes(|a, b| a + b));
        return rows.across_warps(own, Moments::with);
    }
    let mut all = Rows::splat(Moments::NONE);
    if centred {
        let own = values().fold_rows(0.0, |sum, x| sum + x.to_f32());
        let sums = rows.reduce(own, |a, b| a + b);
        all = sums.map(|sum| Moments { mean: sum * per_column, ..Moments::NONE });
    }
    let squares = rows.reduce(squares(values(), &all, end), |a, b| a + b);
    all.zip(&squares, |all, squares| Moments { squares, ..all })
}

/// (s - mean) r w + b, rounded.
#[inline(always)]
pub(crate) fn scaled<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    s: Fragment<f32, M, N, L>,
    by: &Rows<(f32, f32), M, N, L>,
    [weight, bias]: [Cols<T, M, N, L>; 2],
) -> Fragment<T, M, N, L> {
    s.zip_rows(by, |s, (r, shift)| math::fma(s, r, shift)).affine_cols(&weight, &bias).cast::<T>()
}

/// The weights and biases of the columns of tile `part`: 1 and 0 where there are none.
#[inline(always)]
pub(crate) fn columns<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    [weight, bias]: [&Unmapped<T, 3>; 2],
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
        2 if !F::PERSISTENT && M * N > 32 * P::THREADS as usize => 768,
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
        let how = (end, centred != 0);
        let all = match R::ADDED {
            true => moments_of_rows(&mut rows, || s, how, per_column),
            false => moments_of_rows(&mut rows, || row.anew(), how, per_column),
        };
        let (by, to) = (by_rows(&all, (per_column, epsilon)), y.get().tile(at));
        if held {
            scaled(values(), &by, by_column.map(Cols::anew)).store_rows(to);
        } else {
            let ([one, zero], at) = (T::from_f32x2(1.0, 0.0), [0, 0, part]);
            let cols = [weight.get().tile(at), bias.get().tile(at)];
            let result =
                |s, (r, shift), [w, b]: [T; 2]| math::fma(math::fma(s, r, shift), w.to_f32(), b.to_f32());
            if R::ADDED {
                s.store_rows_with_cols(to, &by, (cols, [one, zero]), result);
            } else {
                row.anew().store_rows_with_cols(to, &by, (cols, [one, zero]), result);
            }
        }
        if !F::PERSISTENT && !R::ADDED {
            // Known when it is compiled: nothing is kept for another tile.
            break;
        }
    }
}

/// As [`norm`](fn@norm), for rows of any length: they are read twice, `N` columns at a time. Without
/// residual addition residual and sum have no elements.
#[kernel(program = P)]
pub fn norm_long<P: RowProgram, T: Element, L, const M: usize, const N: usize>(
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
