//! Fragments whose rows and columns change places, and tiles that are loaded so.

use tilewright_device::tile::{
    Cta, Fragment, FullRow, Global, GlobalMut, RowsOfWarps, Scratch, Shared, Simt, Swizzle, copy, warp,
};
use tilewright_device::{f16, kernel, kernels};

use crate::copies::named;

/// y = xᵀ in registers, of x \[`M`, `N`\]; z = y again, its transpose loaded from shared memory.
#[kernel(program = Simt<W>)]
pub fn transposition<L: RowsOfWarps<M, N>, const W: usize, const M: usize, const N: usize>(
    mut cta: Cta<Simt<W>>,
    x: Global<f16, 2>,
    mut y: GlobalMut<f16, 2>,
    mut z: GlobalMut<f16, 2>,
) {
    copy(Fragment::<f16, M, N, L>::load(x.tile([0, 0])).transposed(), y.tile([0, 0]));
    let mut tile_s: Scratch<_, Shared<f16, N, M, Swizzle<128>>> = cta.scratch();
    let columns = Fragment::<f16, M, N, L>::load(x.tile([0, 0])).transposed();
    copy(columns, &mut tile_s);
    copy(Fragment::<f16, M, N, L>::load_transposed(tile_s.full().t()), z.tile([0, 0]));
}

named! {
    sm_80 TransposedOfWarpgroup = transposition<FullRow<1>, 4, 64, 64>;
    sm_80 TransposedOfWarpgroups = transposition<FullRow<2>, 8, 128, 32>;
    sm_80 TransposedOfWarps = transposition<warp::FullRow<4>, 4, 64, 16>;
    sm_80 TransposedOfEightWarps = transposition<warp::FullRow<8>, 8, 128, 64>;
}

/// What the host must know of the tile.
pub trait Turned {
    /// Its rows and columns.
    const TILE: [usize; 2];
}

impl<L, const W: usize, const M: usize, const N: usize> Turned for transposition<L, W, M, N> {
    const TILE: [usize; 2] = [M, N];
}
