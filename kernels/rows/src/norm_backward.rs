//! The gradients of RMSNorm and LayerNorm of rows.

use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::{shared, sync};
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Collective, Cols, Cta, Element, Fragment, FragmentLayout, Global, GlobalMut, RowMajor, RowOrder, RowTile,
    Rows, Unmapped, UnmappedMut, barriers, block_x, math,
};

use crate::program::{Prefetch, RowProgram, resident};

/// How rows were normalised.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) per_column: f32,
    pub(crate) epsilon: f32,
    pub(crate) centred: bool,
}

/// What a row's gradient takes of it: sums over its columns of d², g d and g, where d are the distances from the mean, g = dy w.
#[derive(Clone, Copy)]
pub(crate) struct Moments {
    pub(crate) squares: f32,
    pub(crate) along: f32,
    pub(crate) total: f32,
}

impl Moments {
    pub(crate) const NONE: Self = Moments { squares: 0.0, along: 0.0, total: 0.0 };

    #[inline(always)]
    pub(crate) fn with(self, other: Self) -> Self {
        Moments {
            squares: self.squares + other.squares,
            along: self.along + other.along,
            total: self.total + other.total,
        }
    }
    /// Those of a row, or of none: its factor is 0.
    #[inline(always)]
    fn or_none(self, exists: bool) -> Self {
        if exists { self } else { Moments { squares: f32::INFINITY, ..Self::NONE } }
    }
    /// The same and one element more.
    #[inline(always)]
    pub(crate) fn and(self, (d, g): (f32, f32)) -> Self {
        Moments {
            squares: math::fma(d, d, self.squares),
            along: math::fma(g, d, self.along),
            total: self.total + g,
        }
    }
}

/// A row's gradient is `by` g + `level` + `slope` x, where x is normalised: `by` times its distance from the mean.
#[derive(Clone, Copy)]
pub(crate) struct Factors {
    by: f32,
    level: f32,
    slope: f32,
}

impl How {
    #[inline(always)]
    pub(crate) fn factors(&self, all: Moments) -> Factors {
        let by = math::rsqrt(math::fma(all.squares, self.per_column, self.epsilon));
        let level = if self.centred { all.total * -self.per_column * by } else { 0.0 };
        Factors { by, level, slope: all.along * -self.per_column * by * by }
    }
}

/// The distances from the rows' means.
#[inline(always)]
pub(crate) fn distances_of<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Fragment<T, M, N, L>,
    mean: &Rows<f32, M, N, L>,
) -> Fragment<f32, M, N, L> {
    x.map(T::to_f32).zip_rows(mean, |x, mean| x - mean)
}

/// The same; 0 in columns from `inside` on, which are none of the rows'.
#[inline(always)]
fn distances<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Fragment<T, M, N, L>,
    mean: &Rows<f32, M, N, L>,
    inside: u32,
) -> Fragment<f32, M, N, L> {
    distances_of(x, mean).map_indexed(|_, col, d| if col < inside { d } else { 0.0 })
}

/// dy w.
#[inline(always)]
pub(crate) fn weighted<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    dy: Fragment<T, M, N, L>,
    weight: &Cols<T, M, N, L>,
) -> Fragment<f32, M, N, L> {
    dy.map(T::to_f32).zip_cols(weight, |dy, w| dy * w.to_f32())
}

/// The elements of both.
#[inline(always)]
pub(crate) fn pairs<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    a: Fragment<f32, M, N, L>,
    b: &Fragment<f32, M, N, L>,
) -> Fragment<(f32, f32), M, N, L> {
    a.map(|a| (a, 0.0)).zip(b, |(a, _), b| (a, b))
}

/// What this thread has of the rows' moments.
#[inline(always)]
fn moments<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    d: Fragment<f32, M, N, L>,
    g: &Fragment<f32, M, N, L>,
) -> Rows<Moments, M, N, L> {
    pairs(d, g).fold_rows(Moments::NONE, Moments::and)
}

/// The normalised x.
#[inline(always)]
pub(crate) fn normalised<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    d: Fragment<f32, M, N, L>,
    factors: &Rows<Factors, M, N, L>,
) -> Fragment<f32, M, N, L> {
    d.zip_rows(factors, |d, of| d * of.by)
}

/// The gradient by x, which is given normalised.
#[inline(always)]
pub(crate) fn gradient<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Fragment<f32, M, N, L>,
    g: &Fragment<f32, M, N, L>,
    factors: &Rows<Factors, M, N, L>,
) -> Fragment<f32, M, N, L> {
    let both = pairs(x, g)
        .zip_rows(factors, |(x, g), of| (math::fma(g, of.by, math::fma(x, of.slope, of.level)), 0.0));
    both.map(|(dx, _)| dx)
}

/// `dx` and the gradient by the sum.
#[inline(always)]
fn with_sum<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    dx: Fragment<f32, M, N, L>,
    d_sum: &Fragment<T, M, N, L>,
) -> Fragment<T, M, N, L> {
    dx.zip(d_sum, |dx, d_sum| dx + d_sum.to_f32()).cast::<T>()
}

