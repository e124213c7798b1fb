//! Reductions of rows wherever they lie, and values of columns.

use tilewright_device::tile::{
    Collective, Cols, Cta, Fragment, FragmentLayout, FullCol, Global, GlobalMut, Overlapped, Overlaps,
    RowOrder, RowTile, Rows, Simt, Spread, StepRows, Striped, Threads, atomic_add, block_x, block_y, copy,
    grid_y, warp,
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
#[kernel(threads = <L as FragmentLayout<M, N>>::THREADS, expects(w.cols() == x.cols(), x.shape() == y.shape()))]
pub fn by_columns<L: FragmentLayout<M, N>>(x: Global<f32, 3>, w: Global<f32, 3>, mut y: GlobalMut<f32, 3>) {
    let place = [0, block_x(), block_y()];
    let w = Cols::<f32, M, N, L>::load(w.tile([0, 0, block_y()]), 0.0);
    let numbers = Cols::<u32, M, N, L>::indexed(|col| block_y() * N as u32 + col).map(|col| col as f32);
    let x = Fragment::<f32, M, N, L>::load(x.tile(place));
    copy(x.zip_cols(&w, |x, w| x * w).zip_cols(&numbers, |x, c| x + c), y.tile(place));
}

/// y = what each row of x comes to when its elements, and 1, are added one after the other to half of what was there.
#[kernel(threads = <L as FragmentLayout<M, N>>::THREADS, expects(x.rows() == y.rows()))]
pub fn by_steps<L: FragmentLayout<M, N>>(x: Global<f32, 2>, mut y: GlobalMut<f32, 2>) {
    let mut steps = StepRows::new(
        |step| Rows::<f32, M, N, L>::load_or_zero(x.tile([block_x(), step])),
        |rows: Rows<f32, M, N, L>| rows.map(|x| x + 1.0),
    );
    let mut all = Rows::<f32, M, N, L>::splat(0.0);
    for _ in 0..x.cols() {
        all = all.zip(&steps.take(), |all, x| 0.5 * all + x);
    }
    let to = y.tile([block_x(), 0]);
    all.for_each(|row, first, x| {
        if first {
            to.put::<M, 1>(row, 0, x);
        }
    });
}

/// y = what the columns of x sum up to, row of CTAs by row of CTAs; `most` += their greatest elements. The second column of `numbers` +=
/// those of a tile's rows, from 1 on, and the first is their negatives.
///
/// CTAs of a row of `R` columns of the grid have rows in turn.
#[kernel(program = P)]
pub fn col_sums<P: Collective, L: FragmentLayout<R, C>, const R: usize, const C: usize>(
    mut cta: Cta<P>,
    x: Global<i32, 2>,
    mut y: GlobalMut<i32, 2>,
    mut most: GlobalMut<i32, 2>,
    mut numbers: GlobalMut<i32, 2>,
) {
    let mut cols = cta.col_reducer::<(i32, i32), L, R, C>();
    let pair = |a: (i32, i32), b: (i32, i32)| (a.0.wrapping_add(b.0), if a.1 > b.1 { a.1 } else { b.1 });
    let mut all = Fragment::<(i32, i32), R, C, L>::splat((0, 0));
    let mut rows = block_y();
    while rows * (R as u32) < x.rows() {
        let tile = Fragment::<i32, R, C, L>::load(x.tile([rows, block_x()]));
        all = all.zip(&tile, |all, x| pair(all, (x, x)));
        rows += grid_y();
    }
    let all = cols.reduce_cols(&all, (0, 0), pair);
    copy(all.map(|all| all.0), y.tile([block_y(), block_x()]));
    atomic_add(all.map(|all| all.1), most.tile([0, block_x()]));
    // Once more, when the values of the first reduction are read.
    let twice = cols.reduce(all, |a, _| a);
    atomic_add(twice.map(|all| all.1), most.tile([1, block_x()]));
    copy(Rows::<i32, R, C, L>::indexed(|row| -(row as i32) - 1), numbers.tile([0, 0]));
    atomic_add(Rows::<i32, R, C, L>::indexed(|row| row as i32 + 1), numbers.tile([0, 1]));
}

named! {
    sm_80 SumsOfThreads = col_sums<Simt<4>, Threads<8, 16, 4>, 32, 64>;
    sm_80 SumsOfStripes = col_sums<Simt<4>, Striped<4>, 32, 128>;
    sm_80 SumsOfAccumulators = col_sums<Simt<4>, warp::Square<2, 2>, 64, 32>;
    sm_80 SumsOfSpread = col_sums<Simt<4>, Spread<4, 64, 8, 1>, 2, 512>;

    sm_80 ArgmaxOfLanes = argmax<Simt<4>, Spread<4, 8, 8, 4>, 16, 64, 1>;
    sm_80 ArgmaxOfWarps = argmax<Simt<8>, Spread<8, 64, 8, 1>, 4, 512, 1>;
    sm_80 ArgmaxOfStripes = argmax<Simt<4>, Striped<4>, 32, 128, 1>;
    sm_90 ArgmaxOfCta = argmax<Overlapped<8>, Spread<8, 256, 8, 4>, 1, 2048, 1>;
    sm_90 ArgmaxOfCluster = argmax<Overlapped<4>, Spread<4, 128, 4, 1>, 1, 512, 4>;
    sm_90 ArgmaxOfManyWarps = argmax<Overlapped<16>, Spread<16, 512, 4, 4>, 1, 2048, 8>;

    sm_80 StepsOfStripes = by_steps<Striped<4>>;
    sm_80 StepsOfWarps = by_steps<warp::Square<2, 2>>;
    sm_80 StepsOfWarpgroups = by_steps<FullCol<2>>;

    sm_80 ColumnsStriped = by_columns<Striped<4>>;
    sm_80 ColumnsWarps = by_columns<warp::Square<2, 2>>;
    sm_80 ColumnsWarpgroups = by_columns<FullCol<2>>;
}

/// What the host must know to divide a matrix into tiles.
pub trait Summed {
    /// Rows and columns of a tile.
    const TILE: [usize; 2];
}

impl<P, L, const R: usize, const C: usize> Summed for col_sums<P, L, R, C> {
    const TILE: [usize; 2] = [R, C];
}
