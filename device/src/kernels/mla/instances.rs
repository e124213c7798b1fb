//! The MLA kernels that are compiled: one list, from which entry points and the host's table are made.

use super::{Causal, mla, mla_plain};
use crate::abi::GlobalAbi;
use crate::instantiate;
use crate::kernel::{Instance, Kernel};
use crate::tile::{
    Accumulates, Arrival, ChainedGemm, CoreMatrices, Element, FullCol, Gemm, ListAbi, Multistage,
    OneWarpgroup, PartialsAbi, PooledAbi, ReadsPools, Roles, SplitGemm, StagedColumns, Swizzle, TwoRoles,
    Warpgroup, warp,
};
use half::{bf16, f16};

/// Queries of a tile, and keys of a block.
const B: usize = super::B;

/// What the host needs to know of an MLA kernel, read off its type.
pub trait MlaKernel: Kernel {
    /// The element type of queries, cache and output.
    type Element: Element;
    /// Columns of queries and keys, and of values and output.
    const COLUMNS: [u32; 2];
    /// Rows of the cache that one copy reads, which divide those of a page, and columns: multiples of 64.
    const BOX: [u32; 2];
    /// CTAs that divide the columns of the output among themselves (`block_z`).
    const PARTS: u32;

    /// The arguments of a launch; see [`mla`](fn@mla).
    #[allow(clippy::too_many_arguments)]
    fn arguments(
        q: GlobalAbi<Self::Element, 3>,
        kv: PooledAbi<Self::Element>,
        o: GlobalAbi<Self::Element, 3>,
        lse: GlobalAbi<f32, 3>,
        partials: PartialsAbi,
        work: ListAbi,
        causal: Causal,
        scale: f32,
    ) -> Self::Args;
}

#[rustfmt::skip]
impl<
    P, S, O, T, const D: usize, const DV: usize, const STEPS: usize, const TAIL: usize, const BOX: usize,
    const PLANES: usize, const STAGES: usize, const LATE: u32,
> MlaKernel for mla<P, S, O, T, D, DV, STEPS, TAIL, BOX, PLANES, STAGES, LATE>
where
    P: TwoRoles<Ticket = Arrival> + ReadsPools,
    T: Element,
    S: SplitGemm<T, B, B, D, A = CoreMatrices, B = Swizzle<128>, D = S> + OneWarpgroup + Accumulates<B, B>,
    O: Gemm<T, B, DV, B, A = Swizzle<128>, B = Swizzle<128>, D = O> + StagedColumns<DV> + Accumulates<B, DV>,
{
    type Element = T;
    const COLUMNS: [u32; 2] = [D as u32, DV as u32];
    const BOX: [u32; 2] = [BOX as u32, 64 * PLANES as u32];
    const PARTS: u32 = 1;

    fn arguments(
        q: GlobalAbi<T, 3>, kv: PooledAbi<T>, o: GlobalAbi<T, 3>, lse: GlobalAbi<f32, 3>, partials: PartialsAbi,
        work: ListAbi, causal: Causal, scale: f32,
    ) -> Self::Args {
        Self::args(q, kv, o, lse, partials, work, causal, scale)
    }
}

#[rustfmt::skip]
impl<P, Y, T, const D: usize, const DV: usize, const W: usize> MlaKernel for mla_plain<P, Y, T, D, DV, W>
where
    P: ReadsPools,
    Y: ChainedGemm<T, B, B, D, W>
        + Gemm<T, B, B, D, A = Swizzle<128>, B = Swizzle<128>>
        + Gemm<T, B, W, B, B = Swizzle<128>>,
    T: Element,
{
    type Element = T;
    const COLUMNS: [u32; 2] = [D as u32, DV as u32];
    const BOX: [u32; 2] = [1, 64];
    const PARTS: u32 = (DV / W) as u32;

    fn arguments(
        q: GlobalAbi<T, 3>, kv: PooledAbi<T>, o: GlobalAbi<T, 3>, lse: GlobalAbi<f32, 3>, partials: PartialsAbi,
        work: ListAbi, causal: Causal, scale: f32,
    ) -> Self::Args {
        Self::args(q, kv, o, lse, partials, work, causal, scale)
    }
}

/// Something to do with each of the compiled kernels' types.
pub trait Visitor {
    /// Called once for each kernel.
    fn kernel<K: MlaKernel + Instance + 'static>(&mut self);
}

/// The roles: two warpgroups for the output, one for the scores, which also holds most of Q.
type Program = Roles<2, 160, 1, 184>;
/// A row of keys a warp.
type Ampere = Multistage<4>;

macro_rules! kernel_type {
    ((sm_90 $d:literal $dv:literal, $steps:literal $tail:literal, $box:literal $planes:literal, $stages:literal) $t:ident) => {
        mla<Program, Warpgroup<2>, FullCol<2>, $t, $d, $dv, $steps, $tail, $box, $planes, $stages, 8>
    };
    ((sm_80 $d:literal $dv:literal, $w:literal) $t:ident) => {
        mla_plain<Ampere, warp::FullRow<4>, $t, $d, $dv, $w>
    };
}

macro_rules! entry {
    ((sm_90 $d:literal $dv:literal, $steps:literal $tail:literal, $box:literal $planes:literal, $stages:literal) $t:ident) => {
        instantiate! { sm_90: [mla_sm_90_ $t _d $d x $dv _p $box]: kernel_type!(
            (sm_90 $d $dv, $steps $tail, $box $planes, $stages) $t
        ); }
    };
    ((sm_80 $d:literal $dv:literal, $w:literal) $t:ident) => {
        instantiate! { sm_80: [mla_sm_80_ $t _d $d x $dv]: kernel_type!((sm_80 $d $dv, $w) $t); }
    };
}

/// The list: tiles, and for each the element types.
macro_rules! kernels {
    ($($tile:tt [$($t:ident)*];)*) => {
        $( kernels!(@entries $tile $($t)*); )*

        /// Shows `visitor` every compiled kernel's type.
        pub fn visit<V: Visitor>(visitor: &mut V) {
            $( kernels!(@visits visitor $tile $($t)*); )*
        }
    };
    (@entries $tile:tt $($t:ident)*) => { $( entry!($tile $t); )* };
    (@visits $visitor:ident $tile:tt $($t:ident)*) => { $( $visitor.kernel::<kernel_type!($tile $t)>(); )* };
}

// Columns of a block times keys of a page: where a page has a block's keys, one copy reads it, else nine for each page.
#[rustfmt::skip]
kernels! {
    (sm_90 576 512, 31 80, 64 9, 3) [f16 bf16];
    (sm_90 576 512, 31 80, 32 1, 3) [f16 bf16];
    (sm_90 576 512, 31 80, 16 1, 3) [f16 bf16];
    (sm_90 320 256, 15 80, 64 5, 5) [f16 bf16];
    (sm_90 320 256, 15 80, 32 1, 5) [f16 bf16];
    (sm_90 320 256, 15 80, 16 1, 5) [f16 bf16];
    (sm_80 576 512, 256) [f16 bf16];
    (sm_80 320 256, 256) [f16 bf16];
}
