//! Reductions of rows wherever they lie, and values of columns.

use tilewright_device::tile::{
    Collective, Cols, Cta, Fragment, FragmentLayout, FullCol, Global, GlobalMut, Overlapped, Overlaps,
    RowOrder, RowTile, Simt, Spread, Striped, block_x, block_y, copy, warp,
};
use tilewright_device::{kernel, kernels};

use crate::copies::{M, N, named};

/// y = the first column of the greatest element of each row of x \[1, rows, columns\], in one pass over at most `C` `CTAS` columns.
#[kernel(program = P, cluster = [CTAS as u32, 1, 1])]
pub fn argmax<
    P: Collective + Overlaps,
    L: FragmentLayout<R, C>,
    const R: usize,
    const C: usize,
    const CTAS: usize,
>(
    mut cta: Cta<P>,
    x: Global<f32, 3>,
    mut y: GlobalMut<i32, 3>,
    order: RowOrder,
) {
    let mut rows = cta.row_reducer::<L, R, C, CTAS>();
    let part = rows.part();
    P::wait_for_preceding_grid();
    let mut tile = RowTile::first(order, CTAS as u32);
    while tile.exists() {
        let x = Fragment::<f32, R, C, L>::load_rows(x.tile(tile.at(part)), f32::NEG_INFINITY);
        let pairs = x.map_indexed(|_, col, x| (x, part * C as u32 + col));
        let first_greatest = |a: (f32, u32), b: (f32, u32)| {
            if b.0 > a.0 || (b.0 == a.0 && b.1 < a.1) { b } else { a }
        };
        let most = rows.reduce_rows(&pairs, (f32::NEG_INFINITY, u32::MAX), first_greatest);
        let to = y.tile(tile.at(0));
        most.for_each(|row, first, (_, col)| {
            if first && part == 0 {
                to.put::<R, 1>(row, 0, col as i32);
            }
        });
        tile = tile.next();
    }
}

/// y = x w + c, where w and c belong to columns, c being their numbers.
#[kernel(threads = <L as FragmentLayout<M, N>>::THREADS)]
pub fn by_columns<L: FragmentLayout<M, N>>(x: Global<f32, 3>, w: Global<f32, 3>, mut y: GlobalMut<f32, 3>) {
    let place = [0, block_x(), block_y()];
    let w = Cols::<f32, M, N, L>::load(w.tile([0, 0, block_y()]), 0.0);
    let numbers = Cols::<u32, M, N, L>::indexed(|col| block_y() * N as u32 + col).map(|col| col as f32);
    let x = Fragment::<f32, M, N, L>::load(x.tile(place));
    copy(x.zip_cols(&w, |x, w| x * w).zip_cols(&numbers, |x, c| x + c), y.tile(place));
}

named! {
    sm_80 ArgmaxOfLanes = argmax<Simt<4>, Spread<4, 8, 8, 4>, 16, 64, 1>;
    sm_80 ArgmaxOfWarps = argmax<Simt<8>, Spread<8, 64, 8, 1>, 4, 512, 1>;
    sm_80 ArgmaxOfStripes = argmax<Simt<4>, Striped<4>, 32, 128, 1>;
    sm_90 ArgmaxOfCta = argmax<Overlapped<8>, Spread<8, 256, 8, 4>, 1, 2048, 1>;
    sm_90 ArgmaxOfCluster = argmax<Overlapped<4>, Spread<4, 128, 4, 1>, 1, 512, 4>;
    sm_90 ArgmaxOfManyWarps = argmax<Overlapped<16>, Spread<16, 512, 4, 4>, 1, 2048, 8>;

    sm_80 ColumnsStriped = by_columns<Striped<4>>;
    sm_80 ColumnsWarps = by_columns<warp::Square<2, 2>>;
    sm_80 ColumnsWarpgroups = by_columns<FullCol<2>>;
}
