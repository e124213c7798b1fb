//! Rows by a list of indices: in a pipeline's stage, in a fragment.

use tilewright_device::tile::{
    ColMajor, Cta, Element, Elements, Fragment, FragmentLayout, FullRow, Gemm, Global, GlobalMut, Multistage,
    OneConsumer, RowMajor, Schedule, Shared, Striped, WarpSpecialized, block_x, block_y, copy, gemm, warp,
};
use tilewright_device::{f16, kernel, kernels};

use crate::copies::named;

/// Rows, columns and depth of a product's tile.
pub const TILE: usize = 64;

/// Rows and columns of a fragment.
pub const ROWS: usize = 32;
/// Columns of a fragment.
pub const COLS: usize = 128;

/// Indices of rows \[1, rows\]; negative ones are outside of every tensor.
pub type Indices = Global<i32, 2, RowMajor, 0>;

/// The `i`-th index.
fn index(of: Indices, i: u32) -> Option<u32> {
    (i < of.cols()).then(|| of.tile([0, i]).element::<1, 1>(0, 0) as u32)
}

/// C = (rows of A by their indices) B: the first product of a mixture of experts.
#[kernel(program = P, expects(index.cols() == c.rows(), a.cols() == b.rows()))]
pub fn gathered_product<P: Schedule, Y: Gemm<f16, TILE, TILE, TILE>>(
    mut cta: Cta<P>,
    a: Global<f16, 2, RowMajor, 1>,
    index: Indices,
    b: Global<f16, 2, ColMajor>,
    mut c: GlobalMut<f32, 2>,
) {
    let stages = cta.stages::<2>();
    let a_s = stages.alloc::<Shared<f16, TILE, TILE, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, TILE, TILE, _, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let acc = pipe.run(
        0..a.cols().div_ceil(TILE as u32),
        Fragment::<f32, TILE, TILE, _>::zero(),
        #[inline(always)]
        |s, k| {
            let first = block_x() * TILE as u32;
            let line = |r| Some([self::index(index, first + r)?, k * TILE as u32]);
            copy(a.gather(line), a_s.at(s));
            copy(b.tile([k, block_y()]), b_s.at(s));
        },
        #[inline(always)]
        |acc, s, _| gemm(Y::default(), a_s.at(s), b_s.at(s), acc),
    );
    copy(acc, c.tile([block_x(), block_y()]));
}

/// y = the rows of x \[1, rows, columns\] by their indices, from column `from` on.
#[kernel(threads = <L as FragmentLayout<ROWS, COLS>>::THREADS, expects(index.cols() == y.rows()))]
pub fn gathered_rows<T: Element, L: FragmentLayout<ROWS, COLS>>(
    x: Global<T, 3, RowMajor, 0>,
    index: Indices,
    mut y: GlobalMut<T, 2>,
    from: u32,
) {
    let (row, col) = (block_x() * ROWS as u32, block_y() * COLS as u32);
    let line = |r| Some([0, self::index(index, row + r)?, from + col]);
    let rows = Fragment::<T, ROWS, COLS, L>::load(x.gather(line));
    copy(rows, y.tile([block_x(), block_y()]));
}

/// y = the rows of x \[rows, columns\] that the greatest elements of s name, the first of equals: row r by row r ^ `apart`.
#[kernel(threads = <L as FragmentLayout<ROWS, COLS>>::THREADS, expects(s.cols() == COLS as u32, s.rows() == y.rows(), y.cols() <= COLS as u32))]
pub fn greatest_rows<L: FragmentLayout<ROWS, COLS>>(
    s: Global<f32, 2>,
    x: Global<f16, 2>,
    mut y: GlobalMut<f16, 2>,
    apart: u32,
) {
    let s = Fragment::<f32, ROWS, COLS, L>::load(s.tile([block_x(), 0]));
    let greatest = s.map_indexed(|_, col, s| (s, col)).reduce_rows((f32::NEG_INFINITY, u32::MAX), |a, b| {
        if a.0 > b.0 || a.0 == b.0 && a.1 < b.1 { a } else { b }
    });
    let line = |row| Some([greatest.at(row ^ apart).1, 0]);
    copy(Fragment::<f16, ROWS, COLS, L>::load(x.gather(line)), y.tile([block_x(), 0]));
}

named! {
    sm_80 GatheredPieces = gathered_product<Multistage<4>, warp::Square<2, 2>>;
    sm_80 GatheredElements = gathered_product<Multistage<4, Elements>, warp::FullRow<4>>;
    sm_90 GatheredBoxes = gathered_product<WarpSpecialized<OneConsumer>, FullRow<1>>;

    sm_80 GatheredStripes = gathered_rows<f16, Striped<4>>;
    sm_80 GatheredAccumulator = gathered_rows<f32, warp::Square<2, 2>>;

    sm_80 GreatestOfStripes = greatest_rows<Striped<4>>;
    sm_80 GreatestOfAccumulators = greatest_rows<warp::FullRow<2>>;
}
