//! Attention, fused: two products and the softmax between them, in registers.
//!
//! O = softmax(scale Q Kᵀ) V, the scores never in memory. A CTA keeps a tile of queries and walks over the keys and values in blocks. The first
//! product's result is the second one's left operand where it lies: the policy `Y` gives whole rows to a warp or warpgroup, which
//! [`ChainedGemm`] asks for. A softmax of rows that come in blocks, [`OnlineSoftmax`], knows each row's maximum so far; when that
//! grows, what was summed up is scaled down. All roles make the loads; who only loads is done then, the others take the stages. One source
//! serves Hopper and Ampere. The library's own attention adds masks and lets one block's softmax run under another's products.

use tilewright_device::tile::{
    ChainedGemm, Cta, Fragment, Fresh, FullRow, Global, GlobalMut, Multistage, OnlineSoftmax, Pending,
    Schedule, Shared, TwoConsumers, WarpSpecialized, block_x, block_y, copy, gemm, warp,
};
use tilewright_device::{f16, kernel, kernels};

/// Columns of Q, K, V and O.
pub const D: usize = 128;

/// Q, K, V, O \[heads, length, D\]; `scale` times log2(e).
#[kernel(
    program = P,
    expects(
        q.cols() == D as u32, k.cols() == D as u32, v.cols() == D as u32, o.cols() == D as u32,
        q.rows() == o.rows(), k.rows() == v.rows(),
        q.shape()[0] == o.shape()[0], k.shape()[0] == o.shape()[0], v.shape()[0] == o.shape()[0],
    ),
)]
pub fn attention<P: Schedule, Y, const BM: usize, const BN: usize, const STAGES: usize>(
    mut cta: Cta<P>,
    q: Global<f16, 3>,
    k: Global<f16, 3>,
    v: Global<f16, 3>,
    mut o: GlobalMut<f16, 3>,
    scale: f32,
) where
    Y: ChainedGemm<f16, BM, BN, D, D>,
{
    let (place, head, keys) = ([block_y(), block_x(), 0], block_y(), k.rows());
    let (once, stages) = (cta.stages::<1>(), cta.stages::<STAGES>());
    let q_s = once.alloc::<Shared<f16, BM, D, _, _>>(&mut cta);
    let k_s = stages.alloc::<Shared<f16, BN, D, _, _>>(&mut cta);
    let v_s = stages.alloc::<Shared<f16, BN, D, _, _>>(&mut cta);
    let (mut q_pipe, mut kv_pipe) = (cta.pipeline(once), cta.pipeline(stages));
    let blocks = keys.div_ceil(BN as u32);
    let mut qs = q_pipe.loads(0..1, |s, _| copy(q.tile(place), q_s.at(s)));
    let mut kvs = kv_pipe.loads(0..blocks, |s, j| {
        copy(k.tile([head, j, 0]), k_s.at(s));
        copy(v.tile([head, j, 0]), v_s.at(s));
    });
    if !cta.computes() {
        return;
    }
    let q = qs.acquire();
    let mut softmax = OnlineSoftmax::<BM, BN, Y>::new(scale);
    let mut sums = Fragment::<f32, BM, D, Y>::zero();
    for j in 0..blocks {
        let kv = kvs.acquire();
        let scores = gemm(Y::default(), q_s.at(q.full()), k_s.at(kv.full()).t(), Fresh::new()).wait();
        // Keys behind the last one are read as zeros, and must not count.
        let left = keys - j * BN as u32;
        let scores = scores.map_indexed(|_, key, s| if key < left { s } else { f32::NEG_INFINITY });
        let max = softmax.maximum(&scores);
        let (p, rescale) = softmax.exponentials(scores, max);
        let rescaled = sums.zip_rows(&rescale.along(), |x, by| x * by);
        sums = gemm(Y::default(), p.cast::<f16>(), v_s.at(kv.full()), rescaled).wait();
        kvs.release(kv);
    }
    qs.release(q);
    let (inverse, _) = softmax.finish();
    copy(sums.zip_rows(&inverse.along(), |x, by| x * by).cast::<f16>(), o.tile(place));
}

/// Hopper: a producer and two consumer warpgroups.
pub type Hopper = attention<WarpSpecialized<TwoConsumers>, FullRow<2>, 128, 128, 2>;
/// Everything since Ampere: four warps.
pub type Ampere = attention<Multistage<4>, warp::FullRow<4>, 64, 64, 2>;

/// Queries of a tile on either.
pub const QUERIES: [usize; 2] = [128, 64];

kernels! {
    sm_90: attention_hopper: Hopper;
    sm_80: attention_ampere: Ampere;
}
