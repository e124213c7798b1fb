//! The kernel of caches of 8 bits.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Accumulates, Arrival, CoreMatrices, Cta, Fragment, Gemm, Global, GlobalMut, InBlock, OneWarpgroup,
    Shared, SplitParts, Swizzle, TwoRoles, bf16, copy,
};

use crate::records::{LATENT, ROTARY, Records};
use crate::{
    B, Causal, Cell, ItemAt, KeyBlocks, Pooled, Relay, Results, SharedByRoles, SplitGemm, StagedColumns, Work,
};

/// Columns of queries and keys.
const D: usize = LATENT + ROTARY;
/// Columns of one of the output's two accumulators.
pub(crate) const HALF: usize = LATENT / 2;

/// As [`mla`](fn@super::mla), for a cache of [records](super::RECORD) of 656 bytes, \[pages, 1, rows of a page, 656\]: the latent part is codes of e4m3
/// (Micikevicius et al. 2022) with a scale for 128 columns of a token each, the rotary part bf16.
///
/// A third role copies each token's record by itself, wherever it lies, and writes it as a row of a stage: codes times their scale, rounded to bf16.
/// So a page may have one row, and a table of pages be a list of tokens. The CTAs of a cluster have the same keys for different tiles of rows: each
/// writes its part of a block to the stages of both.
#[kernel(program = P, cluster = [P::CLUSTER, 1, 1])]
pub fn mla_codes<P, S, O, const STEPS: usize, const TAIL: usize, const STAGES: usize, const LATE: u32>(
    mut cta: Cta<P>,
    q: InBlock<Global<bf16, 3>>,
    kv: InBlock<Pooled<u8, 1, 1>>,
    o: InBlock<GlobalMut<bf16, 3>>,
    lse: InBlock<GlobalMut<f32, 3>>,
    parts: InBlock<SplitParts>,
    work: InBlock<Work>,
    causal: InBlock<Causal>,
    scale: f32,
) where
    P: TwoRoles<Ticket = Arrival>,
    S: SplitGemm<bf16, B, B, D, A = CoreMatrices, B = Swizzle<128>, D = S> + OneWarpgroup + Accumulates<B, B>,
    O: Gemm<bf16, B, HALF, B, A = Swizzle<128>, B = Swizzle<128>, D = O>
        + StagedColumns<HALF>
        + Accumulates<B, HALF>,
{
    cta.prefetch_maps((q.get(), o.get()));
    let kv_s = cta.stages::<STAGES>().alloc::<Shared<bf16, B, D, _>>(&mut cta);
    let mut shared = SharedByRoles::<P, bf16, TAIL, STAGES>::new(&mut cta);
    let records = Records::<P, B>::new(&mut cta);
    let results = Results { o, lse, parts };
    let next = Cell::new(&mut cta);
    let mut relay = Relay::<P, STAGES>::open(&mut cta);
    let mut item = ItemAt::first(work);
    if cta.in_role(2) {
        let mut arriving = records.of(kv, KeyBlocks::from(item));
        while item.is_some() {
            let stage = relay.emptied();
            relay.filled(stage, 0, |s| {
                let item = item.get();
                copy(q.get().tile([item.sequence, item.tile(), 0]).own(), kv_s.at(s));
            });
            let mut left = item.blocks();
            while left > 0 {
                let mut stage = relay.emptied();
                let full = relay.filling(&stage);
                arriving.widen(kv_s.at(stage.rewrite_own()), &full);
                relay.filled(stage, Records::<P, B>::FROM_OTHERS, |_| ());
                left -= 1;
            }
            item = item.next();
        }
    } else {
        let mut loads = relay.filled_apart(next);
        loads.pass_if(cta.in_role(0) && item.is_some());
        while item.is_some() {
            if cta.in_role(1) {
                shared.scores::<S, _, _, D, LATENT, STEPS, LATE, true>(
                    &mut loads, &kv_s, item, &results, causal, scale,
                );
            } else {
                shared.output::<O, [Fragment<f32, B, HALF, O>; 2], _, _, D, LATENT, HALF>(
                    &mut loads, &kv_s, item, &results,
                );
            }
            item = item.next();
        }
    }
    relay.close();
}
