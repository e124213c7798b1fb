//! Cross-entropy of rows of logits, and its gradient, in one pass.

use core::f32::consts::{LN_2, LOG2_E};

use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cta, Element, Fragment, FragmentLayout, Global, GlobalMut, GlobalTileMut, InBlock, RowOrder, RowTile,
    Rows, for_each_row, math,
};

use crate::program::{Prefetch, RowProgram, resident, resident_held};
use crate::softmax_rows::{Sum, exponentials, over_lanes, shares, sums_after};

/// What a loss takes of a row: the sum of its exponentials, and that of its logits.
#[derive(Clone, Copy)]
struct Logits {
    exponentials: Sum,
    total: f32,
}

impl Logits {
    const NONE: Self = Logits { exponentials: Sum::NONE, total: 0.0 };

    #[inline(always)]
    fn with(self, other: Self) -> Self {
        let exponentials = self.exponentials.with(other.exponentials, LOG2_E);
        Logits { exponentials, total: self.total + other.total }
    }
    /// log Σ exp x.
    #[inline(always)]
    fn log(&self) -> f32 {
        self.exponentials.origin() + self.exponentials.log2() * LN_2
    }
}

/// What a row's loss and gradient are made of.
#[derive(Clone, Copy)]
struct Row {
    /// The label, and the logit there; 0 where there is none.
    label: i32,
    logit: f32,
    all: Logits,
}

/// How losses are computed.
#[derive(Clone, Copy)]
struct Loss {
    ignored: i32,
    smoothing: f32,
    z_loss: f32,
    columns: u32,
}

impl Loss {
    /// What is multiplied with a row's results: 0 where the label is ignored, NaN where it is out of range.
    #[inline(always)]
    fn counts(&self, label: i32) -> f32 {
        match label {
            _ if label == self.ignored => 0.0,
            _ if label as u32 >= self.columns => f32::NAN,
            _ => 1.0,
        }
    }
    /// What is known of rows, and of logits of which those in columns from the one to below the other are `inside`.
    #[inline(always)]
    fn and<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &self,
        own: Rows<Logits, M, N, L>,
        logits: Fragment<T, M, N, L>,
        inside: [u32; 2],
    ) -> Rows<Logits, M, N, L> {
        let sums = sums_after(logits, own.map(|own| own.exponentials), LOG2_E);
        let own = own.zip(&sums, |own, exponentials| Logits { exponentials, ..own });
        if self.smoothing == 0.0 {
            return own;
        }
        let totals = totals(logits, inside);
        own.zip(&totals, |own, total| Logits { total: own.total + total, ..own })
    }
    /// The values of the lanes that share a row.
    #[inline(always)]
    fn over_lanes<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &self,
        own: Rows<Logits, M, N, L>,
    ) -> Rows<Logits, M, N, L> {
        let sums = over_lanes(own.map(|own| own.exponentials), LOG2_E);
        self.with_totals(sums, || own.map(|own| own.total))
    }
    /// The sums of lanes that share a row, with those of the threads' logits, which are asked for where they count.
    #[inline(always)]
    fn with_totals<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &self,
        sums: Rows<Sum, M, N, L>,
        totals: impl FnOnce() -> Rows<f32, M, N, L>,
    ) -> Rows<Logits, M, N, L> {
        let all = sums.map(|exponentials| Logits { exponentials, total: 0.0 });
        if self.smoothing == 0.0 {
            return all;
        }
        all.zip(&totals().across_lanes(|a, b| a + b), |all, total| Logits { total, ..all })
    }
    #[inline(always)]
    fn of(&self, row: &Row) -> f32 {
        let log = row.all.log();
        let mut loss = (1.0 - self.smoothing) * (log - row.logit) + self.z_loss * log * log;
        if self.smoothing != 0.0 {
            loss += self.smoothing * (log - row.all.total / self.columns as f32);
        }
        let counts = self.counts(row.label);
        if counts == 0.0 { 0.0 } else { loss * counts }
    }
    /// Stores the rows' losses, if this CTA is the one that does.
    #[inline(always)]
    fn store<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &self,
        rows: &Rows<Row, M, N, L>,
        own: bool,
        to: GlobalTileMut<f32, 3>,
    ) {
        rows.for_each(|row, first, all| {
            if first && own {
                to.put::<M, 1>(row, 0, self.of(&all));
            }
        });
    }
    /// What `scale` times the gradient is made of, in columns from `first` on.
    #[inline(always)]
    fn gradients<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &self,
        rows: &Rows<Row, M, N, L>,
        first: u32,
        scale: f32,
    ) -> Rows<Gradient, M, N, L> {
        rows.map(|row| {
            let counts = self.counts(row.label);
            Gradient {
                counts: counts != 0.0,
                factor: (1.0 + 2.0 * self.z_loss * row.all.log()) * counts * scale,
                even: -self.smoothing / self.columns as f32 * counts * scale,
                label: (row.label as u32).wrapping_sub(first),
                at_label: (1.0 - self.smoothing) * counts * scale,
            }
        })
    }
}