/// With what each row adds to the gradient by w: dy times the normalised x.
#[inline(always)]
pub(crate) fn plus_products<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    sums: Fragment<f32, M, N, L>,
    x: Fragment<f32, M, N, L>,
    dy: &Fragment<T, M, N, L>,
) -> Fragment<f32, M, N, L> {
    sums.zip(&pairs(x, &dy.map(T::to_f32)), |sum, (x, dy)| math::fma(x, dy, sum))
}

/// Each column's sum over the tile's rows, in all of them.
#[inline(always)]
fn over_rows<P: Collective, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    cta: &mut Cta<P>,
    mut x: Fragment<f32, M, N, L>,
) -> Fragment<f32, M, N, L> {
    if M == 1 {
        return x;
    }
    let base = cta.reserve((M * N * 4) as u32, 4);
    let at = |row: u32, col: u32| base + (row * N as u32 + col) * 4;
    let thread = thread_x();
    let mut i = 0;
    while i < L::Regs::<f32>::LEN {
        let (row, col) = L::coord(thread, i);
        // SAFETY: the element's place among those reserved, which nobody else writes.
        unsafe { shared::store_u32(at(row, col), x.regs.get(i).to_bits()) };
        i += 1;
    }
    // SAFETY: all threads of the program execute it.
    unsafe { sync::bar_sync(barriers::KERNEL.get::<0>(), P::CONSUMERS) };
    let mut i = 0;
    while i < L::Regs::<f32>::LEN {
        let (_, col) = L::coord(thread, i);
        let (mut sum, mut row) = (0.0, 0);
        while row < M as u32 {
            // SAFETY: written before the barrier, and by nobody after it.
            sum += f32::from_bits(unsafe { shared::load_u32(at(row, col)) });
            row += 1;
        }
        x.regs.set(i, sum);
        i += 1;
    }
    x
}

/// `a` + `b`.
#[inline(always)]
pub(crate) fn plus<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    a: Fragment<f32, M, N, L>,
    b: &Fragment<f32, M, N, L>,
) -> Fragment<f32, M, N, L> {
    a.zip(b, |a, b| a + b)
}

/// The gradient by x of y = (x - mean) / sqrt(mean of (x - mean)² + epsilon) w + b, and of each cluster's rows their sums of those by w and b.
///
/// The mean is that of x if `centred` is not 0 and else 0: Ba et al. 2016, Zhang & Sennrich 2019. x, dy and dx are \[batch, rows,
/// columns\] with at most `N` `CTAS` columns; so is `d_sum`, which is added to dx, or without elements. w is \[1, 1, columns\], or without
/// elements where it is 1. `d_weight` and `d_bias` are \[1, lines, columns\], or without elements: each cluster has a line, the sum of
/// dy (x - mean) / sqrt(…), or of dy, over its rows. They begin with what is there if `continued` is not 0. `per_column` is one over the
/// columns. A cluster of `CTAS` CTAs takes tiles of `M` rows in the order of `order`, each CTA `N` columns of them.
#[kernel(program = P, cluster = [CTAS as u32, 1, 1], min_ctas = resident(P::THREADS, 512))]
pub fn norm_gradient<
    P: RowProgram,
    F: Prefetch,
    T: Element,
    L,
    const M: usize,
    const N: usize,
    const CTAS: usize,
>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    dy: Unmapped<T, 3>,
    d_sum: Unmapped<T, 3>,
    weight: Unmapped<T, 3>,
    dx: UnmappedMut<T, 3>,
    d_weight: UnmappedMut<f32, 3>,
    d_bias: UnmappedMut<f32, 3>,
    order: RowOrder,
    per_column: f32,
    epsilon: f32,
    centred: u32,
    continued: u32,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, CTAS>();
    let part = rows.part();
    let mut tile = RowTile::first(order, CTAS as u32);
    let how = How { per_column, epsilon, centred: centred != 0 };
    P::wait_for_preceding_grid();
    let load = |tile: RowTile| {
        let load = |from: Global<T, 3, RowMajor, 0>| {
            Fragment::<T, M, N, L>::load_rows(from.tile(tile.at(part)), T::ZERO)
        };
        (load(x.get()), load(dy.get()))
    };
    let mut ahead = (Fragment::splat(T::ZERO), Fragment::splat(T::ZERO));
    if F::NEXT {
        ahead = load(tile);
    }
    let [one, _] = T::from_f32x2(1.0, 0.0);
    let weight = Cols::<T, M, N, L>::load(weight.get().tile([0, 0, part]), one);
    let line = block_x() / CTAS as u32;
    // The tile's first row has what the line has, the others nothing.
    let begun = |sums: GlobalMut<f32, 3, RowMajor, 0>| match continued {
        0 => Fragment::<f32, M, N, L>::zero(),
        _ => Fragment::load_rows(sums.read([0, 0, part]).of_rows(line, 1), 0.0),
    };
    let (mut weights, mut biases) = (begun(d_weight.get()), begun(d_bias.get()));
    while tile.exists() {
        let ((row, by), here) = (if F::NEXT { ahead } else { load(tile) }, tile);
        tile = tile.next();
        if F::NEXT {
            ahead = load(tile);
        }
        let added = Fragment::load_rows(d_sum.get().tile(here.at(part)), T::ZERO);
        let inside = x.get().cols().saturating_sub(part * N as u32);
        let mut mean = Rows::splat(0.0);
        if how.centred {
            mean = rows.reduce_rows(&row.map(T::to_f32), 0.0, |a, b| a + b).map(|sum| sum * per_column);
        }
        let own = moments(distances(row.anew(), &mean, inside), &weighted(by, &weight));
        let all = rows.reduce(own, Moments::with);
        // Rows that are none count nothing: the factor of those is 0.
        let last = x.get().rows().saturating_sub(here.at(part)[1] * M as u32);
        let exists = Rows::<bool, M, N, L>::indexed(|row| row < last);
        let all = all.zip(&exists, Moments::or_none);
        let factors = all.map(|all| how.factors(all));
        let (x, by) = (normalised(distances_of(row.anew(), &mean), &factors), by.anew());
        weights = plus_products(weights, x, &by);
        with_sum(gradient(x, &weighted(by, &weight), &factors), &added)
            .store_rows(dx.get().tile(here.at(part)));
        biases = plus(biases, &by.map(T::to_f32));
    }
    let store = |sums: Fragment<f32, M, N, L>, mut to: GlobalMut<f32, 3, RowMajor, 0>| {
        sums.store_rows(to.tile([0, 0, part]).of_rows(line, 1));
    };
    store(over_rows(&mut cta, weights), d_weight.get());
    store(over_rows(&mut cta, biases), d_bias.get());
}

