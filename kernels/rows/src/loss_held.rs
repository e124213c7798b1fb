//! Cross-entropy of rows that lie in shared memory, or begin anywhere.

use tilewright_device::kernel;
use tilewright_device::tile::{Cta, Element, FragmentLayout, RowOrder, RowTile, Rows, Unmapped, UnmappedMut};

use crate::loss::{Gradient, Logits, Loss, labels_behind, probabilities, results};
use crate::program::{OneTile, RowProgram, resident, resident_held};

/// As [`cross_entropy`](fn@crate::cross_entropy), for rows of contiguous tensors that begin anywhere, with at most `N` `CTAS` columns less those of a vector but
/// one: one tile a CTA.
#[kernel(
    program = P,
    cluster = [CTAS as u32, 1, 1],
    min_ctas = resident(P::THREADS, if P::THREADS < 512 { 768 } else { 1024 }),
)]
pub fn cross_entropy_ragged<P: RowProgram, T: Element, L, const M: usize, const N: usize, const CTAS: usize>(
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
    let tile = RowTile::first(order, CTAS as u32);
    let [least, _] = T::from_f32x2(f32::NEG_INFINITY, f32::NEG_INFINITY);
    P::wait_for_preceding_grid();
    const {
        assert!(
            !labels_behind::<L, M, N>(),
            "of wider tiles of rows that begin anywhere labels are not stored"
        )
    };
    let how = Loss { ignored, smoothing, z_loss, columns: x.get().cols() };
    let part = x.get().ragged_part::<L, M, N>(tile, rows.part());
    let logits = part.load::<T, L, M, N>(&x.get(), least);
    let low = Rows::<i32, M, N, L>::load(labels.get().tile(tile.at(0)), ignored);
    let rank = rows.part();
    let of = |all: &_| {
        let all = results(x.get(), (low, labels.get(), ignored), tile, all);
        how.store(&all, rank == 0, losses.get().tile(tile.at(0)));
        all
    };
    let (first, inside) = (part.first(), part.inside());
    let (_, g, _) =
        how.computed::<P, OneTile, T, L, M, N, CTAS>(&mut rows, logits, (first, inside), scale, of);
    part.store(&g, &mut part.row_of(&mut gradients.get()));
}

/// As [`cross_entropy`](fn@crate::cross_entropy), for rows of at most `N` `CTAS` `PLACES` columns: shared memory holds them, and what it has room for of
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
