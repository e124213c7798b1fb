//! Rows in shared memory, of which each thread has its own part.

use tilewright_device::tile::{
    Collective, Cols, Cta, FragmentLayout, Global, GlobalMut, Overlapped, Overlaps, RowOrder, RowTile, Rows,
    Simt, Spread,
};
use tilewright_device::{kernel, kernels};

use crate::copies::named;

/// y = x w + w, where w belongs to columns, and each row's sum besides at its column `at`; of rows of at most `C` `CTAS` `PLACES` columns.
///
/// The sum is taken with and without what lies outside, which is 7; where the two differ it is NaN.
#[kernel(
    program = P,
    cluster = [CTAS as u32, 1, 1],
    expects(x.shape() == y.shape(), w.cols() == x.cols(), at.rows() == x.rows())
)]
pub fn held<
    P: Collective + Overlaps,
    L: FragmentLayout<1, C>,
    const C: usize,
    const CTAS: usize,
    const PLACES: usize,
>(
    mut cta: Cta<P>,
    x: Global<f32, 3>,
    w: Global<f32, 3>,
    at: Global<i32, 3>,
    mut y: GlobalMut<f32, 3>,
    order: RowOrder,
) {
    let mut rows = cta.row_reducer::<L, 1, C, CTAS>();
    let mut tile = RowTile::first(order, CTAS as u32);
    P::wait_for_preceding_grid();
    let cols = x.cols();
    let mut parts = cta.row_parts::<f32, L, 1, C, CTAS, PLACES>(x, (tile, rows.part()), 7.0);
    while tile.exists() {
        let own = parts.fold(Rows::splat([0.0; 3]), |own, x, part| {
            let inside = x.fold_rows_before(cols.saturating_sub(part * C as u32), 0.0, |sum, x| sum + x);
            let all = x.fold_rows([0.0; 2], |[sum, count], x| [sum + x, count + 1.0]);
            let own = own.zip(&inside, |own, sum| [own[0] + sum, own[1], own[2]]);
            own.zip(&all, |own, [sum, count]| [own[0], own[1] + sum, own[2] + count])
        });
        let all = rows.reduce(own, |a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]);
        let sums = all.map(|[inside, all, count]| {
            if all == inside + 7.0 * (count - cols as f32) { inside } else { f32::NAN }
        });
        let places = Rows::<i32, 1, C, L>::load(at.tile(tile.at(0)), -1);
        parts.take(|x, part| {
            let w = Cols::<f32, 1, C, L>::load(w.tile([0, 0, part]), 0.0);
            let here = places.map(|place| ((place as u32).wrapping_sub(part * C as u32), 0.0));
            let here = here.zip(&sums, |(place, _), sum| (place, sum));
            let x = x.affine_cols(&w, &w).map_in_rows(&here, |x, sum| x + sum);
            x.store_rows(y.tile(tile.at(part)));
        });
        tile = tile.next();
    }
}

named! {
    sm_80 HeldByACta = held<Simt<2>, Spread<2, 64, 8, 4>, 512, 1, 3>;
    sm_80 HeldWhole = held<Simt<2>, Spread<2, 64, 4, 4>, 256, 1, 1>;
    sm_90 HeldByACluster = held<Overlapped<2>, Spread<2, 64, 4, 4>, 256, 4, 2>;
}
