//! Products of f32: C = A B by threads and by tensor cores, with tiles from a ring of stages.

use tilewright_device::tile::{
    ColMajor, Cta, Elements, Fragment, Gemm, Global, GlobalMut, KMajor, Major, Multistage, RowMajor,
    Schedule, Shared, Tf32, Threads, block_x, block_y, copy, gemm, warp,
};
use tilewright_device::{kernel, kernels};

use crate::copies::named;

/// Few, so that stages are soon filled again.
const STAGES: usize = 2;

/// One element of each operand after the other is copied, so that any strides are.
#[kernel(program = P)]
pub fn product<P: Schedule, Y, OA: Major, O: Major, const M: usize, const N: usize, const K: usize>(
    mut cta: Cta<P>,
    a: Global<f32, 2, OA>,
    b: Global<f32, 2, O>,
    mut c: GlobalMut<f32, 2>,
) where
    Y: Gemm<f32, M, N, K>,
{
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<f32, M, K, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f32, K, N, _, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let acc = pipe.run(
        0..a.cols().div_ceil(K as u32),
        Fragment::<f32, M, N, _>::zero(),
        #[inline(always)]
        |s, k| {
            copy(a.tile([block_y(), k]), a_s.at(s));
            copy(b.tile([k, block_x()]), b_s.at(s));
        },
        #[inline(always)]
        |acc, s, _| gemm(Y::default(), a_s.at(s), b_s.at(s), acc),
    );
    copy(acc, c.tile([block_y(), block_x()]));
}

type By<const W: usize, Y, O, const M: usize, const N: usize, const K: usize> =
    product<Multistage<W, Elements>, Y, RowMajor, O, M, N, K>;

// All widths of an access; columns of a warp that are whole blocks of 16 and that end in half of one; depths of every swizzle.
named! {
    sm_80 BySingles = By<4, Threads<16, 8>, RowMajor, 32, 64, 16>;
    sm_80 ByPairs = By<4, Threads<8, 16, 2>, RowMajor, 64, 64, 64>;
    sm_80 ByFours = By<4, Threads<4, 32, 4>, RowMajor, 16, 128, 32>;
    sm_80 ByFoursOfColumns = product<Multistage<4, Elements>, Threads<16, 8, 4>, ColMajor, RowMajor, 64, 32, 16>;
    sm_80 KMajorOfNeighbours = By<4, KMajor<Threads<4, 32>>, ColMajor, 16, 64, 32>;
    sm_80 KMajorOfBlocks = By<4, KMajor<Threads<16, 8>>, ColMajor, 32, 64, 16>;
    sm_80 Tf32Even = By<4, Tf32<warp::Square<2, 2>>, ColMajor, 64, 64, 32>;
    sm_80 Tf32Odd = By<4, Tf32<warp::Square<2, 2>>, ColMajor, 32, 48, 16>;
    sm_80 Tf32Narrow = By<4, Tf32<warp::FullCol<4>>, ColMajor, 32, 32, 64>;
    sm_80 Tf32Rows = By<4, Tf32<warp::FullRow<4>>, ColMajor, 64, 24, 128>;
}

/// What the host must know to divide an output into tiles.
pub trait Tiled {
    /// Rows and columns of a tile.
    const TILE: [usize; 2];
}

impl<P, Y, OA, O, const M: usize, const N: usize, const K: usize> Tiled for product<P, Y, OA, O, M, N, K> {
    const TILE: [usize; 2] = [M, N];
}
