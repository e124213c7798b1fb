//! Multi-head latent attention at its smallest: one source for every division of the tiles among warps, whose scores and
//! statistics change hands in shared memory.

use tilewright_device::tile::{
    Cta, Fragment, FragmentLayout, Fresh, FullCol, FullRow, Gemm, Global, GlobalMut, Multistage, OneConsumer,
    OnlineSoftmax, Padded, Pending, Rows, Schedule, Shared, Striped, Swizzle, TwoConsumers, WarpSpecialized,
    block_x, copy, gemm, warp,
};
use tilewright_device::{f16, kernel, kernels};

use crate::copies::named;

/// Queries of a tile, and keys of a block.
pub const B: usize = 64;
/// Columns of queries and keys.
pub const D: usize = 192;
/// Columns of values, the first of the keys', and of the output.
pub const DV: usize = 128;
const STAGES: usize = 2;

/// O = softmax(scale Q Kᵀ) V for a tile of queries; `scale` is times log2(e).
///
/// `Y` divides both products among the warps, by rows or by columns; `L` the rows of the softmax, which are whole.
#[kernel(program = P)]
pub fn latent<P: Schedule, Y, L: FragmentLayout<B, B>>(
    mut cta: Cta<P>,
    q: Global<f16, 2>,
    kv: Global<f16, 2>,
    mut o: GlobalMut<f32, 2>,
    scale: f32,
) where
    Y: Gemm<f16, B, B, D, B = Swizzle<128>> + Gemm<f16, B, DV, B, B = Swizzle<128>>,
{
    let (q_stage, kv_stages) = (cta.stages::<1>(), cta.stages::<STAGES>());
    let q_s = q_stage.alloc::<Shared<f16, B, D, _, _>>(&mut cta);
    let kv_s = kv_stages.alloc::<Shared<f16, B, D, _>>(&mut cta);
    let mut s_s = cta.scratch::<Shared<f32, B, B, Padded>>();
    let mut p_s = cta.scratch::<Shared<f16, B, B, _>>();
    let mut row_s = cta.row_scratch::<B>();
    let (mut q_pipe, mut kv_pipe) = (cta.pipeline(q_stage), cta.pipeline(kv_stages));
    let blocks = kv.rows().div_ceil(B as u32);
    let mut qs = q_pipe.loads(
        0..1,
        #[inline(always)]
        |s, _| copy(q.tile([block_x(), 0]), q_s.at(s)),
    );
    let mut kvs = kv_pipe.loads(
        0..blocks,
        #[inline(always)]
        |s, j| copy(kv.tile([j, 0]), kv_s.at(s)),
    );
    if !cta.computes() {
        return;
    }
    let queries = qs.acquire();
    let mut softmax = OnlineSoftmax::<B, B, L>::new(scale);
    let mut acc = Fragment::<f32, B, DV, _>::zero();
    for j in 0..blocks {
        let keys = kvs.acquire();
        let latent = kv_s.at(keys.full());
        let v = latent.columns::<0, DV>();
        let s = gemm(Y::default(), q_s.at(queries.full()), latent.t(), Fresh::new()).wait();
        copy(s, &mut s_s);
        let s = Fragment::<f32, B, B, L>::load(s_s.full()).mask_beyond(|_| kv.rows() - j * B as u32);
        let max = softmax.maximum(&s);
        let (p, rescale) = softmax.exponentials(s, max);
        copy(rescale, &mut row_s);
        copy(p.cast::<f16>(), &mut p_s);
        let weighted = acc.zip_rows(&Rows::exchanged(&row_s), |x, by| x * by);
        acc = gemm(Y::default(), p_s.full(), v, weighted).wait();
        kvs.release(keys);
    }
    qs.release(queries);
    let (inverse, _) = softmax.finish();
    copy(inverse, &mut row_s);
    copy(acc.zip_rows(&Rows::exchanged(&row_s), |x, by| x * by), o.tile([block_x(), 0]));
}

named! {
    sm_90 LatentRows = latent<WarpSpecialized<OneConsumer>, FullRow<1>, Striped<4>>;
    sm_90 LatentColumns = latent<WarpSpecialized<TwoConsumers>, FullCol<2>, Striped<8>>;
    sm_80 LatentWarpRows = latent<Multistage<4>, warp::FullRow<4>, Striped<4>>;
    sm_80 LatentWarpColumns = latent<Multistage<4>, warp::FullCol<4>, Striped<4>>;
}
