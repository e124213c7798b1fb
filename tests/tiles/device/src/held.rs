//! Rows in shared memory, of which each thread has its own part.

use tilewright_device::tile::{
    Collective, ColumnsFrom, Cta, Element, Fragment, FragmentLayout, Overlapped, Overlaps, RowOrder, Rows,
    Simt, Spread, Unmapped, UnmappedMut, block_x,
};
use tilewright_device::{f16, kernel, kernels};

use crate::copies::named;

/// y = 2 x, and each row's sum besides at its column `at`; of rows of at most `C` `CTAS` `PLACES` columns, 7 less where they may be ragged.
///
/// The sum is taken with and without what lies outside, which is 7; where the two differ it is NaN.
#[kernel(
    program = P,
    cluster = [CTAS as u32, 1, 1],
    expects(x.rows() == y.rows(), at.rows() == x.rows())
)]
pub fn held<
    P: Collective + Overlaps,
    T: Element,
    L: FragmentLayout<1, C>,
    const C: usize,
    const CTAS: usize,
    const PLACES: usize,
    const RAGGED: bool,
>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    at: Unmapped<i32, 3>,
    y: UnmappedMut<T, 3>,
    order: RowOrder,
) {
    let mut rows = cta.row_reducer::<L, 1, C, CTAS>();
    P::wait_for_preceding_grid();
    let (x, at, mut y) = (x.get(), at.get(), y.get());
    let [seven, _] = T::from_f32x2(7.0, 7.0);
    let cols = x.cols() as f32;
    let mut parts = cta.row_parts::<T, L, C, CTAS, PLACES, RAGGED, 1>([x], order, seven);
    while parts.row().exists() {
        let row = parts.row();
        let own = parts.fold(Rows::splat([0.0; 3]), |own, [x], part| {
            let [from, to] = part.inside();
            let (x, below) =
                (x.to_f32(), |_: u32, col: u32, x: f32| if col < from || col >= to { 0.0 } else { x });
            let inside = x.map_indexed(below).fold_rows(0.0, |sum, x| sum + x);
            let all = x.fold_rows([0.0; 2], |[sum, count], x| [sum + x, count + 1.0]);
            let own = own.zip(&inside, |own, sum| [own[0] + sum, own[1], own[2]]);
            own.zip(&all, |own, [sum, count]| [own[0], own[1] + sum, own[2] + count])
        });
        let all = rows.reduce(own, |a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]);
        let sums = all.map(
            |[inside, all, count]| {
                if all == inside + 7.0 * (count - cols) { inside } else { f32::NAN }
            },
        );
        let places = Rows::<i32, 1, C, L>::load(at.tile(row.at(0)), -1);
        let mut to = parts.row_of(&mut y);
        parts.take(|[x], part| {
            let here = places.map(|place| ((place as u32).wrapping_sub(part.first()), 0.0));
            let here = here.zip(&sums, |(place, _), sum| (place, sum));
            let x = x.to_f32().map(|x| 2.0 * x).map_in_rows(&here, |x, sum| x + sum);
            part.store(&x.cast::<T>(), &mut to);
        });
    }
}

/// y = x + z w, of the rows of x and z together, and of rows that are not ragged each cluster's sums of z over its rows; of at most `C` `CTAS`
/// `PARTS` columns, 7 less where they may be ragged. w is 1 where it has no elements.
#[kernel(
    program = P,
    cluster = [CTAS as u32, 1, 1],
    expects(x.shape() == y.shape(), sums.cols() == y.cols())
)]
pub fn together<
    P: Collective + Overlaps,
    T: Element,
    L: FragmentLayout<1, C>,
    const C: usize,
    const CTAS: usize,
    const PARTS: usize,
    const RAGGED: bool,
>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    z: Unmapped<T, 3>,
    w: Unmapped<T, 3>,
    y: UnmappedMut<T, 3>,
    sums: UnmappedMut<f32, 3>,
    order: RowOrder,
) {
    let first = cta.row_reducer::<L, 1, C, CTAS>().part();
    P::wait_for_preceding_grid();
    let (x, z, w, mut y, mut sums) = (x.get(), z.get(), w.get(), y.get(), sums.get());
    let [one, zero] = T::from_f32x2(1.0, 0.0);
    let w = ColumnsFrom::new(w.tile([0; 3]), one);
    let mut parts = cta.row_parts::<T, L, C, CTAS, 3, RAGGED, 2>([x, z], order, zero);
    let mut own = [Fragment::<f32, 1, C, L>::zero(); PARTS];
    while parts.row().exists() {
        let mut to = parts.row_of(&mut y);
        parts.take_each::<PARTS>(|i, [x, z], part| {
            let (z, w) = (z.to_f32(), w.load::<1, C, L>(part.first()));
            own[i] = own[i].zip(&z, |sum, z| sum + z);
            let result = x.to_f32().zip(&z.zip_cols(&w, |z, w| z * w.to_f32()), |x, z| x + z);
            part.store(&result.cast::<T>(), &mut to);
        });
    }
    let mut i = 0;
    while i < PARTS && !RAGGED {
        let part = first + (i * CTAS) as u32;
        own[i].store_rows(sums.tile([0, block_x() / CTAS as u32, part]));
        i += 1;
    }
}

named! {
    sm_80 HeldByACta = held<Simt<2>, f32, Spread<2, 64, 8, 4>, 512, 1, 3, false>;
    sm_80 HeldWhole = held<Simt<2>, f16, Spread<2, 64, 8, 8>, 512, 1, 1, false>;
    sm_90 HeldByACluster = held<Overlapped<2>, f16, Spread<2, 64, 8, 8>, 512, 4, 2, false>;
    sm_80 RaggedByACta = held<Simt<2>, f32, Spread<2, 64, 8, 4>, 512, 1, 3, true>;
    sm_90 TogetherByACluster = together<Overlapped<2>, f16, Spread<2, 64, 8, 8>, 512, 2, 2, false>;
    sm_80 TogetherRagged = together<Simt<2>, f32, Spread<2, 64, 8, 4>, 512, 1, 3, true>;
    sm_80 TogetherByAWarp = together<Simt<1>, f16, Spread<1, 32, 16, 8>, 512, 1, 2, true>;
    sm_90 RaggedByACluster = held<Overlapped<2>, f16, Spread<2, 64, 8, 8>, 512, 2, 3, true>;
}
