//! The kernels that are compiled: one list, from which entry points and the host's table are made.

use super::{OfGroups, OfRows, Scaling, dequant_gemm_int8};
use crate::abi::GlobalAbi;
use crate::instantiate;
use crate::kernel::{Instance, Kernel};
use crate::layout::Sum;
use crate::tile::{
    ColumnsLayout, FullRow, GemmRegisters, Half, I2, I4, I8, I8x2, Integers, Multistage, NoZeros, Original,
    Schedule, StreamOrder, Swizzle, U2, U4, Vectors, WarpSpecialized, WeightsAbi, Zeros, warp,
};
use half::{bf16, f16};

/// The arguments of a launch; see [`dequant_gemm_int8`](fn@dequant_gemm_int8).
#[derive(Clone, Copy, Debug)]
pub struct Arguments<T, S> {
    /// W.
    pub w: WeightsAbi,
    /// A.
    pub a: GlobalAbi<I8x2, 2>,
    /// Cᵀ.
    pub c: GlobalAbi<T, 2>,
    /// Cᵀ of sums, without rows where `c` is asked for.
    pub sums: GlobalAbi<S, 2>,
    /// The scales of A's rows.
    pub tokens: GlobalAbi<f32, 2>,
    /// The scales of W's rows, unless they are of groups.
    pub scales: GlobalAbi<T, 2>,
    /// The bias.
    pub bias: GlobalAbi<T, 2>,
    /// The order of tiles.
    pub order: StreamOrder,
    /// The activation's number.
    pub activation: u32,
}

/// What the host needs to know of a kernel, read off its type.
pub trait DequantGemmInt8Kernel: Kernel {
    /// The output's and the scales' element type.
    type Element: Half;
    /// What a tile's sums are.
    type Sum: Sum;
    /// The weights' format.
    const FORMAT: &'static str;
    /// Where the zero of a group enters.
    const ZEROS: &'static str;
    /// True when scales are of groups, false when they are of rows.
    const GROUPS: bool;
    /// Rows of W, rows of A and depth of a tile.
    const TILE: [u32; 3];
    /// Threads that hold a tile's sums.
    const CONSUMERS: u32;
    /// Stages of the pipeline.
    const STAGES: u32;
    /// Lines of a TMA box of C.
    const BOX: u32;

    /// The arguments of a launch.
    fn arguments(arguments: Arguments<Self::Element, Self::Sum>) -> Self::Args;
}

#[rustfmt::skip]
impl<
    P: Schedule, Y, S: Scaling, F: Integers, Z: Zeros, T: Half, const BM: usize, const BN: usize, const BK: usize,
    const PAIRS: usize, const BOX: usize, const STAGES: usize,
> DequantGemmInt8Kernel for dequant_gemm_int8<P, Y, S, F, Z, T, BM, BN, BK, PAIRS, BOX, STAGES>
where
    Y: GemmRegisters<I8x2, BM, BN, 64, i32, B = Swizzle<128>, D: ColumnsLayout<BM, BN>>,
{
    type Element = T;
    type Sum = S::Sum;
    const FORMAT: &'static str = F::NAME;
    const ZEROS: &'static str = Z::NAME;
    const GROUPS: bool = S::GROUPS;
    const TILE: [u32; 3] = {
        assert!(BK == 2 * PAIRS);
        [BM as u32, BN as u32, BK as u32]
    };
    const CONSUMERS: u32 = P::CONSUMERS;
    const STAGES: u32 = STAGES as u32;
    const BOX: u32 = BOX as u32;

    fn arguments(x: Arguments<T, S::Sum>) -> Self::Args {
        Self::args(x.w, x.a, x.c, x.sums, x.tokens, x.scales, x.bias, x.order, x.activation)
    }
}

/// Something to do with each of the compiled kernels' types.
pub trait Visitor {
    /// Called once for each kernel.
    fn kernel<K: DequantGemmInt8Kernel + Instance + 'static>(&mut self);
}

/// Formats, zeros and kernels by the names that they have in kernels' names.
#[allow(non_camel_case_types)]
mod named {
    pub type u4 = super::U4;
    pub type i4 = super::I4;
    pub type u2 = super::U2;
    pub type i2 = super::I2;
    pub type i8_ = super::I8;
    pub type none = super::NoZeros;
    pub type original = super::Original;
    pub type rows = super::OfRows;
    pub type groups = super::OfGroups;
}
use named::*;

