//! Decoding of multi-head latent attention.
//!
//! [`mla`](fn@mla) has two roles ([`Roles`](tilewright_device::tile::Roles)): one computes scores and the softmax, the other the output.
//! What they need beside the authoring library is in this crate.
//!
//! Stages pass from one role to the other through a [`Relay`]: one is filled, read by gemms of the second role, partly
//! [rewritten](RelayTurn::rewrite) by it, [published](RelayLoads::publish), read by the first role, and filled again; the stage's
//! [`columns`](tilewright_device::tile::Src::columns) are views for different gemms. Beside them go values of rows ([`RowVectors`],
//! [`RowMailbox`]). What a role's gemm needs not wait for is done between its instructions ([`gemm_around`]) or while it runs
//! ([`RelayLoads::during`]); its left operand may be partly in registers and partly in shared memory ([`SplitOperand`]). The softmax
//! moves its reference rarely ([`LazySoftmax`]). Sequences whose pages are read by whole blocks are [`Pooled`]; results of parts are
//! [`SplitParts`], which [`merge`](fn@merge) puts together. [`mla_plain`](fn@mla_plain) is for GPUs before Hopper.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod causal;
mod cell;
mod lazy_softmax;
mod list;
mod parts;
mod plain;
mod pooled;
mod relay;
mod rewrite;
mod row_vectors;
mod split_operand;
mod work;

pub use causal::Causal;
pub use cell::Cell;
pub use lazy_softmax::LazySoftmax;
pub use list::{MERGE, MLA, MergeKernel, MlaKernel};
pub use parts::{MergeArgs, merge};
pub use plain::{MlaPlainArgs, mla_plain};
pub use pooled::{Pool, Pooled, PooledAbi, PooledTile, PooledTiles, ReadsPools};
pub use relay::{Relay, RelayLoads, RelayTurn};
pub use rewrite::{Met, Rewrite, Rewritten, StagedColumns, rescale, store_scaled};
pub use row_vectors::{RowMailbox, RowVectors};
pub use split_operand::{SplitGemm, SplitOperand, gemm_around};
pub use work::{Block, Blocks, Item, ItemAt, Loads, Work};

use core::f32::consts::LN_2;

use tilewright_device::kernel;
use tilewright_device::tile::{
    Accumulates, Arrival, CoreMatrices, Cta, Element, Fragment, Fresh, Gemm, Global, GlobalMut, InBlock,
    OneWarpgroup, Pending, Rows, Shared, SplitParts, Swizzle, TwoRoles, bf16, block_x_volatile, copy, gemm,
};

/// Queries of a tile, and keys of a block.
const B: usize = 64;

/// O = softmax(scale Q Kᵀ) V for a latent cache: K is all `D` columns of it, V the first `DV` (DeepSeek-AI 2024, section
/// 2.1, with the projections absorbed).
///
/// Q \[batch, rows, D\], whose rows are the heads of one position after the other; the cache `kv`, pages of D columns; O as Q with
/// DV columns; the log-sum-exp of each row, \[batch, rows, 1\] in natural logarithms, unless `lse` has no rows. `scale` is times
/// log2(e). CTA (m, g) computes tile m of 64 rows of the items that `work` has for group g, over blocks of 64 keys. Results of
/// parts of a sequence go to `parts`, tile by tile, for [`merge`](fn@merge).
///
/// In `P` one role of a warpgroup computes all scores and the softmax by policy `S`, the other, of two, the output by `O`. Q lies
/// in registers, `STEPS` times 16 columns, and for `TAIL` columns in shared memory, so that Q Kᵀ reads half of what it would.
/// Weights take the place of the columns of their own keys that are no values. Blocks of `PLANES` times 64 columns and `BOX` keys
/// are read by one copy; the queries take a stage too, through which the item before them stores its output. The weights of a
/// block are handed over under the next one's Q Kᵀ, `LATE` instructions before its end, so that P V runs under the softmax.
#[kernel(program = P)]
pub fn mla<
    P,
    S,
    O,
    T,
    const D: usize,
    const DV: usize,
    const STEPS: usize,
    const TAIL: usize,
    const BOX: usize,
    const PLANES: usize,
    const STAGES: usize,
    const LATE: u32,