/// What a row's gradient is made of: `factor` times its exponentials, and `even`, less `at_label` at the label.
#[derive(Clone, Copy)]
struct Gradient {
    counts: bool,
    factor: f32,
    even: f32,
    label: u32,
    at_label: f32,
}

impl Gradient {
    /// The gradients of a tile, of its exponentials.
    #[inline(always)]
    fn of_all<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        rows: &Rows<Self, M, N, L>,
        e: Fragment<f32, M, N, L>,
    ) -> Fragment<T, M, N, L> {
        let of = |e, row: Self| if row.counts { math::fma(e, row.factor, row.even) } else { 0.0 };
        let labels = rows.map(|row| (row.label, row.at_label));
        e.zip_rows(rows, of).map_in_rows(&labels, |g, at_label| g - at_label).cast::<T>()
    }
}

/// The probabilities of logits, by their rows' sums.
#[inline(always)]
fn probabilities<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Fragment<T, M, N, L>,
    all: &Rows<Row, M, N, L>,
) -> Fragment<f32, M, N, L> {
    let from = all.map(|Row { all, .. }| (all.exponentials.origin(), -all.exponentials.log2()));
    x.map(T::to_f32).zip_rows(&from, |x, (origin, shift)| math::ex2(math::fma(x - origin, LOG2_E, shift)))
}

/// The labels of a tile's rows, of which the lower 32 bits are `low`: those of 64 bits, which have two columns, and that 32 bits do not hold become
/// ones that are out of range and not ignored.
///
/// Called where labels are used: a kernel that looks at them where it loads them waits there for the tile that it loads ahead too.
#[inline(always)]
fn whole<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    mut low: Rows<i32, M, N, L>,
    labels: Global<i32, 3>,
    tile: RowTile,
    ignored: i32,
) -> Rows<i32, M, N, L> {
    if labels.cols() == 2 {
        let of = labels.tile(tile.at(0));
        for_each_row::<L, M, N>(|r, row, _| {
            if of.element::<M, N>(row, 1) != low.regs.get(r) >> 31 {
                low.regs.set(r, if ignored == -1 { -2 } else { -1 });
            }
        });
    }
    low
}

/// The logits at the labels of a tile, of which the lower 32 bits are `low`, and what else results are made of; outside of the tensor nothing is
/// read.
#[inline(always)]
fn results<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Global<T, 3>,
    (low, labels, ignored): (Rows<i32, M, N, L>, Global<i32, 3>, i32),
    tile: RowTile,
    all: &Rows<Logits, M, N, L>,
) -> Rows<Row, M, N, L> {
    let (x, labels) = (x.tile(tile.at(0)), whole(low, labels, tile, ignored));
    let mut rows = labels.map(|label| Row { label, logit: 0.0, all: Logits::NONE });
    rows = rows.zip(all, |row, all| Row { all, ..row });
    for_each_row::<L, M, N>(|r, row, _| {
        let Row { label, .. } = rows.regs.get(r);
        let logit = x.element::<M, N>(row, label as u32).to_f32();
        rows.regs.set(r, Row { logit, ..rows.regs.get(r) });
    });
    rows
}