/// Calls `$leaf!`, with `$with`, with each of tiles x (format, its zeros) x scales x element types.
macro_rules! product {
    ($leaf:ident $with:ident [$($tile:tt)*] $formats:tt $scales:tt $types:tt) => {
        $( product!(@formats $leaf $with $tile $formats $scales $types); )*
    };
    (@formats $leaf:ident $with:ident $tile:tt [$(($f:ident $z:ident))*] $scales:tt $types:tt) => {
        $( product!(@scales $leaf $with $tile $f $z $scales $types); )*
    };
    (@scales $leaf:ident $with:ident $tile:tt $f:ident $z:ident [$($s:ident)*] $types:tt) => {
        $( product!(@types $leaf $with $tile $f $z $s $types); )*
    };
    (@types $leaf:ident $with:ident $tile:tt $f:ident $z:ident $s:ident [$($t:ident)*]) => {
        $( $leaf!($with $tile $f $z $s $t); )*
    };
}

macro_rules! kernel_type {
    (($sm:ident $p:ty, $y:ty, $m:literal $n:literal $k:literal $pairs:literal $box:literal $stages:literal)
        $f:ident $z:ident $s:ident $t:ident) => {
        dequant_gemm_int8<$p, $y, $s, $f, $z, $t, $m, $n, $k, $pairs, $box, $stages>
    };
}

macro_rules! entry {
    (point ($sm:ident $p:ty, $y:ty, $m:literal $n:literal $k:literal $pairs:literal $box:literal $stages:literal)
        $f:ident $z:ident $s:ident $t:ident) => {
        instantiate! { $sm: [dequant_gemm_int8_ $sm _ $s _ $t _ $f _ $z _ $m x $n x $k s $stages]: kernel_type!(
            ($sm $p, $y, $m $n $k $pairs $box $stages) $f $z $s $t
        ); }
    };
}

macro_rules! visit_kernel {
    ($visitor:ident $tile:tt $f:ident $z:ident $s:ident $t:ident) => {
        $visitor.kernel::<kernel_type!($tile $f $z $s $t)>();
    };
}

/// The list: tiles, and for each of them formats with zeros, whose the scales are, and element types.
macro_rules! kernels {
    ($($tiles:tt $formats:tt $scales:tt $types:tt;)*) => {
        $( product!(entry point $tiles $formats $scales $types); )*

        /// Shows `visitor` every compiled kernel's type.
        pub fn visit<V: Visitor>(visitor: &mut V) {
            $( product!(visit_kernel visitor $tiles $formats $scales $types); )*
        }
    };
}

// The narrow tiles are for few rows of A, whose speed is that of the weights' bytes, the wide ones for many: where two sums
// are kept, of a group and of all of them, it is narrower. On sm_80 one tile serves all numbers of rows.
#[rustfmt::skip]
kernels! {
    [(sm_90 WarpSpecialized<4, 4, true>, FullRow<4>, 256 16 256 128 16 4)]
        [(u4 none) (u4 original) (i4 none) (u2 none) (i2 none)] [rows groups] [f16 bf16];
    [(sm_90 WarpSpecialized<4, 4, true>, FullRow<4>, 256 16 256 128 16 3)]
        [(i8_ none)] [rows groups] [f16 bf16];
    [(sm_90 WarpSpecialized<4, 4, true>, FullRow<4>, 256 32 256 128 32 4)]
        [(u4 none) (u4 original) (i4 none)] [rows groups] [f16];
    [(sm_90 WarpSpecialized<2, 4, true>, FullRow<2>, 128 128 256 128 64 3)]
        [(u4 none) (u4 original) (i4 none)] [rows] [f16 bf16];
    [(sm_90 WarpSpecialized<2, 4, true>, FullRow<2>, 128 128 256 128 64 3)]
        [(u2 none) (i2 none)] [rows] [f16];
    [(sm_90 WarpSpecialized<2, 4, true>, FullRow<2>, 128 128 256 128 64 2)]
        [(i8_ none)] [rows] [f16];
    [(sm_90 WarpSpecialized<2, 4, true>, FullRow<2>, 128 96 256 128 96 3)]
        [(u4 none) (u4 original) (i4 none)] [groups] [f16 bf16];
    [(sm_80 Multistage<4, Vectors>, warp::FullRow<4>, 64 32 128 64 0 4)]
        [(u4 none) (u4 original) (i4 none) (u2 none) (i2 none)] [rows groups] [f16 bf16];
    [(sm_80 Multistage<4, Vectors>, warp::FullRow<4>, 64 32 128 64 0 3)]
        [(i8_ none)] [rows groups] [f16 bf16];
}
