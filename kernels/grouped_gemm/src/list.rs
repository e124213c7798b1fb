//! The kernels that are compiled.

use tilewright_device::kernel::{Described, Program};
use tilewright_device::tile::{
    self, ColMajor, Collective, Element, Elements, FragmentLayout, FullRow, Gemm, Major, Multistage,
    OneConsumer, OutputLayout, Reads, RowMajor, Simt, Striped, TwoConsumers, Vectors, WarpSpecialized, warp,
};
use tilewright_device::{bf16, f16, kernels};

use crate::depth::Accumulates;
use crate::{
    combine, grouped_gemm, grouped_gemm_few, grouped_gemm_gated, grouped_gemm_gated_few, k_grouped_gemm,
    order_groups,
};

/// Which rows a kernel is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsOf {
    /// Groups of many rows.
    Many,
    /// Groups of few: the kernel computes the transposed product.
    Few,
}

/// What the host chooses a kernel by.
#[derive(Clone, Copy, Debug)]
pub struct GroupedKernel {
    /// The element type.
    pub element: &'static str,
    /// Which rows it is made for.
    pub of: RowsOf,
    /// Whether it stores gated units of the products.
    pub gated: bool,
    /// Rows of A, columns of C and depth of a tile.
    pub tile: [u32; 3],
    /// Stages of the pipeline.
    pub stages: u32,
    /// Whether rows of B are contiguous; if not, its columns are.
    pub row_major_b: bool,
    /// Lines of a TMA box of A.
    pub box_lines: u32,
    /// True when it reads any strides, element by element.
    pub any_strides: bool,
}

#[rustfmt::skip]
impl<P: Reads, Y, T: Element, OB: Major, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize> Described
    for grouped_gemm<P, Y, T, OB, BM, BN, BK, STAGES>
where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    type Description = GroupedKernel;
    const DESCRIPTION: GroupedKernel = GroupedKernel {
        element: T::NAME,
        of: RowsOf::Many,
        gated: false,
        tile: [BM as u32, BN as u32, BK as u32],
        stages: STAGES as u32,
        row_major_b: OB::ROW_MAJOR,
        box_lines: 64,
        any_strides: P::ANY_STRIDES,
    };
}

#[rustfmt::skip]
impl<P: Reads, Y, T: Element, OB: Major, const BN: usize, const BM: usize, const BK: usize, const STAGES: usize> Described
    for grouped_gemm_few<P, Y, T, OB, BN, BM, BK, STAGES>
where
    Y: Gemm<T, BN, BM, BK>,
{
    type Description = GroupedKernel;
    const DESCRIPTION: GroupedKernel = GroupedKernel {
        element: T::NAME,
        of: RowsOf::Few,
        gated: false,
        tile: [BM as u32, BN as u32, BK as u32],
        stages: STAGES as u32,
        // It reads the transposed matrix.
        row_major_b: !OB::ROW_MAJOR,
        box_lines: BM as u32,
        any_strides: P::ANY_STRIDES,
    };
}

#[rustfmt::skip]
impl<P: Reads, Y, T: Element, const BM: usize, const BN: usize, const UNITS: usize, const BK: usize, const STAGES: usize> Described
    for grouped_gemm_gated<P, Y, T, BM, BN, UNITS, BK, STAGES>
where
    Y: Gemm<T, BM, BN, BK, D: tile::Accumulates<BM, UNITS> + OutputLayout<BM, UNITS>>,
{
    type Description = GroupedKernel;
    const DESCRIPTION: GroupedKernel = GroupedKernel {
        element: T::NAME,
        of: RowsOf::Many,
        gated: true,
        tile: [BM as u32, UNITS as u32, BK as u32],
        stages: STAGES as u32,
        row_major_b: false,
        box_lines: 64,
        any_strides: P::ANY_STRIDES,
    };
}

#[rustfmt::skip]
impl<P: Reads, Y, T: Element, const BN: usize, const UNITS: usize, const BM: usize, const BK: usize, const STAGES: usize> Described
    for grouped_gemm_gated_few<P, Y, T, BN, UNITS, BM, BK, STAGES>
where
    Y: Gemm<T, BN, BM, BK, D: FragmentLayout<UNITS, BM>>,
{
    type Description = GroupedKernel;
    const DESCRIPTION: GroupedKernel = GroupedKernel {
        element: T::NAME,
        of: RowsOf::Few,
        gated: true,
        tile: [BM as u32, UNITS as u32, BK as u32],
        stages: STAGES as u32,
        row_major_b: false,
        box_lines: BM as u32,
        any_strides: P::ANY_STRIDES,
    };
}

/// What the host chooses a kernel by of products whose depth is a group's rows.
#[derive(Clone, Copy, Debug)]
pub struct KGroupedKernel {
    /// The element type of A and B.
    pub element: &'static str,
    /// C's.
    pub output: &'static str,
    /// Columns of A and of B, and depth of a tile.
    pub tile: [u32; 3],
    /// Stages of the pipeline.
    pub stages: u32,
    /// True when it reads any strides, element by element.
    pub any_strides: bool,
}