/// As [`norm_gradient`](fn@norm_gradient), for rows of any length, one a tile: they are read twice, three times where they are centred, `N`
/// columns at a time, and the sums for each row.
#[kernel(program = P)]
pub fn norm_gradient_long<P: RowProgram, T: Element, L, const N: usize>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    dy: Unmapped<T, 3>,
    d_sum: Unmapped<T, 3>,
    weight: Unmapped<T, 3>,
    dx: UnmappedMut<T, 3>,
    d_weight: UnmappedMut<f32, 3>,
    d_bias: UnmappedMut<f32, 3>,
    order: RowOrder,
    per_column: f32,
    epsilon: f32,
    centred: u32,
    continued: u32,
) where
    L: FragmentLayout<1, N>,
{
    let mut rows = cta.row_reducer::<L, 1, N, 1>();
    let mut tile = RowTile::first(order, 1);
    let how = How { per_column, epsilon, centred: centred != 0 };
    let [one, _] = T::from_f32x2(1.0, 0.0);
    let mut begins = continued == 0;
    P::wait_for_preceding_grid();
    while tile.exists() {
        let inside = |part: u32| x.get().cols() - part * N as u32;
        let by = |part| Fragment::<T, 1, N, L>::load_rows(dy.get().tile(tile.at(part)), T::ZERO);
        let weight = |part| Cols::<T, 1, N, L>::load(weight.get().tile([0, 0, part]), one);
        let mut mean = Rows::<f32, 1, N, L>::splat(0.0);
        if how.centred {
            let own = x.get().fold_row_parts::<1, N, L, _>(tile, T::ZERO, mean, |sums, x, _| {
                x.map(T::to_f32).fold_rows(0.0, |sum, x| sum + x).zip(&sums, |a, b| a + b)
            });
            mean = rows.reduce(own, |a, b| a + b).map(|sum| sum * per_column);
        }
        let none = Rows::splat(Moments::NONE);
        let own = x.get().fold_row_parts::<1, N, L, _>(tile, T::ZERO, none, |before, x, part| {
            let own = moments(distances(x, &mean, inside(part)), &weighted(by(part), &weight(part)));
            own.zip(&before, Moments::with)
        });
        let factors = rows.reduce(own, Moments::with).map(|all| how.factors(all));
        x.get().fold_row_parts::<1, N, L, _>(tile, T::ZERO, (), |(), x, part| {
            let (x, by) = (normalised(distances(x, &mean, inside(part)), &factors), by(part));
            let added = Fragment::load_rows(d_sum.get().tile(tile.at(part)), T::ZERO);
            let to = dx.get().tile(tile.at(part));
            with_sum(gradient(x, &weighted(by, &weight(part)), &factors), &added).store_rows(to);
            // Each thread adds to what it wrote itself.
            let add = |mut sums: GlobalMut<f32, 3, RowMajor, 0>, new: Fragment<f32, 1, N, L>| {
                let place = [0, block_x(), part];
                let mut sum = Fragment::zero();
                if !begins {
                    sum = Fragment::load_rows(sums.read(place), 0.0);
                }
                plus(sum, &new).store_rows(sums.tile(place));
            };
            add(d_weight.get(), plus_products(Fragment::zero(), x, &by));
            add(d_bias.get(), by.map(T::to_f32));
        });
        tile = tile.next();
        begins = false;
    }
}