/// The sum of this thread's logits in columns from `from` to below `to`.
#[inline(always)]
fn totals<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Fragment<T, M, N, L>,
    [from, to]: [u32; 2],
) -> Rows<f32, M, N, L> {
    let x = x.anew().map(T::to_f32);
    let x = x.map_indexed(|_, col, x| if col >= from && col < to { x } else { 0.0 });
    x.fold_rows(0.0, |sum, x| sum + x)
}

/// loss = (1 - s) (log Σ exp x - x\[label\]) + s (log Σ exp x - mean of x) + z (log Σ exp x)² of every row of x, and `scale` times its
/// gradient by x.
///
/// x and gradients are \[batch, rows, columns\] with at most `N` `CTAS` columns, labels and losses \[batch, rows, 1\], or labels \[batch, rows, 2\]:
/// those of 64 bits, the low ones first. s is `smoothing`, z
/// `z_loss`. A row with the label `ignored` has loss and gradient 0; one with another label out of range NaN. No gradient is computed where
/// gradients has no elements. A cluster of `CTAS` CTAs takes tiles of `M` rows in the order of `order`, each CTA `N` columns of them.
#[kernel(
    program = P,
    cluster = [CTAS as u32, 1, 1],
    min_ctas = resident(P::THREADS, match T::BYTES {
        2 if F::PERSISTENT => 512,
        2 => 768,
        _ => 256,
    }),
)]
pub fn cross_entropy<
    P: RowProgram,
    F: Prefetch,
    T: Element,
    L,
    const M: usize,
    const N: usize,
    const CTAS: usize,
>(
    mut cta: Cta<P>,
    x: InBlock<Global<T, 3>>,
    labels: InBlock<Global<i32, 3>>,
    losses: InBlock<GlobalMut<f32, 3>>,
    gradients: InBlock<GlobalMut<T, 3>>,
    order: RowOrder,
    ignored: i32,
    smoothing: f32,
    z_loss: f32,
    scale: f32,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, CTAS>();
    let part = rows.part();
    let first = part * N as u32;
    let [least, _] = T::from_f32x2(f32::NEG_INFINITY, f32::NEG_INFINITY);
    let mut tile = RowTile::first(order, CTAS as u32);
    P::wait_for_preceding_grid();
    let load = |tile: RowTile| Fragment::<T, M, N, L>::load_rows(x.get().tile(tile.at(part)), least);
    let mut ahead = Fragment::splat(least);
    if F::NEXT {
        ahead = load(tile);
    }
    while tile.exists() {
        let (logits, here) = (if F::NEXT { ahead } else { load(tile) }, tile);
        tile = tile.next();
        if F::NEXT {
            ahead = load(tile);
        }
        let how = Loss { ignored, smoothing, z_loss, columns: x.get().cols() };
        let low = Rows::<i32, M, N, L>::load(labels.get().tile(here.at(0)), ignored);
        let (e, sums) = exponentials(logits, LOG2_E, false);
        let own = how.with_totals(sums, || totals(logits, [0, how.columns.saturating_sub(first)]));
        let all = rows.across_warps(own, Logits::with);
        let all = results(x.get(), (low, labels.get(), ignored), here, &all);
        how.store(&all, part == 0, losses.get().tile(here.at(0)));
        let shares = shares(sums, &all.map(|row| row.all.exponentials), LOG2_E);
        let by = how.gradients(&all, first, scale);
        let by = by.zip(&shares, |by, share| Gradient { factor: by.factor * share, ..by });
        Gradient::of_all::<T, L, M, N>(&by, e).store_rows(gradients.get().tile(here.at(part)));
    }
}

