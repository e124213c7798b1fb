//! Cross-entropy of rows of logits, and its gradient, in one pass.

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cta, Element, Fragment, FragmentLayout, RowOrder, RowTile, Rows, Unmapped, UnmappedMut, for_each_row,
};

use crate::loss::{Gradient, Logits, Loss, labels_behind, probabilities, results};
use crate::program::{Prefetch, RowProgram, resident};

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
    x: Unmapped<T, 3>,
    labels: Unmapped<i32, 3>,
    losses: UnmappedMut<f32, 3>,
    gradients: UnmappedMut<T, 3>,
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
    x: Unmapped<T, 3>,
    labels: Unmapped<i32, 3>,
    losses: UnmappedMut<f32, 3>,
    gradients: UnmappedMut<T, 3>,
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
