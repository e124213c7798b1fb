//! The GEMM kernels that are compiled: one list, from which entry points and the host's table are made.

use super::gemm;
use crate::abi::GlobalAbi;
use crate::instantiate;
use crate::kernel::{Instance, Kernel};
use crate::tile::{
    Activation, ColMajor, Element, Elements, FullRow, Gelu, Gemm, Identity, Major, Multistage, OutputLayout,
    RasterOrder, Reads, Relu, RowMajor, Silu, Vectors, WarpSpecialized, warp,
};
use half::{bf16, f16};

/// What the host needs to know of a GEMM kernel, read off its type.
pub trait GemmKernel: Kernel {
    /// The inputs' element type.
    type Input: Element;
    /// The output's and the bias's element type.
    type Output: Element;
    /// The epilogue's activation.
    type Activation: Activation;
    /// Rows, columns and depth of a tile.
    const TILE: [u32; 3];
    /// Stages of the pipeline.
    const STAGES: u32;
    /// CTAs that divide a tile's depth.
    const SPLIT: u32;
    /// Which of A, B and C are row-major.
    const ROW_MAJOR: [bool; 3];
    /// Lines of a TMA box of B.
    const BOX_B: u32;
    /// True when it reads any strides, element by element.
    const ANY_STRIDES: bool;

    /// The arguments of a launch; see [`gemm`](fn@gemm).
    fn arguments(
        a: GlobalAbi<Self::Input, 3>,
        b: GlobalAbi<Self::Input, 3>,
        c: GlobalAbi<Self::Output, 3>,
        bias: GlobalAbi<Self::Output, 3>,
        order: RasterOrder,
        scale: [f32; 2],
    ) -> Self::Args;
}

#[rustfmt::skip]
impl<
    P: Reads, Y, T: Element, U: Element, E: Activation, OA: Major, OB: Major, OC: Major, const BM: usize,
    const BN: usize, const BK: usize, const STAGES: usize, const SPLIT: usize, const BOX: usize,
> GemmKernel for gemm<P, Y, T, U, E, OA, OB, OC, BM, BN, BK, STAGES, SPLIT, BOX>
where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    type Input = T;
    type Output = U;
    type Activation = E;
    const TILE: [u32; 3] = [BM as u32, BN as u32, BK as u32];
    const STAGES: u32 = STAGES as u32;
    const SPLIT: u32 = SPLIT as u32;
    const ROW_MAJOR: [bool; 3] = [OA::ROW_MAJOR, OB::ROW_MAJOR, OC::ROW_MAJOR];
    const BOX_B: u32 = BOX as u32;
    const ANY_STRIDES: bool = P::ANY_STRIDES;

    fn arguments(
        a: GlobalAbi<T, 3>, b: GlobalAbi<T, 3>, c: GlobalAbi<U, 3>, bias: GlobalAbi<U, 3>,
        order: RasterOrder, [alpha, beta]: [f32; 2],
    ) -> Self::Args {
        Self::args(a, b, c, bias, order, alpha, beta)
    }
}

/// Something to do with each of the compiled kernels' types.
pub trait Visitor {
    /// Called once for each kernel.
    fn kernel<K: GemmKernel + Instance + 'static>(&mut self);
}

/// The activations by the names that they have in kernels' names.
#[allow(non_camel_case_types)]
mod named {
    pub type none = super::Identity;
    pub type relu = super::Relu;
    pub type gelu = super::Gelu;
    pub type silu = super::Silu;
}
use named::{gelu, none, relu, silu};

/// Calls `$leaf!` with each of activations x (input, output) types x operand orders.
macro_rules! product {
    ($leaf:ident $tile:tt [$($e:ident)*] $types:tt $orders:tt) => {
        $( product!(@types $leaf $tile $e $types $orders); )*
    };
    (@types $leaf:ident $tile:tt $e:ident [$(($t:ident $u:ident))*] $orders:tt) => {
        $( product!(@orders $leaf $tile $e $t $u $orders); )*
    };
    (@orders $leaf:ident $tile:tt $e:ident $t:ident $u:ident [$($o:ident)*]) => {
        $( $leaf!($tile $e $t $u $o); )*
    };
}

/// The kernel's type. Orders are those of op(A) and op(B), n as they are and t transposed; with `swap_` the kernel
/// computes the transposed product, so that few rows of A become few columns of a tile.
macro_rules! kernel_type {
    ($tile:tt $e:ident $t:ident $u:ident nn) => { kernel_type!(@ $tile $e $t $u RowMajor, RowMajor, RowMajor) };
    ($tile:tt $e:ident $t:ident $u:ident nt) => { kernel_type!(@ $tile $e $t $u RowMajor, ColMajor, RowMajor) };
    ($tile:tt $e:ident $t:ident $u:ident tn) => { kernel_type!(@ $tile $e $t $u ColMajor, RowMajor, RowMajor) };
    ($tile:tt $e:ident $t:ident $u:ident tt) => { kernel_type!(@ $tile $e $t $u ColMajor, ColMajor, RowMajor) };
    ($tile:tt $e:ident $t:ident $u:ident swap_nn) => { kernel_type!(@ $tile $e $t $u ColMajor, ColMajor, ColMajor) };
    ($tile:tt $e:ident $t:ident $u:ident swap_nt) => { kernel_type!(@ $tile $e $t $u RowMajor, ColMajor, ColMajor) };
    (@ ($sm:ident $p:ty, $y:ty, $m:literal $n:literal $k:literal, $stages:literal $split:literal $box:literal)
        $e:ident $t:ident $u:ident $oa:ty, $ob:ty, $oc:ty) => {
        gemm<$p, $y, $t, $u, $e, $oa, $ob, $oc, $m, $n, $k, $stages, $split, $box>
    };
}

