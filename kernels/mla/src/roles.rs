//! The two roles that compute: scores and softmax, and the output.

use core::f32::consts::LN_2;

use tilewright_device::tile::{
    Accumulates, Arrival, CoreMatrices, Cta, Element, Fill, Fresh, GlobalMut, InBlock, OneWarpgroup, Pending,
    Ring, Rows, Shared, SplitParts, Swizzle, TwoRoles, bf16, block_x_volatile, copy,
};

use crate::{
    Accumulators, B, Blocks, Causal, Item, ItemAt, LazySoftmax, RelayLoads, RowMailbox, RowVectors,
    SplitGemm, SplitOperand, StagedColumns, gemm_around,
};

/// As many instructions before the end of the next block's scores as no gemm has: a block is handed on as soon as it has its weights. For rings of
/// two stages, whose next block may come only when this one was given back.
pub const AT_ONCE: u32 = u32::MAX;

/// Stages of blocks of keys of `D` columns, and of queries on their way.
pub type KeyStages<T, const D: usize, const STAGES: usize> = Ring<Shared<T, B, D, Swizzle<128>>, STAGES>;

/// What the roles share of the CTA's memory beside their stages.
pub struct SharedByRoles<P, T, const TAIL: usize, const STAGES: usize> {
    /// The columns of the queries that are in no registers.
    q_s: Ring<Shared<T, B, TAIL, CoreMatrices>, 1>,
    /// What to multiply earlier blocks' output by, for each stage.
    factors: RowVectors<bf16, B, STAGES>,
    reference: RowVectors<f32, B, 1>,
    /// What to multiply an item's output by.
    inverse: RowMailbox<P, B>,
}

/// Where results go.
#[derive(Clone, Copy)]
pub struct Results<T: Element> {
    /// O \[batch, rows, DV\].
    pub o: InBlock<GlobalMut<T, 3>>,
    /// The log-sum-exp of each row, \[batch, rows, 1\].
    pub lse: InBlock<GlobalMut<f32, 3>>,
    /// The results of parts.
    pub parts: InBlock<SplitParts>,
}

