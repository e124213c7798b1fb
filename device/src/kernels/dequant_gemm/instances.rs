//! The kernels that are compiled: one list, from which entry points and the host's table are made.

use super::{OfSums, OfWeights, Scaling, dequant_gemm};
use crate::abi::GlobalAbi;
use crate::instantiate;
use crate::kernel::{Instance, Kernel};
use crate::tile::{
    ColumnsLayout, E4M3, E5M2, Elements, FP4, Format, FullRow, GemmRegisters, Half, I1, I2, I4, I8,
    Multistage, NF4, NoZeros, Original, Reads, Rescaled, StreamOrder, Swizzle, U1, U2, U4, Vectors,
    WarpSpecialized, WeightsAbi, Zeros, warp,
};
use half::{bf16, f16};

/// What the host needs to know of a kernel, read off its type.
pub trait DequantGemmKernel: Kernel {
    /// The activations' and the output's element type.
    type Element: Half;
    /// The weights' format.
    const FORMAT: &'static str;
    /// Where the zero of a group enters.
    const ZEROS: &'static str;
    /// Rows of W, rows of A and depth of a tile, which a cluster takes together.
    const TILE: [u32; 3];
    /// Threads that hold a tile's sums.
    const CONSUMERS: u32;
    /// Stages of the pipeline.
    const STAGES: u32;
    /// Lines of a TMA box of C.
    const BOX: u32;
    /// See [`Scaling::SUMS`].
    const SUMS: bool;
    /// True when it reads any strides, element by element.
    const ANY_STRIDES: bool;

    /// The arguments of a launch; see [`dequant_gemm`](fn@dequant_gemm).
    fn arguments(
        w: WeightsAbi,
        a: GlobalAbi<Self::Element, 2>,
        c: GlobalAbi<Self::Element, 2>,
        bias: GlobalAbi<Self::Element, 2>,
        order: StreamOrder,
        activation: u32,
        alpha: f32,
    ) -> Self::Args;
}

#[rustfmt::skip]
impl<
    P: Reads, Y, S, F: Format, Z: Zeros, T: Half, const BM: usize, const BN: usize, const BK: usize, const BOX: usize,
    const STAGES: usize,
> DequantGemmKernel for dequant_gemm<P, Y, S, F, Z, T, BM, BN, BK, BOX, STAGES>
where
    S: Scaling<Y, F, Z, T, BM, BN, BK>,
    Y: GemmRegisters<T, BM, BN, 64, B = Swizzle<128>, D: ColumnsLayout<BM, BN>>,
{
    type Element = T;
    const FORMAT: &'static str = F::NAME;
    const ZEROS: &'static str = Z::NAME;
    const TILE: [u32; 3] = [BM as u32 * P::CLUSTER, BN as u32, BK as u32];
    const CONSUMERS: u32 = P::CONSUMERS * P::CLUSTER;
    const STAGES: u32 = STAGES as u32;
    const BOX: u32 = BOX as u32;
    const SUMS: bool = S::SUMS;
    const ANY_STRIDES: bool = P::ANY_STRIDES;

    fn arguments(
        w: WeightsAbi, a: GlobalAbi<T, 2>, c: GlobalAbi<T, 2>, bias: GlobalAbi<T, 2>, order: StreamOrder, activation: u32,
        alpha: f32,
    ) -> Self::Args {
        Self::args(w, a, c, bias, order, activation, alpha)
    }
}

/// Something to do with each of the compiled kernels' types.
pub trait Visitor {
    /// Called once for each kernel.
    fn kernel<K: DequantGemmKernel + Instance + 'static>(&mut self);
}

/// Formats, zeros and what scales multiply by the names that they have in kernels' names.
#[allow(non_camel_case_types)]
mod named {
    pub type gemm = super::OfWeights;
    pub type sums = super::OfSums<128>;
    pub type u4 = super::U4;
    pub type i4 = super::I4;
    pub type u2 = super::U2;
    pub type i2 = super::I2;
    pub type u1 = super::U1;
    pub type i1 = super::I1;
    pub type i8_ = super::I8;
    pub type nf4 = super::NF4;
    pub type fp4 = super::FP4;
    pub type e4m3 = super::E4M3;
    pub type e5m2 = super::E5M2;
    pub type none = super::NoZeros;
    pub type original = super::Original;
    pub type rescaled = super::Rescaled;
}
use named::*;

/// Calls `$leaf!`, with `$with`, with each of tiles x (format, its zeros) x element types.
macro_rules! product {
    ($leaf:ident $with:ident [$($tile:tt)*] $formats:tt $types:tt) => {
        $( product!(@formats $leaf $with $tile $formats $types); )*
    };
    (@formats $leaf:ident $with:ident $tile:tt [$(($f:ident $z:ident))*] $types:tt) => {
        $( product!(@types $leaf $with $tile $f $z $types); )*
    };
    (@types $leaf:ident $with:ident $tile:tt $f:ident $z:ident [$($t:ident)*]) => {
        $( $leaf!($with $tile $f $z $t); )*
    };
}

macro_rules! kernel_type {
    (($sm:ident $s:ident $p:ty, $y:ty, $m:literal $n:literal $k:literal $box:literal $stages:literal $($ctas:ident)?) $f:ident $z:ident $t:ident) => {
        dequant_gemm<$p, $y, $s, $f, $z, $t, $m, $n, $k, $box, $stages>
    };
}

macro_rules! entry {
    (point ($sm:ident $s:ident $p:ty, $y:ty, $m:literal $n:literal $k:literal $box:literal $stages:literal $($ctas:ident)?) $f:ident $z:ident $t:ident) => {
        instantiate! { $sm: [dequant_ $s _ $sm _ $t _ $f _ $z _ $m x $n x $k s $stages $($ctas)?]: kernel_type!(
            ($sm $s $p, $y, $m $n $k $box $stages $($ctas)?) $f $z $t
        ); }
    };
}

