//! The attention kernels that are compiled: one list, from which entry points and the host's table are made.

use super::{Blocks, Capped, Equal, Keys, Packed, Plain, Score, Sequences, TileOrder, attention};
use crate::abi::GlobalAbi;
use crate::instantiate;
use crate::kernel::{Instance, Kernel};
use crate::tile::{
    ChainedGemm, Element, Elements, FullRow, Multistage, Reads, Vectors, WarpSpecialized, warp,
};
use half::{bf16, f16};

/// What the host needs to know of an attention kernel, read off its type.
pub trait AttentionKernel: Kernel {
    /// The element type of Q, K, V and O.
    type Element: Element;
    /// What is done to scores.
    type Score: Score;
    /// How sequences lie in the tensors.
    type Sequences: Sequences;
    /// Queries of a tile, keys of a block.
    const TILE: [u32; 2];
    /// The most columns of Q and K, and of V and O in one launch.
    const COLUMNS: [u32; 2];
    /// Stages of the pipelines of K and of V.
    const STAGES: u32;
    /// True when it reads any strides, element by element.
    const ANY_STRIDES: bool;

    /// The blocks of keys that tile `m` of queries sees.
    fn blocks(keys: &Keys, m: u32) -> Blocks;

    /// The arguments of a launch; see [`attention`](fn@attention).
    fn arguments(
        inputs: [GlobalAbi<Self::Element, 4>; 3],
        o: GlobalAbi<Self::Element, 4>,
        lse: GlobalAbi<f32, 4>,
        order: TileOrder,
        sequences: Self::Sequences,
        cap: f32,
        scale: f32,
    ) -> Self::Args;
}

#[rustfmt::skip]
impl<
    P: Reads, Y, T: Element, F: Score, S: Sequences, const BM: usize, const BN: usize, const D: usize, const DV: usize,
    const STAGES: usize,
> AttentionKernel for attention<P, Y, T, F, S, BM, BN, D, DV, STAGES>
where
    Y: ChainedGemm<T, BM, BN, D, DV>,
{
    type Element = T;
    type Score = F;
    type Sequences = S;
    const TILE: [u32; 2] = [BM as u32, BN as u32];
    const COLUMNS: [u32; 2] = [D as u32, DV as u32];
    const STAGES: u32 = STAGES as u32;
    const ANY_STRIDES: bool = P::ANY_STRIDES;

    fn blocks(keys: &Keys, m: u32) -> Blocks {
        keys.blocks::<BM, BN>(m)
    }

    fn arguments(
        [q, k, v]: [GlobalAbi<T, 4>; 3], o: GlobalAbi<T, 4>, lse: GlobalAbi<f32, 4>, order: TileOrder, sequences: S,
        cap: f32, scale: f32,
    ) -> Self::Args {
        Self::args(q, k, v, o, lse, order, sequences, cap, scale)
    }
}

/// Something to do with each of the compiled kernels' types.
pub trait Visitor {
    /// Called once for each kernel.
    fn kernel<K: AttentionKernel + Instance + 'static>(&mut self);
}

/// What is done to scores and how sequences lie, by the names in kernels' names.
#[allow(non_camel_case_types)]
mod named {
    pub type plain = super::Plain;
    pub type capped = super::Capped;
    pub type equal = super::Equal;
    pub type packed = super::Packed;
}
use named::{capped, equal, packed, plain};

/// Calls `$leaf!` with each of scores x element types x how sequences lie.
macro_rules! product {
    ($leaf:ident $tile:tt [$($f:ident)*] $types:tt $lies:tt) => { $( product!(@types $leaf $tile $f $types $lies); )* };
    (@types $leaf:ident $tile:tt $f:ident [$($t:ident)*] $lies:tt) => { $( product!(@lies $leaf $tile $f $t $lies); )* };
    (@lies $leaf:ident $tile:tt $f:ident $t:ident [$($s:ident)*]) => { $( $leaf!($tile $f $t $s); )* };
}

macro_rules! kernel_type {
    (($sm:ident $p:ty, $y:ty, $m:literal $n:literal, $d:literal $dv:literal, $stages:literal)
        $f:ident $t:ident $s:ident) => {
        attention<$p, $y, $t, $f, $s, $m, $n, $d, $dv, $stages>
    };
}

macro_rules! entry {
    (($sm:ident $p:ty, $y:ty, $m:literal $n:literal, $d:literal $dv:literal, $stages:literal)
        $f:ident $t:ident equal) => {
        instantiate! { $sm: [attention_ $sm _ $t _ $f _ $m x $n d $d x $dv s $stages]: kernel_type!(
            ($sm $p, $y, $m $n, $d $dv, $stages) $f $t equal
        ); }
    };
    (($sm:ident $p:ty, $y:ty, $m:literal $n:literal, $d:literal $dv:literal, $stages:literal)
        $f:ident $t:ident $s:ident) => {
        instantiate! { $sm: [attention_ $sm _ $t _ $f _ $s _ $m x $n d $d x $dv s $stages]: kernel_type!(
            ($sm $p, $y, $m $n, $d $dv, $stages) $f $t $s
        ); }
    };
}

macro_rules! visit_kernel {
    (($visitor:ident $tile:tt) $f:ident $t:ident $s:ident) => {
        $visitor.kernel::<kernel_type!($tile $f $t $s)>();
    };
}

/// The list: tiles, and for each what is done to scores, the element types and how sequences lie.
macro_rules! kernels {
    ($(($($tile:tt)*) $scores:tt $types:tt $lies:tt;)*) => {
        $( product!(entry ($($tile)*) $scores $types $lies); )*

        /// Shows `visitor` every compiled kernel's type.
        pub fn visit<V: Visitor>(visitor: &mut V) {
            $( product!(visit_kernel (visitor ($($tile)*)) $scores $types $lies); )*
        }
    };
}

// Columns that a tensor lacks are zeros, so each width serves the narrower ones too; V and O that are wider take several launches.
// Blocks of keys fill the shared memory of Hopper with two stages. On Ampere a warp has registers for 128 columns of O.
#[rustfmt::skip]
kernels! {
    (sm_90 WarpSpecialized<2, 3>, FullRow<2>, 128 128, 64 64, 2) [plain] [f16 bf16] [equal packed];
    (sm_90 WarpSpecialized<3, 3>, FullRow<3>, 192 128, 64 64, 2) [plain] [f16 bf16] [equal packed];
    (sm_90 WarpSpecialized<2, 3>, FullRow<2>, 128 128, 128 128, 2) [plain capped] [f16 bf16] [equal packed];
    (sm_90 WarpSpecialized<2, 3>, FullRow<2>, 128 96, 192 128, 2) [plain] [f16 bf16] [equal packed];
    (sm_90 WarpSpecialized<2, 3>, FullRow<2>, 128 80, 192 192, 2) [plain] [f16 bf16] [equal];
    (sm_90 WarpSpecialized<2, 3>, FullRow<2>, 128 64, 256 256, 2) [plain capped] [f16 bf16] [equal packed];
    (sm_80 Multistage<4, Vectors>, warp::FullRow<4>, 64 64, 64 64, 2) [plain] [f16 bf16] [equal packed];
    (sm_80 Multistage<4, Vectors>, warp::FullRow<4>, 64 64, 128 128, 2) [plain capped] [f16 bf16] [equal packed];
    (sm_80 Multistage<8, Vectors>, warp::FullRow<8>, 128 32, 256 128, 2) [plain capped] [f16 bf16] [equal packed];
    (sm_80 Multistage<4, Elements>, warp::FullRow<4>, 64 32, 256 128, 2) [plain capped] [f16 bf16] [equal packed];
}
