//! The kernel without Hopper's own instructions.

use core::f32::consts::LN_2;

use super::{B, Block, Blocks, Causal, Item, ItemAt, Pooled, PooledTiles as _, ReadsPools, Work};
use tilewright_device::kernel;
use tilewright_device::tile::{
    ChainedGemm, Cta, Element, Fragment, Fresh, Gemm, Global, GlobalMut, InBlock, OnlineSoftmax, Pending,
    Schedule, Shared, SplitParts, Swizzle, block_x, block_z, copy, gemm,
};

/// Rows of a page that are read at a time.
const ROW: usize = 1;

/// As [`mla`](fn@super::mla), with each warp's rows of the scores and of the output in its registers. These have room for
/// `W` columns of the output: CTA `block_z` computes the `block_z`-th of them, from scores that it computes itself.
#[kernel(program = P)]
pub fn mla_plain<P, Y, T, const D: usize, const DV: usize, const W: usize>(
    mut cta: Cta<P>,
    q: Global<T, 3>,
    kv: InBlock<Pooled<T, ROW, 1>>,
    o: InBlock<GlobalMut<T, 3>>,
    lse: InBlock<GlobalMut<f32, 3>>,
    parts: InBlock<SplitParts>,
    work: InBlock<Work>,
    causal: InBlock<Causal>,
    scale: f32,
) where
    P: Schedule + ReadsPools,
    Y: ChainedGemm<T, B, B, D, W>
        + Gemm<T, B, B, D, A = Swizzle<128>, B = Swizzle<128>>
        + Gemm<T, B, W, B, B = Swizzle<128>>,
    T: Element,
{
    let (q_stage, kv_stage) = (cta.stages::<1>(), cta.stages::<1>());
    let q_s = q_stage.alloc::<Shared<T, B, D, _, _>>(&mut cta);
    let kv_s = kv_stage.alloc::<Shared<T, B, D, _>>(&mut cta);
    let mut out = cta.output::<T, B, W, Y>();
    let (mut q_pipe, mut kv_pipe) = (cta.pipeline(q_stage), cta.pipeline(kv_stage));
    let (m, part) = (block_x(), block_z());
    let mut item = ItemAt::first(work);
    while item.is_some() {
        let Item { sequence, length, slot, .. } = item.get();
        let tile = item.get().tile();
        let mut qs = q_pipe.loads(
            0..1,
            #[inline(always)]
            |s, _| copy(q.tile([sequence, tile, 0]), q_s.at(s)),
        );
        let queries = qs.acquire();
        let mut softmax = OnlineSoftmax::<B, B, Y>::new(scale);
        let mut acc = Fragment::<f32, B, W, Y>::zero();
        for Block { index, partial, .. } in Blocks::of(&item.get(), &causal.get()) {
            let mut kvs = kv_pipe.loads(
                index..index + 1,
                #[inline(always)]
                |s, j| copy(kv.tile(kv.place::<B>(sequence, j)).until(length), kv_s.at(s)),
            );
            let keys = kvs.acquire();
            let latent = kv_s.at(keys.full());
            let v = latent.part::<W>(part);
            let mut s = gemm(Y::default(), q_s.at(queries.full()), latent.t(), Fresh::new()).wait();
            if partial {
                s = causal.get().mask(s, m, index, item.get().counted());
            }
            let max = softmax.maximum(&s);
            let (p, rescale) = softmax.exponentials(s, max);
            let weighted = acc.zip_rows(&rescale.along(), |x, by| x * by);
            acc = gemm(Y::default(), p.cast::<T>().operand(), v, weighted).wait();
            kvs.release(keys);
        }
        qs.release(queries);
        let (inverse, log2) = softmax.finish();
        let acc = acc.zip_rows(&inverse.along(), |x, by| x * by);
        if slot != Item::WHOLE {
            let to = parts.get().of_columns::<DV>().part((slot + m) * B as u32, Some);
            copy(acc, to.from_column(part * W as u32));
            copy(log2, to);
        } else {
            out.store(acc.cast::<T>(), o.get().tile([sequence, tile, part]));
            let mut lse = lse.get();
            if lse.rows() > 0 {
                copy(log2.map(|log2| log2 * LN_2), lse.tile([sequence, tile, 0]));
            }
        }
        item = item.next();
    }
}