>(
    mut cta: Cta<P>,
    q: InBlock<Global<T, 3>>,
    kv: InBlock<Pooled<T, BOX, PLANES>>,
    o: InBlock<GlobalMut<T, 3>>,
    lse: InBlock<GlobalMut<f32, 3>>,
    parts: InBlock<SplitParts>,
    work: InBlock<Work>,
    causal: InBlock<Causal>,
    scale: f32,
) where
    P: TwoRoles<Ticket = Arrival> + ReadsPools,
    T: Element,
    S: SplitGemm<T, B, B, D, A = CoreMatrices, B = Swizzle<128>, D = S> + OneWarpgroup + Accumulates<B, B>,
    O: Gemm<T, B, DV, B, A = Swizzle<128>, B = Swizzle<128>, D = O> + StagedColumns<DV> + Accumulates<B, DV>,
{
    cta.prefetch_maps((q.get(), (kv.get(), o.get())));
    let stages = cta.stages::<STAGES>();
    let kv_s = stages.alloc::<Shared<T, B, D, _>>(&mut cta);
    let q_s = cta.stages::<1>().alloc::<Shared<T, B, TAIL, _>>(&mut cta);
    let factors = RowVectors::<bf16, B, STAGES>::new(&mut cta);
    let mut reference = RowVectors::<f32, B, 1>::new(&mut cta);
    let inverse = RowMailbox::<P, B>::open(&mut cta);
    let (at, next) = (Cell::new(&mut cta), Cell::new(&mut cta));
    let mut relay = Relay::<P, STAGES>::open(&mut cta);
    let mut item = ItemAt::first(work);
    let mut loads = relay.loads(
        next,
        item.loads(at, |sequence, j| kv.place::<B>(sequence, j)),
        #[inline(always)]
        |s, place| match place {
            [sequence, Loads::QUERIES] => copy(q.get().tile([sequence, block_x_volatile(), 0]), kv_s.at(s)),
            _ => copy(kv.tile(place), kv_s.at(s)),
        },
    );
    loads.pass_if(cta.in_role(0) && item.is_some());
    while item.is_some() {
        if cta.in_role(1) {
            let queries = loads.take();
            let q = SplitOperand::<S, T, B, STEPS, TAIL>::load(kv_s.at(queries.full()), &q_s);
            loads.publish(Some(queries));
            // The last turn is published during the next gemm, after the wait that orders its writes.
            let mut last = None;
            let mut softmax = LazySoftmax::<B, B, S>::new(scale, reference.only());
            for block in Blocks::of(&item.get(), &causal.get()) {
                let mut keys = loads.take();
                let length = || item.get().length;
                let masked = |s| match block.partial {
                    true => causal.get().mask(s, block_x_volatile(), block.index, length()),
                    false => s,
                };
                let k = || kv_s.at(keys.full()).t();
                let s = gemm_around(S::default(), &q, k(), Fresh::new(), LATE, || {
                    loads.publish(last.take());
                    softmax.expect(factors.at(&keys));
                    loads.look_ahead();
                });
                let s = masked(s.wait());
                let again = || masked(gemm_around(S::default(), &q, k(), Fresh::new(), 0, || ()).wait());
                let (p, met) = softmax.weights(s, block.first, again, |by| copy(by, factors.at(&keys)));
                copy(p, kv_s.at(keys.rewrite(&met)).columns::<DV, B>());
                if block.partial {
                    let v = kv_s.at(keys.rewrite(&met)).columns::<0, DV>();
                    v.clear_rows(block.keys_left::<B>(length()));
                }
                last = Some(keys);
            }
            loads.publish(last);
            let (by, log2) = softmax.finish();
            let Item { sequence, turn, slot, .. } = item.get();
            inverse.send(turn, by);
            if slot != Item::WHOLE {
                let first = (slot + block_x_volatile()) * B as u32;
                copy(log2, parts.get().part(first, Some))
            } else {
                copy(log2.map(|log2| log2 * LN_2), lse.get().tile([sequence, block_x_volatile(), 0]))
            }
        } else {
            let mut left = item.blocks();
            let mut acc = Fragment::<f32, B, DV, O>::zero();
            while left > 0 {
                let turn = loads.receive();
                let latent = kv_s.at(turn.full());
                let (p, v) = (latent.columns::<DV, B>(), latent.columns::<0, DV>());
                let by = Rows::from_vector(factors.at(&turn));
                acc = loads.during(gemm(O::default(), p, v, rescale(acc, &by)));
                loads.release(turn);
                left -= 1;
            }
            let Item { turn, slot, next, .. } = item.get();
            let by = inverse.receive(turn);
            // The stage of the next item's queries, when they have been taken from it.
            let mut queries = loads.receive_aside(next != Item::NONE);
            if slot != Item::WHOLE {
                let rows = o.get().rows() - block_x_volatile() * B as u32;
                let first = (slot + block_x_volatile()) * B as u32;
                let to = parts.get().of_columns::<DV>().part(first, |r| (r < rows).then_some(r));
                copy(acc.zip_rows(&by, |x, by| x * by), to);
            } else {
                let staging = kv_s.at(queries.rewrite_own()).columns::<0, DV>();
                let to = || o.get().tile([item.get().sequence, block_x_volatile(), 0]);
                store_scaled(acc, &by, staging, to);
            }
            // Behind the last item nobody waits for the stage: it was not loaded again.
            if item.get().next != Item::NONE {
                loads.release(queries);
            }
        }
        item = item.next();
    }
}

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