macro_rules! visit_kernel {
    ($visitor:ident $tile:tt $f:ident $z:ident $t:ident) => { $visitor.kernel::<kernel_type!($tile $f $z $t)>(); };
}

/// The list: tiles, and for each of them formats with zeros, and element types.
macro_rules! kernels {
    ($($tiles:tt $formats:tt $types:tt;)*) => {
        $( product!(entry point $tiles $formats $types); )*

        /// Shows `visitor` every compiled kernel's type.
        pub fn visit<V: Visitor>(visitor: &mut V) {
            $( product!(visit_kernel visitor $tiles $formats $types); )*
        }
    };
}

// The narrow tiles are for few rows of A, whose speed is that of the weights' bytes; the wide ones for many. Stages fill the
// shared memory. Clusters of two CTAs (`c2`) read A once. For up to 64 rows of A it takes fewer instructions to scale `sums`. On sm_80
// one tile serves all numbers of rows, and one reads any strides.
#[rustfmt::skip]
kernels! {
    [(sm_90 gemm WarpSpecialized<4, 4, true>, FullRow<4>, 256 16 256 16 4)
     (sm_90 gemm WarpSpecialized<2, 4, true, 1, 2>, FullRow<2>, 256 64 128 64 5 c2)]
        [(u4 none) (u4 original) (u4 rescaled)] [f16 bf16];
    [(sm_90 sums WarpSpecialized<2, 4, true>, FullRow<2>, 256 16 128 16 8)]
        [(u4 none) (u4 original) (i4 none)] [f16 bf16];
    [(sm_90 sums WarpSpecialized<2, 4, true, 1, 2>, FullRow<2>, 256 32 128 32 7 c2)]
        [(u4 none) (u4 original) (i4 none)] [f16 bf16];
    [(sm_90 sums WarpSpecialized<2, 4, true, 1, 2>, FullRow<2>, 256 64 128 64 5 c2)]
        [(u4 original) (i4 none)] [f16 bf16];
    [(sm_90 sums WarpSpecialized<2, 4, true, 1, 2>, FullRow<2>, 256 64 128 64 5 c2)]
        [(u4 none)] [f16];
    [(sm_90 sums WarpSpecialized<2, 4, true>, FullRow<2>, 256 16 128 16 8)
     (sm_90 sums WarpSpecialized<2, 4, true, 1, 2>, FullRow<2>, 256 32 128 32 7 c2)
     (sm_90 sums WarpSpecialized<2, 4, true, 1, 2>, FullRow<2>, 256 64 128 64 5 c2)]
        [(nf4 none) (fp4 none) (u2 none) (u2 original) (i2 none) (u1 none) (u1 original) (i1 none)] [f16];
    [(sm_90 sums WarpSpecialized<2, 4, true>, FullRow<2>, 256 16 128 16 5)
     (sm_90 sums WarpSpecialized<2, 4, true, 1, 2>, FullRow<2>, 256 32 128 32 4 c2)
     (sm_90 sums WarpSpecialized<2, 4, true, 1, 2>, FullRow<2>, 256 64 128 64 3 c2)]
        [(i8_ none) (i8_ original) (e4m3 none) (e5m2 none)] [f16];
    [(sm_90 gemm WarpSpecialized<2, 4, true>, FullRow<2>, 128 256 64 64 5)]
        [(u4 rescaled)] [f16 bf16];
    [(sm_90 gemm WarpSpecialized<2, 4, true, 1, 2>, FullRow<2>, 256 128 128 64 3 c2)]
        [(u4 none) (u4 original) (i4 none)] [f16 bf16];
    [(sm_90 gemm WarpSpecialized<4, 4, true>, FullRow<4>, 256 32 256 32 3)]
        [(u4 none) (u4 original)] [f16 bf16];
    [(sm_90 gemm WarpSpecialized<4, 4, true>, FullRow<4>, 256 16 256 16 4)]
        [(i4 none) (nf4 none) (fp4 none) (u2 none) (u2 original) (i2 none) (u1 none) (u1 original) (i1 none)] [f16 bf16];
    [(sm_90 gemm WarpSpecialized<4, 4, true>, FullRow<4>, 256 16 128 16 5)]
        [(i8_ none) (i8_ original) (e4m3 none) (e5m2 none)] [f16 bf16];
    [(sm_90 gemm WarpSpecialized<2, 4, true>, FullRow<2>, 128 128 64 64 7)]
        [(nf4 none) (fp4 none) (u2 none) (u2 original) (i2 none) (u1 none) (u1 original) (i1 none)
         (i8_ none) (i8_ original) (e4m3 none) (e5m2 none)] [f16];
    [(sm_80 gemm Multistage<4, Vectors>, warp::FullRow<4>, 64 16 64 0 4)
     (sm_80 gemm Multistage<4, Vectors>, warp::FullRow<4>, 64 64 64 0 4)]
        [(u4 none) (u4 original)] [f16 bf16];
    [(sm_80 gemm Multistage<4, Elements>, warp::FullRow<4>, 64 32 64 0 3)]
        [(u4 none) (u4 original) (u4 rescaled) (i4 none) (i4 original) (i4 rescaled)
         (u2 none) (u2 original) (u2 rescaled) (i2 none) (i2 original) (i2 rescaled)
         (u1 none) (u1 original) (u1 rescaled) (i1 none) (i1 original) (i1 rescaled)
         (i8_ none) (i8_ original) (i8_ rescaled) (nf4 none) (fp4 none) (e4m3 none) (e5m2 none)] [f16 bf16];
}