#[rustfmt::skip]
impl<P: Reads, Y, T: Element, U: Accumulates, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize> Described
    for k_grouped_gemm<P, Y, T, U, BM, BN, BK, STAGES>
where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    type Description = KGroupedKernel;
    const DESCRIPTION: KGroupedKernel = KGroupedKernel {
        element: T::NAME,
        output: U::NAME,
        tile: [BM as u32, BN as u32, BK as u32],
        stages: STAGES as u32,
        any_strides: P::ANY_STRIDES,
    };
}

/// What the host launches a kernel by that puts rows together.
#[derive(Clone, Copy, Debug)]
pub struct CombineKernel {
    /// The element type of x and y.
    pub element: &'static str,
    /// Rows and columns of a CTA.
    pub tile: [u32; 2],
}

impl<P: Program, T: Element, const R: usize, const C: usize> Described for combine<P, T, R, C>
where
    Striped<4>: FragmentLayout<R, C>,
{
    type Description = CombineKernel;
    const DESCRIPTION: CombineKernel = CombineKernel { element: T::NAME, tile: [R as u32, C as u32] };
}

/// The kernel that orders rows by group has nothing to choose by.
#[derive(Clone, Copy, Debug)]
pub struct OrderKernel;

impl<P: Collective> Described for order_groups<P> {
    type Description = OrderKernel;
    const DESCRIPTION: OrderKernel = OrderKernel;
}

// n is B as it is, t a B whose columns are contiguous.
#[rustfmt::skip]
kernels! {
    /// The kernels of products.
    pub static GROUPED: GroupedKernel;

    for T in [f16, bf16], (O, B, BT) in [(n, RowMajor, ColMajor), (t, ColMajor, RowMajor)] {
        sm_90: [grouped_gemm_sm_90_ T _ O _128x256x64s4]:
            grouped_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, B, 128, 256, 64, 4>;
        sm_90: [grouped_gemm_sm_90_ T _ O _256x128x64s4]:
            grouped_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, B, 256, 128, 64, 4>;
        sm_90: [grouped_gemm_sm_90_ T _ O _32x128x64s10]:
            grouped_gemm_few<WarpSpecialized<TwoConsumers>, FullRow<2>, T, BT, 128, 32, 64, 10>;
        sm_80: [grouped_gemm_sm_80_ T _ O _128x128x32s4]:
            grouped_gemm<Multistage<4, Vectors>, warp::Square<2, 2>, T, B, 128, 128, 32, 4>;
    }
    for T in [f16, bf16] {
        sm_80: [grouped_gemm_sm_80_ T _any_64x64x32s3]:
            grouped_gemm<Multistage<4, Elements>, warp::Square<2, 2>, T, ColMajor, 64, 64, 32, 3>;
    }
    // Gated units: each thread has a gate and its up, so that no warp has columns of its own, and no warpgroup rows of gates alone.
    for T in [f16, bf16] {
        sm_90: [grouped_gemm_gated_sm_90_ T _128x256x64s4]:
            grouped_gemm_gated<WarpSpecialized<TwoConsumers>, FullRow<2>, T, 128, 256, 128, 64, 4>;
        sm_90: [grouped_gemm_gated_sm_90_ T _256x128x64s4]:
            grouped_gemm_gated<WarpSpecialized<TwoConsumers>, FullRow<2>, T, 256, 128, 64, 64, 4>;
        sm_90: [grouped_gemm_gated_sm_90_ T _32x128x64s10]:
            grouped_gemm_gated_few<WarpSpecialized<OneConsumer>, FullRow<1>, T, 128, 64, 32, 64, 10>;
        sm_80: [grouped_gemm_gated_sm_80_ T _128x128x32s4]:
            grouped_gemm_gated<Multistage<4, Vectors>, warp::FullRow<4>, T, 128, 128, 64, 32, 4>;
    }
}

#[rustfmt::skip]
kernels! {
    /// The kernels of products whose depth is a group's rows.
    pub static K_GROUPED: KGroupedKernel;

    for (T, U) in [(f16, f16), (f16, f32), (bf16, bf16), (bf16, f32)] {
        for (N, STAGES) in [(256, 4), (128, 6)] {
            sm_90: [k_grouped_gemm_sm_90_ T _ U _128x N x64s STAGES]:
                k_grouped_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, U, 128, N, 64, STAGES>;
        }
        sm_80: [k_grouped_gemm_sm_80_ T _ U _128x128x32s4]:
            k_grouped_gemm<Multistage<4, Vectors>, warp::Square<2, 2>, T, U, 128, 128, 32, 4>;
        sm_80: [k_grouped_gemm_sm_80_ T _ U _any_64x64x32s3]:
            k_grouped_gemm<Multistage<4, Elements>, warp::Square<2, 2>, T, U, 64, 64, 32, 3>;
    }
}

kernels! {
    /// The kernel that orders rows by group.
    pub static ORDER: OrderKernel;

    sm_80: order_groups_sm_80: order_groups<Simt<8>>;
}

kernels! {
    /// The kernels that put rows together.
    pub static COMBINE: CombineKernel;

    for T in [f16, bf16] {
        sm_80: [combine_sm_80_ T]: combine<Simt<4>, T, 4, 256>;
    }
}
