//! Cross-entropy of rows of logits, and its gradient, in one pass.

use core::f32::consts::{LN_2, LOG2_E};

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cta, Element, Fragment, FragmentLayout, Global, GlobalMut, GlobalTileMut, InBlock, RowOrder, RowReducer,
    RowTile, Rows, for_each_row, math,
};

use crate::program::{Prefetch, RowProgram, resident};
use crate::softmax_rows::{Sum, exponentials, over_lanes, shares, sums_after};

/// What a loss takes of a row: the sum of its exponentials, and that of its logits.
#[derive(Clone, Copy)]
pub(crate) struct Logits {
    exponentials: Sum,
    total: f32,
}

impl Logits {
    pub(crate) const NONE: Self = Logits { exponentials: Sum::NONE, total: 0.0 };

    #[inline(always)]
    pub(crate) fn with(self, other: Self) -> Self {
        let exponentials = self.exponentials.with(other.exponentials, LOG2_E);
        Logits { exponentials, total: self.total + other.total }
    }
    /// log Σ exp x.
    #[inline(always)]
    pub(crate) fn log(&self) -> f32 {
        self.exponentials.origin() + self.exponentials.log2() * LN_2
    }
}

/// What a row's loss and gradient are made of.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// The label, and the logit there; 0 where there is none.
    label: i32,
    logit: f32,
    all: Logits,
}

/// Whether a tile's gradients are stored at once and those at the labels behind them: to ask each access whether it has the label, all that a thread
/// holds would have to lie in registers for each answer.
pub(crate) const fn labels_behind<L: FragmentLayout<M, N>, const M: usize, const N: usize>() -> bool {
    L::Regs::<f32>::LEN > 32
}

/// How losses are computed.
#[derive(Clone, Copy)]
pub(crate) struct Loss {
    pub(crate) ignored: i32,
    pub(crate) smoothing: f32,
    pub(crate) z_loss: f32,
    pub(crate) columns: u32,
}

impl Loss {
    /// What is multiplied with a row's results: 0 where the label is ignored, NaN where it is out of range.
    #[inline(always)]
    pub(crate) fn counts(&self, label: i32) -> f32 {
        match label {
            _ if label == self.ignored => 0.0,
            _ if label as u32 >= self.columns => f32::NAN,
            _ => 1.0,
        }
    }
    /// What is known of rows, and of logits of which those in columns from the one to below the other are `inside`.
    #[inline(always)]
    pub(crate) fn and<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
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
    pub(crate) fn over_lanes<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &self,
        own: Rows<Logits, M, N, L>,
    ) -> Rows<Logits, M, N, L> {
        let sums = over_lanes(own.map(|own| own.exponentials), LOG2_E);
        self.with_totals(sums, || own.map(|own| own.total))
    }
    /// The sums of lanes that share a row, with those of the threads' logits, which are asked for where they count.
    #[inline(always)]
    pub(crate) fn with_totals<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
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
    pub(crate) fn of(&self, row: &Row) -> f32 {
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
    pub(crate) fn store<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
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
    /// What is known of rows whose logits registers hold, of which the columns from the one to below the other are `inside`, and `scale` times their
    /// gradients: `of` finds the logits at the labels. Where [`labels_behind`], these lack what labels take off, and the gradients at the labels come besides.
    #[inline(always)]
    pub(crate) fn computed<
        P: RowProgram,
        F: Prefetch,
        T: Element,
        L: FragmentLayout<M, N>,
        const M: usize,
        const N: usize,
        const CTAS: usize,
    >(
        &self,
        rows: &mut RowReducer<P, L, M, N, CTAS>,
        logits: Fragment<T, M, N, L>,
        (first, inside): (u32, [u32; 2]),
        scale: f32,
        of: impl FnOnce(&Rows<Logits, M, N, L>) -> Rows<Row, M, N, L>,
    ) -> (Rows<Row, M, N, L>, Fragment<T, M, N, L>, Rows<f32, M, N, L>) {
        // First, so that exponentials alone are held behind it; but not before the next tile is asked for.
        let (first_of_all, mut sum) = (!F::PERSISTENT, Rows::splat(0.0));
        if first_of_all && self.smoothing != 0.0 {
            sum = totals(logits, inside);
        }
        let (e, sums) = exponentials(if first_of_all { logits.anew() } else { logits }, LOG2_E, false);
        let own = self.with_totals(sums, || if first_of_all { sum } else { totals(logits, inside) });
        let all = of(&rows.across_warps(own, Logits::with));
        let shares = shares(sums, &all.map(|row| row.all.exponentials), LOG2_E);
        let by = self.gradients(&all, first, scale);
        let by = by.zip(&shares, |by, share| Gradient { factor: by.factor * share, ..by });
        if const { !labels_behind::<L, M, N>() } {
            return (all, Gradient::of_all(&by, e), all.map(|_| 0.0));
        }
        let exponentials =
            all.map(|row| row.logit).zip(&sums, |logit, own| math::ex2((logit - own.origin()) * LOG2_E));
        let at_labels = exponentials.zip(&by, |e, by| by.of(e) - by.at_label);
        (all, e.zip_rows(&by, |e, by| by.of(e)).cast(), at_labels)
    }
    /// What `scale` times the gradient is made of, in columns from `first` on.
    #[inline(always)]
    pub(crate) fn gradients<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
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
pub(crate) struct Gradient {
    counts: bool,
    factor: f32,
    even: f32,
    label: u32,
    at_label: f32,
}

impl Gradient {
    /// Of an exponential that is not the label's.
    #[inline(always)]
    pub(crate) fn of(&self, e: f32) -> f32 {
        if self.counts { math::fma(e, self.factor, self.even) } else { 0.0 }
    }
    /// The gradients of a tile, of its exponentials.
    #[inline(always)]
    pub(crate) fn of_all<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        rows: &Rows<Self, M, N, L>,
        e: Fragment<f32, M, N, L>,
    ) -> Fragment<T, M, N, L> {
        let labels = rows.map(|row| (row.label, row.at_label));
        e.zip_rows(rows, |e, row| row.of(e)).map_in_rows(&labels, |g, at_label| g - at_label).cast::<T>()
    }
}

/// The probabilities of logits, by their rows' sums.
#[inline(always)]
pub(crate) fn probabilities<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
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
pub(crate) fn results<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
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
    let x = x.anew().map_indexed(|_, col, x| if col >= from && col < to { x } else { T::ZERO });
    x.fold_rows(0.0, |sum, x| sum + x.to_f32())
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
        2 if F::PERSISTENT || labels_behind::<L, M, N>() => 512,
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
        let inside = [0, how.columns.saturating_sub(first)];
        let of = |all: &_| {
            let all = results(x.get(), (low, labels.get(), ignored), here, all);
            how.store(&all, part == 0, losses.get().tile(here.at(0)));
            all
        };
        let (all, g, at_labels) =
            how.computed::<P, F, T, L, M, N, CTAS>(&mut rows, logits, (first, inside), scale, of);
        g.store_rows(gradients.get().tile(here.at(part)));
        if const { labels_behind::<L, M, N>() } {
            for_each_row::<L, M, N>(|r, row, _| {
                let label = (all.regs.get(r).label as u32).wrapping_sub(first);
                // By the thread that stored the others there, behind them.
                if label < N as u32 && L::owner(row, label).0 == thread_x() {
                    let [g, _] = T::from_f32x2(at_labels.regs.get(r), 0.0);
                    gradients.get().tile(here.at(part)).put::<M, N>(row, label, g);
                }
            });
        }
        if !F::PERSISTENT {
            // Known when it is compiled: nothing is kept for another tile.
            break;
        }
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
