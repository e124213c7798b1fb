//! What losses of rows and their gradients are made of.

use core::f32::consts::{LN_2, LOG2_E};

use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Element, Fragment, FragmentLayout, Global, GlobalTileMut, RowMajor, RowReducer, RowTile, Rows,
    for_each_row, math,
};

use crate::program::{Prefetch, RowProgram};
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
    pub(crate) label: i32,
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
        to: GlobalTileMut<f32, 3, RowMajor, 0>,
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
    labels: Global<i32, 3, RowMajor, 0>,
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
    x: Global<T, 3, RowMajor, 0>,
    (low, labels, ignored): (Rows<i32, M, N, L>, Global<i32, 3, RowMajor, 0>, i32),
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
