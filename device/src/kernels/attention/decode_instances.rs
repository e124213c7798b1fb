//! The kernels of flash-decoding that are compiled.

use super::{Cache, Capped, Plain, Score, SplitOrder, decode, merge};
use crate::abi::GlobalAbi;
use crate::instantiate;
use crate::kernel::{Instance, Kernel};
use crate::tile::division::Division;
use crate::tile::{
    ChainedGemm, Element, Elements, FragmentLayout, FullRow, Multistage, Overlapped, Overlaps, Reads, Simt,
    SplitParts, Striped, Vectors, WarpSpecialized, warp,
};
use half::{bf16, f16};

/// What the host needs to know of a kernel of flash-decoding, read off its type.
pub trait DecodeKernel: Kernel {
    /// The element type of Q, K, V and O.
    type Element: Element;
    /// What is done to scores.
    type Score: Score;
    /// Rows of a tile, keys of a block.
    const TILE: [u32; 2];
    /// The most columns of Q and K, and of V and O in one launch.
    const COLUMNS: [u32; 2];
    /// Stages of the pipelines of K and of V.
    const STAGES: u32;
    /// True when it reads any strides, element by element.
    const ANY_STRIDES: bool;

    /// The order of the parts; see [`SplitOrder::new`].
    fn order(batch: u32, kv_heads: u32, shared_by: u32, queries: u32, splits: u32) -> Option<SplitOrder>;

    /// The arguments of a launch; see [`decode`](fn@decode).
    fn arguments(
        inputs: [GlobalAbi<Self::Element, 4>; 3],
        o: GlobalAbi<Self::Element, 4>,
        lse: GlobalAbi<f32, 4>,
        parts: SplitParts,
        order: SplitOrder,
        cache: Cache,
        scales: [f32; 2],
    ) -> Self::Args;
}

#[rustfmt::skip]
impl<
    P: Reads, Y, T: Element, F: Score, const BM: usize, const BN: usize, const D: usize, const DV: usize,
    const STAGES: usize,
> DecodeKernel for decode<P, Y, T, F, BM, BN, D, DV, STAGES>
where
    Y: ChainedGemm<T, BM, BN, D, DV>,
{
    type Element = T;
    type Score = F;
    const TILE: [u32; 2] = [BM as u32, BN as u32];
    const COLUMNS: [u32; 2] = [D as u32, DV as u32];
    const STAGES: u32 = STAGES as u32;
    const ANY_STRIDES: bool = P::ANY_STRIDES;

    fn order(batch: u32, kv_heads: u32, shared_by: u32, queries: u32, splits: u32) -> Option<SplitOrder> {
        SplitOrder::new::<BM>(batch, kv_heads, shared_by, queries, splits)
    }

    fn arguments(
        [q, k, v]: [GlobalAbi<T, 4>; 3], o: GlobalAbi<T, 4>, lse: GlobalAbi<f32, 4>, parts: SplitParts,
        order: SplitOrder, cache: Cache, [cap, scale]: [f32; 2],
    ) -> Self::Args {
        Self::args(q, k, v, o, lse, parts, order, cache, cap, scale)
    }
}

/// What the host needs to know of a kernel that merges parts.
pub trait MergeKernel: Kernel {
    /// The element type of O.
    type Element: Element;
    /// Columns that a CTA takes.
    const COLUMNS: u32;

    /// The arguments of a launch; see [`merge`](fn@merge).
    fn arguments(
        parts: SplitParts,
        o: GlobalAbi<Self::Element, 4>,
        lse: GlobalAbi<f32, 4>,
        divisions: [Division; 2],
        rows: u32,
    ) -> Self::Args;
}

impl<P: Overlaps, T: Element, const S: usize, const C: usize> MergeKernel for merge<P, T, S, C>
where
    Striped<1>: FragmentLayout<S, C>,
{
    type Element = T;
    const COLUMNS: u32 = C as u32;

    fn arguments(
        parts: SplitParts,
        o: GlobalAbi<T, 4>,
        lse: GlobalAbi<f32, 4>,
        [by_tiles, by_queries]: [Division; 2],
        rows: u32,
    ) -> Self::Args {
        Self::args(parts, o, lse, by_tiles, by_queries, rows)
    }
}