impl<P, T, const TAIL: usize, const STAGES: usize> SharedByRoles<P, T, TAIL, STAGES>
where
    P: TwoRoles<Ticket = Arrival>,
    T: Element,
{
    /// Takes the memory. Make it before the relay, which all wait for.
    #[inline(always)]
    pub fn new(cta: &mut Cta<P>) -> Self {
        SharedByRoles {
            q_s: cta.stages::<1>().alloc(cta),
            factors: RowVectors::new(cta),
            reference: RowVectors::new(cta),
            inverse: RowMailbox::open(cta),
        }
    }

    /// An item's scores and softmax, by the second role: takes the queries and each block, and hands it on with its weights in place of the
    /// columns that are no values: under the next one's Q Kᵀ, `LATE` instructions before its end, or [`AT_ONCE`]. Keys behind a
    /// sequence's last are `ZEROS`, or anything.
    #[inline(always)]
    pub fn scores<
        S,
        I,
        F,
        const D: usize,
        const DV: usize,
        const STEPS: usize,
        const LATE: u32,
        const ZEROS: bool,
    >(
        &mut self,
        loads: &mut RelayLoads<'_, P, STAGES, I, F>,
        kv_s: &KeyStages<T, D, STAGES>,
        item: ItemAt,
        results: &Results<T>,
        causal: InBlock<Causal>,
        scale: f32,
    ) where
        S: SplitGemm<T, B, B, D, A = CoreMatrices, B = Swizzle<128>, D = S>
            + OneWarpgroup
            + Accumulates<B, B>,
        I: Iterator<Item = [u32; 2]>,
        F: for<'s> FnMut(Fill<'s, P, STAGES>, [u32; 2]),
    {
        let Self { q_s, factors, reference, inverse } = self;
        let queries = loads.take();
        let q = SplitOperand::<S, T, B, STEPS, TAIL>::load(kv_s.at(queries.full()), q_s);
        loads.publish(Some(queries));
        // The last turn is published during the next gemm, after the wait that orders its writes.
        let mut last = None;
        let mut softmax = LazySoftmax::<B, B, S>::new(scale, reference.only());
        for block in Blocks::of(&item.get(), &causal.get()) {
            let mut keys = loads.take();
            let masked = |s| match block.partial {
                true => causal.get().mask(s, block_x_volatile(), block.index, item.get().counted()),
                false => s,
            };
            let k = || kv_s.at(keys.full()).t();
            let s = gemm_around(
                S::default(),
                &q,
                k(),
                Fresh::new(),
                if LATE == AT_ONCE { 0 } else { LATE },
                || {
                    loads.publish(last.take());
                    softmax.expect(factors.at(&keys));
                    loads.look_ahead();
                },
            );
            let s = masked(s.wait());
            let again = || masked(gemm_around(S::default(), &q, k(), Fresh::new(), 0, || ()).wait());
            let (p, met) = softmax.weights(s, block.first, again, |by| copy(by, factors.at(&keys)));
            copy(p, kv_s.at(keys.rewrite(&met)).columns::<DV, B>());
            if block.partial && !ZEROS {
                let v = kv_s.at(keys.rewrite(&met)).columns::<0, DV>();
                v.clear_rows(block.keys_left::<B>(item.get().length));
            }
            if LATE == AT_ONCE {
                loads.publish(Some(keys));
            } else {
                last = Some(keys);
            }
        }
        loads.publish(last);
        let (by, log2) = softmax.finish();
        let Item { sequence, turn, slot, .. } = item.get();
        inverse.send(turn, by);
        if slot != Item::WHOLE {
            let first = (slot + block_x_volatile()) * B as u32;
            copy(log2, results.parts.get().part(first, Some))
        } else {
            copy(log2.map(|log2| log2 * LN_2), results.lse.get().tile([sequence, item.get().tile(), 0]))
        }
    }

    /// An item's output, by the first role, in the accumulators `A` of `W` columns each.
    #[inline(always)]
    pub fn output<O, A, I, F, const D: usize, const DV: usize, const W: usize>(
        &mut self,
        loads: &mut RelayLoads<'_, P, STAGES, I, F>,
        kv_s: &KeyStages<T, D, STAGES>,
        item: ItemAt,
        results: &Results<T>,
    ) where
        O: StagedColumns<W>,
        A: Accumulators<T, O, W>,
        I: Iterator<Item = [u32; 2]>,
        F: for<'s> FnMut(Fill<'s, P, STAGES>, [u32; 2]),
    {
        const { assert!(A::COUNT * W == DV, "the accumulators have all columns of the output") };
        let Self { factors, inverse, .. } = self;
        let mut left = item.blocks();
        let mut acc = A::zero();
        while left > 0 {
            let turn = loads.receive();
            let latent = kv_s.at(turn.full());
            let by = Rows::from_vector(factors.at(&turn));
            acc = loads.during(acc.add(&by, latent.columns::<DV, B>(), latent));
            loads.release(turn);
            left -= 1;
        }
        let Item { turn, slot, next, .. } = item.get();
        let by = inverse.receive(turn);
        // The stage of the next item's queries, when they have been taken from it.
        let mut queries = loads.receive_aside(next != Item::NONE);
        if slot != Item::WHOLE {
            let rows = results.o.get().rows() - item.get().tile() * B as u32;
            let first = (slot + block_x_volatile()) * B as u32;
            let parts = results.parts.get().of_columns::<DV>();
            acc.copy_to(&by, || parts.part(first, |r| (r < rows).then_some(r)));
        } else {
            let to = |columns| {
                let item = item.get();
                results.o.get().tile([item.sequence, item.tile(), columns])
            };
            acc.store(&by, kv_s, &mut queries, to);
        }
        // Behind the last item nobody waits for the stage: it was not loaded again.
        if item.get().next != Item::NONE {
            loads.release(queries);
        }
    }
}