/// As [`cross_entropy`](fn@cross_entropy), for rows of at most `N` `CTAS` `PLACES` columns: shared memory holds them, and what it has room for of
/// the next ones.
#[kernel(program = P, cluster = [CTAS as u32, 1, 1], min_ctas = resident_held(P::THREADS, N * T::BYTES, RAGGED))]
pub fn cross_entropy_held<
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
    labels: InBlock<Global<i32, 3>>,
    losses: InBlock<GlobalMut<f32, 3>>,
    gradients: InBlock<GlobalMut<T, 3>>,
    order: RowOrder,
    ignored: i32,
    smoothing: f32,
    z_loss: f32,
    scale: f32,
) where
    L: FragmentLayout<1, N>,
{
    let mut rows = cta.row_reducer::<L, 1, N, CTAS>();
    let rank = rows.part();
    let [least, _] = T::from_f32x2(f32::NEG_INFINITY, f32::NEG_INFINITY);
    P::wait_for_preceding_grid();
    let mut parts = cta.row_parts::<T, L, N, CTAS, PLACES, RAGGED, 1>([x.get()], order, least);
    while parts.row().exists() {
        let how = Loss { ignored, smoothing, z_loss, columns: x.get().cols() };
        let row = parts.row();
        let low = Rows::<i32, 1, N, L>::load(labels.get().tile(row.at(0)), ignored);
        let own =
            parts.fold(Rows::splat(Logits::NONE), |own, [logits], part| how.and(own, logits, part.inside()));
        let all = rows.across_warps(how.over_lanes(own), Logits::with);
        let all = results(x.get(), (low, labels.get(), ignored), row, &all);
        how.store(&all, rank == 0, losses.get().tile(row.at(0)));
        let mut to = parts.row_of(&mut gradients.get());
        parts.take(|[logits], part| {
            let by = how.gradients(&all, part.first(), scale);
            let g = Gradient::of_all::<T, L, 1, N>(&by, probabilities(logits, &all));
            part.store(&g, &mut to);
        });
    }
}

/// As [`cross_entropy`](fn@cross_entropy), for rows of any length: they are read twice, `N` columns at a time.
#[kernel(program = P)]
pub fn cross_entropy_long<P: RowProgram, T: Element, L, const M: usize, const N: usize>(
    mut cta: Cta<P>,
    x: InBlock<Global<T, 3>>,
    labels: InBlock<Global<i32, 3>>,
    losses: InBlock<GlobalMut<f32, 3>>,
    gradients: InBlock<GlobalMut<T, 3>>,
    order: RowOrder,
    ignored: i32,
    smoothing: f32,
    z_loss: f32,
    scale: f32,
) where
    L: FragmentLayout<M, N>,
{
    let mut rows = cta.row_reducer::<L, M, N, 1>();
    let [least, _] = T::from_f32x2(f32::NEG_INFINITY, f32::NEG_INFINITY);
    let mut tile = RowTile::first(order, 1);
    P::wait_for_preceding_grid();
    while tile.exists() {
        let how = Loss { ignored, smoothing, z_loss, columns: x.get().cols() };
        let own = x.get().fold_row_parts::<M, N, L, _>(
            tile,
            least,
            Rows::splat(Logits::NONE),
            |own, logits, part| how.and(own, logits, [0, how.columns.saturating_sub(part * N as u32)]),
        );
        let low = Rows::<i32, M, N, L>::load(labels.get().tile(tile.at(0)), ignored);
        let all = rows.across_warps(how.over_lanes(own), Logits::with);
        let all = results(x.get(), (low, labels.get(), ignored), tile, &all);
        how.store(&all, true, losses.get().tile(tile.at(0)));
        if gradients.get().rows() > 0 {
            x.get().fold_row_parts::<M, N, L, _>(tile, least, (), |(), logits, part| {
                let by = how.gradients(&all, part * N as u32, scale);
                let g = Gradient::of_all::<T, L, M, N>(&by, probabilities(logits, &all));
                g.store_rows(gradients.get().tile(tile.at(part)));
            });
        }
        tile = tile.next();
    }
}
