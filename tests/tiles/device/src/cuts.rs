//! Tiles that are put together of two copies, and fragments that are cut into halves.

use tilewright_device::tile::{
    Cta, Fragment, FragmentLayout, FullRow, Global, GlobalMut, Multistage, OneConsumer, RowMajor, Schedule,
    Shared, Swizzle, TwoConsumers, WarpSpecialized, copy, warp,
};
use tilewright_device::{f16, kernel, kernels};

use crate::copies::named;

/// Columns of a tile.
pub const N: usize = 64;
/// Columns of half a tile.
const W: usize = N / 2;

/// y = x \[`M`, 64\] with its halves of rows exchanged, by the copies, and halves of columns, by the stores.
#[kernel(program = P)]
pub fn columns_cut<P: Schedule, L, const M: usize, const H: usize>(
    mut cta: Cta<P>,
    x: Global<f16, 2, RowMajor, 16>,
    mut y: GlobalMut<f16, 2>,
) where
    L: FragmentLayout<M, N> + FragmentLayout<M, W>,
{
    let stages = cta.stages::<1>();
    let x_s = stages.alloc::<Shared<f16, M, N, Swizzle<128>, RowMajor>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let mut tiles = pipe.loads(0..1, |s, _| {
        copy(x.tile([0, 0]), x_s.at(s).rows::<H>(1));
        copy(x.tile([1, 0]), x_s.at(s).rows::<H>(0));
    });
    if !cta.computes() {
        return;
    }
    let tile = tiles.acquire();
    let all = Fragment::<f16, M, N, L>::load(x_s.at(tile.full()));
    tiles.release(tile);
    copy(all.columns::<0, W>(), y.tile([0, 1]));
    copy(all.columns::<W, W>(), y.tile([0, 0]));
}

/// The same, with halves of rows exchanged by the copies and back by the stores.
#[kernel(program = P)]
pub fn rows_cut<P: Schedule, L, const M: usize, const H: usize>(
    mut cta: Cta<P>,
    x: Global<f16, 2, RowMajor, 16>,
    mut y: GlobalMut<f16, 2>,
) where
    L: FragmentLayout<M, N> + FragmentLayout<H, N>,
{
    let stages = cta.stages::<1>();
    let x_s = stages.alloc::<Shared<f16, M, N, Swizzle<128>, RowMajor>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let mut tiles = pipe.loads(0..1, |s, _| {
        copy(x.tile([0, 0]), x_s.at(s).rows::<H>(1));
        copy(x.tile([1, 0]), x_s.at(s).rows::<H>(0));
    });
    if !cta.computes() {
        return;
    }
    let tile = tiles.acquire();
    let all = Fragment::<f16, M, N, L>::load(x_s.at(tile.full()));
    tiles.release(tile);
    copy(all.rows::<0, H>(), y.tile([1, 0]));
    copy(all.rows::<H, H>(), y.tile([0, 0]));
}

named! {
    sm_80 ColumnsCutOfWarps = columns_cut<Multistage<4>, warp::FullRow<4>, 64, 32>;
    sm_90 ColumnsCutOfWarpgroups = columns_cut<WarpSpecialized<TwoConsumers>, FullRow<2>, 256, 128>;
    sm_80 RowsCutOfWarps = rows_cut<Multistage<4>, warp::FullCol<4>, 32, 16>;
    sm_90 RowsCutOfWarpgroup = rows_cut<WarpSpecialized<OneConsumer>, FullRow<1>, 128, 64>;
}

/// What the host must know of a kernel.
pub trait Cut {
    /// Rows of a tile.
    const ROWS: usize;
    /// Whether halves of rows and of columns come out exchanged.
    const EXCHANGED: [bool; 2];
}

impl<P, L, const M: usize, const H: usize> Cut for columns_cut<P, L, M, H> {
    const ROWS: usize = M;
    const EXCHANGED: [bool; 2] = [true, true];
}

impl<P, L, const M: usize, const H: usize> Cut for rows_cut<P, L, M, H> {
    const ROWS: usize = M;
    const EXCHANGED: [bool; 2] = [false, false];
}