/// Something to do with each of the compiled kernels' types.
pub trait DecodeVisitor {
    /// Called once for each kernel, with the one that merges its parts.
    fn kernel<K, M>(&mut self)
    where
        K: DecodeKernel + Instance + 'static,
        M: MergeKernel<Element = K::Element> + Instance + 'static;
}

/// What is done to scores, by the names in kernels' names.
#[allow(non_camel_case_types)]
mod named {
    pub type plain = super::Plain;
    pub type capped = super::Capped;
}
use named::{capped, plain};

/// The merging kernels, by architecture and element type.
#[allow(non_camel_case_types)]
mod merging {
    use super::{Overlapped, Simt, merge};

    pub type sm_90<T> = merge<Overlapped<1>, T, 32, 32>;
    pub type sm_80<T> = merge<Simt<1>, T, 32, 32>;
}

instantiate! {
    sm_90: merge_sm_90_f16: merging::sm_90<f16>;
    sm_90: merge_sm_90_bf16: merging::sm_90<bf16>;
    sm_80: merge_sm_80_f16: merging::sm_80<f16>;
    sm_80: merge_sm_80_bf16: merging::sm_80<bf16>;
}

/// Calls `$leaf!` with each of scores x element types.
macro_rules! product {
    ($leaf:ident $tile:tt [$($f:ident)*] $types:tt) => { $( product!(@types $leaf $tile $f $types); )* };
    (@types $leaf:ident $tile:tt $f:ident [$($t:ident)*]) => { $( $leaf!($tile $f $t); )* };
}

macro_rules! kernel_type {
    (($sm:ident $p:ty, $y:ty, $m:literal $n:literal, $d:literal $dv:literal, $stages:literal) $f:ident $t:ident) => {
        decode<$p, $y, $t, $f, $m, $n, $d, $dv, $stages>
    };
}

macro_rules! entry {
    (($sm:ident $p:ty, $y:ty, $m:literal $n:literal, $d:literal $dv:literal, $stages:literal) $f:ident $t:ident) => {
        instantiate! { $sm: [decode_ $sm _ $t _ $f _ $m x $n d $d x $dv s $stages]: kernel_type!(
            ($sm $p, $y, $m $n, $d $dv, $stages) $f $t
        ); }
    };
}

macro_rules! visit_kernel {
    (($visitor:ident ($sm:ident $($tile:tt)*)) $f:ident $t:ident) => {
        $visitor.kernel::<kernel_type!(($sm $($tile)*) $f $t), merging::$sm<$t>>();
    };
}

/// The list: tiles, and for each what is done to scores and the element types.
macro_rules! kernels {
    ($(($($tile:tt)*) $scores:tt $types:tt;)*) => {
        $( product!(entry ($($tile)*) $scores $types); )*

        /// Shows `visitor` every compiled kernel's type.
        pub fn visit_decode<V: DecodeVisitor>(visitor: &mut V) {
            $( product!(visit_kernel (visitor ($($tile)*)) $scores $types); )*
        }
    };
}

// Columns that a tensor lacks are zeros, so each width serves the narrower ones too. Stages fill the shared memory of Hopper: what
// is under way hides the memory's latency.
#[rustfmt::skip]
kernels! {
    (sm_90 WarpSpecialized<1, 2>, FullRow<1>, 64 128, 64 64, 6) [plain] [f16 bf16];
    (sm_90 WarpSpecialized<1, 2>, FullRow<1>, 64 128, 128 128, 3) [plain capped] [f16 bf16];
    (sm_90 WarpSpecialized<1, 2, false, 2>, FullRow<1>, 64 64, 128 128, 3) [plain] [f16 bf16];
    (sm_90 WarpSpecialized<1, 2>, FullRow<1>, 64 64, 192 128, 4) [plain] [f16 bf16];
    (sm_90 WarpSpecialized<1, 2>, FullRow<1>, 64 64, 256 256, 3) [plain capped] [f16 bf16];
    (sm_80 Multistage<4, Vectors>, warp::FullRow<4>, 64 64, 64 64, 2) [plain] [f16 bf16];
    (sm_80 Multistage<4, Vectors>, warp::FullRow<4>, 64 64, 128 128, 2) [plain capped] [f16 bf16];
    (sm_80 Multistage<4, Vectors>, warp::FullRow<4>, 64 32, 256 128, 2) [plain capped] [f16 bf16];
    (sm_80 Multistage<4, Elements>, warp::FullRow<4>, 64 32, 256 128, 3) [plain capped] [f16 bf16];
}