macro_rules! entry {
    (($sm:ident $p:ty, $y:ty, $m:literal $n:literal $k:literal, $stages:literal $split:literal $box:literal)
        $e:ident $t:ident $u:ident $o:ident) => {
        instantiate! { $sm: [gemm_ $sm _ $t _ $u _ $o _ $e _ $m x $n x $k s $stages k $split]: kernel_type!(
            ($sm $p, $y, $m $n $k, $stages $split $box) $e $t $u $o
        ); }
    };
}

macro_rules! visit_kernel {
    (($visitor:ident $tile:tt) $e:ident $t:ident $u:ident $o:ident) => {
        $visitor.kernel::<kernel_type!($tile $e $t $u $o)>();
    };
}

/// The list: tiles, and for each the activations, element types and operand orders.
macro_rules! kernels {
    ($(($($tile:tt)*) $acts:tt $types:tt $orders:tt;)*) => {
        $( product!(entry ($($tile)*) $acts $types $orders); )*

        /// Shows `visitor` every compiled kernel's type.
        pub fn visit<V: Visitor>(visitor: &mut V) {
            $( product!(visit_kernel (visitor ($($tile)*)) $acts $types $orders); )*
        }
    };
}

// Of Hopper's tiles the first is for large products, the second for outputs and activations beyond the usual,
// the third and fourth for few tiles, the swapped ones for few rows. Stages fill the shared memory.
#[rustfmt::skip]
kernels! {
    (sm_90 WarpSpecialized<2>, FullRow<2>, 128 256 64, 4 1 64)
        [none relu gelu silu] [(f16 f16) (bf16 bf16)] [nn nt tn tt];
    (sm_90 WarpSpecialized<2>, FullRow<2>, 128 256 64, 4 1 64)
        [none] [(f16 f32) (bf16 f32)] [nn nt tn tt];
    (sm_90 WarpSpecialized<2>, FullRow<2>, 128 128 64, 6 1 64)
        [none relu gelu silu] [(f16 f16) (bf16 bf16) (f16 f32) (bf16 f32)] [nn nt tn tt];
    (sm_90 WarpSpecialized<2>, FullRow<2>, 128 128 64, 6 1 64)
        [none] [(f16 bf16) (bf16 f16)] [nn nt tn tt];
    (sm_90 WarpSpecialized<2>, FullRow<2>, 128 64 64, 8 1 64)
        [none] [(f16 f16) (bf16 bf16)] [nn nt tn tt];
    (sm_90 WarpSpecialized<2>, FullRow<2>, 128 64 64, 8 2 64)
        [none] [(f16 f16) (bf16 bf16)] [nn nt tn tt];
    (sm_90 WarpSpecialized<1>, FullRow<1>, 64 64 64, 11 2 64)
        [none] [(f16 f16) (bf16 bf16)] [swap_nn swap_nt];
    (sm_90 WarpSpecialized<1>, FullRow<1>, 64 32 128, 8 2 32)
        [none] [(f16 f16) (bf16 bf16)] [swap_nn swap_nt];
    (sm_90 WarpSpecialized<1>, FullRow<1>, 64 16 128, 10 2 16)
        [none relu gelu silu] [(f16 f16) (bf16 bf16) (f16 f32) (bf16 f32)] [swap_nn swap_nt];
    (sm_80 Multistage<8, Vectors>, warp::Square<2, 4>, 128 256 64, 3 1 64)
        [none] [(f16 f16) (bf16 bf16)] [nn nt tn tt];
    (sm_80 Multistage<4, Vectors>, warp::Square<2, 2>, 128 128 32, 4 1 64)
        [none relu gelu silu] [(f16 f16) (bf16 bf16)] [nn nt tn tt];
    (sm_80 Multistage<4, Vectors>, warp::Square<2, 2>, 128 128 32, 4 1 64)
        [none] [(f16 bf16) (bf16 f16)] [nn nt tn tt];
    (sm_80 Multistage<4, Vectors>, warp::Square<2, 2>, 128 64 32, 4 1 64)
        [none relu gelu silu] [(f16 f32) (bf16 f32)] [nn nt tn tt];
    (sm_80 Multistage<4, Elements>, warp::Square<2, 2>, 64 64 32, 3 1 64)
        [none relu gelu silu] [(f16 f16) (bf16 bf16) (f16 f32) (bf16 f32) (f16 bf16) (bf16 f16)] [nt];
}
