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
//!
//! Caches of 8 bits ([`RECORD`]) are [`mla_codes`](fn@mla_codes)'s: a third role turns [`Records`] into stages of bf16. [`append_records`](fn@append_records) writes them.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod accumulators;
mod append;
mod causal;
mod cell;
mod codes;
mod index;
mod lazy_softmax;
mod list;
mod parts;
mod plain;
mod pooled;
mod records;
mod relay;
mod rewrite;
mod roles;
mod row_vectors;
mod split_operand;
mod widened;
mod work;

pub use accumulators::Accumulators;
pub use append::{AppendRecordsArgs, RecordSlots, TokenRows, append_records};
pub use causal::Causal;
pub use cell::Cell;
pub use codes::{MlaCodesArgs, mla_codes};
pub use index::{IndexKeys, IndexQueries, IndexScoresArgs, Numbers, index_scores};
pub use lazy_softmax::LazySoftmax;
pub use list::{APPEND, AppendKernel, INDEX, IndexKernel, MERGE, MLA, MergeKernel, MlaKernel};
pub use parts::{MergeArgs, merge};
pub use plain::{MlaPlainArgs, mla_plain};
pub use pooled::{Pool, Pooled, PooledAbi, PooledTile, PooledTiles, ReadsPools};
pub use records::{Arriving, LATENT, RECORD, ROTARY, Records, SCALED};
pub use relay::{FilledApart, Filling, Relay, RelayLoads, RelayTurn};
pub use rewrite::{Met, Rewrite, Rewritten, StagedColumns, rescale, store_scaled};
pub use roles::{AT_ONCE, KeyStages, Results, SharedByRoles};
pub use row_vectors::{RowMailbox, RowVectors};
pub use split_operand::{SplitGemm, SplitOperand, gemm_around};
pub use work::{Block, Blocks, Item, ItemAt, KeyBlocks, Loads, Work};

use tilewright_device::kernel;
use tilewright_device::tile::{
    Accumulates, Arrival, CoreMatrices, Cta, Element, Fragment, Gemm, Global, GlobalMut, InBlock,
    OneWarpgroup, Shared, SplitParts, Swizzle, TwoRoles, copy,
};

/// Queries of a tile, and keys of a block.
const B: usize = 64;

/// O = softmax(scale Q Kᵀ) V for a latent cache: K is all `D` columns of it, V the first `DV` (DeepSeek-AI 2024, section
/// 2.1, with the projections absorbed).
///
/// Q \[batch, rows, D\], whose rows are the heads of one position after the other; the cache `kv`, pages of D columns; O as Q with
/// DV columns; the log-sum-exp of each row, \[batch, rows, 1\] in natural logarithms, unless `lse` has no rows. `scale` is times
/// log2(e). CTA (m, g) computes the m-th tile of 64 rows of the items that `work` has for group g, over blocks of 64 keys. Results of
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
    let kv_s = cta.stages::<STAGES>().alloc::<Shared<T, B, D, _>>(&mut cta);
    let mut shared = SharedByRoles::<P, T, TAIL, STAGES>::new(&mut cta);
    let results = Results { o, lse, parts };
    let (at, next) = (Cell::new(&mut cta), Cell::new(&mut cta));
    let mut relay = Relay::<P, STAGES>::open(&mut cta);
    let mut item = ItemAt::first(work);
    let mut loads = relay.loads(
        next,
        item.loads(at, |sequence, j| kv.place::<B>(sequence, j)),
        #[inline(always)]
        |s, place| match Loads::queries(place) {
            Some(queries) => copy(q.get().tile(queries), kv_s.at(s)),
            None => copy(kv.tile(place), kv_s.at(s)),
        },
    );
    loads.pass_if(cta.in_role(0) && item.is_some());
    while item.is_some() {
        if cta.in_role(1) {
            shared.scores::<S, _, _, D, DV, STEPS, LATE, false>(
                &mut loads, &kv_s, item, &results, causal, scale,
            );
        } else {
            shared.output::<O, Fragment<f32, B, DV, O>, _, _, D, DV, DV>(&mut loads, &kv_s, item, &results);
        }
        item = item.next();
    }
}

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
