//! The GEMM kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    Activation, ColMajor, Element, Elements, FullRow, Gemm, KMajor, Major, Multistage, OneConsumer,
    OutputLayout, Overlapped, Overlaps, PerWarpgroup, PingPongCluster, Reads, RowMajor, Simt, Threads,
    TwoConsumers, TwoConsumersCluster, TwoConsumersClusterOfFour, Vectors, WarpSpecialized, warp,
};
use tilewright_device::{bf16, f16, kernels};

use crate::{copy_lines, gemm, gemm_stream, shortens};

/// What the host chooses a GEMM kernel by.
#[derive(Clone, Copy, Debug)]
pub struct GemmKernel {
    /// The inputs' element type.
    pub input: &'static str,
    /// The output's and the bias's element type.
    pub output: &'static str,
    /// The epilogue's activation.
    pub activation: &'static str,
    /// Whether it applies to gates, with which ups are multiplied.
    pub gated: bool,
    /// Rows, columns and depth of a tile, or of those that a cluster takes together.
    pub tile: [u32; 3],
    /// Stages of the pipeline.
    pub stages: u32,
    /// CTAs that divide a tile's depth.
    pub split: u32,
    /// Whether all CTAs divide all tiles' depth, with a workspace for the sums of parts.
    pub stream: bool,
    /// Threads that compute.
    pub consumers: u32,
    /// Which of A, B and C are row-major.
    pub row_major: [bool; 3],
    /// Lines of a TMA box of B and of C.
    pub box_lines: [u32; 2],
    /// Whether B's boxes may have fewer, where B has.
    pub short: bool,
    /// Whether it takes neither beta nor bias.
    pub plain: bool,
    /// Whether warpgroups have tiles of their own.
    pub apart: bool,
    /// True when it reads any strides, element by element.
    pub any_strides: bool,
}

#[rustfmt::skip]
impl<
    P: Reads, Y, T: Element, U: Element, E: Activates, OA: Major, OB: Major, OC: Major, const BM: usize,
    const BN: usize, const BK: usize, const STAGES: usize, const SPLIT: usize, const BOX: usize,
> Described for gemm<P, Y, T, U, E, OA, OB, OC, BM, BN, BK, STAGES, SPLIT, BOX>
where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    type Description = GemmKernel;
    const DESCRIPTION: GemmKernel = GemmKernel {
        input: T::NAME,
        output: U::NAME,
        activation: E::ACTIVATION.name(),
        gated: E::GATED,
        tile: [BM as u32 * P::CLUSTER, BN as u32, BK as u32],
        stages: STAGES as u32,
        split: SPLIT as u32,
        stream: false,
        consumers: P::CONSUMERS,
        row_major: [OA::ROW_MAJOR, OB::ROW_MAJOR, OC::ROW_MAJOR],
        box_lines: [BOX as u32; 2],
        short: shortens::<P, OC>(),
        plain: E::PLAIN,
        apart: P::APART,
        any_strides: P::ANY_STRIDES,
    };
}

#[rustfmt::skip]
impl<
    P: Reads, Y, T: Element, U: Element, E: Activates, OA: Major, OB: Major, OC: Major, const BM: usize,
    const BN: usize, const BK: usize, const STAGES: usize, const BOX: usize, const OUT: usize,
> Described for gemm_stream<P, Y, T, U, E, OA, OB, OC, BM, BN, BK, STAGES, BOX, OUT>
where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    type Description = GemmKernel;
    const DESCRIPTION: GemmKernel = GemmKernel {
        split: 1,
        stream: true,
        box_lines: [BOX as u32, OUT as u32],
        ..gemm::<P, Y, T, U, E, OA, OB, OC, BM, BN, BK, STAGES, 1, BOX>::DESCRIPTION
    };
}

/// A kernel that copies lines, of any elements of 2 bytes.
#[derive(Clone, Copy, Debug)]
pub struct CopyKernel;

impl<P: Overlaps, T: Element> Described for copy_lines<P, T> {
    type Description = CopyKernel;
    const DESCRIPTION: CopyKernel = CopyKernel;
}

/// An activation that a kernel has by its type.
///
/// Told at the launch, as an [`Epilogue`](tilewright_device::tile::Epilogue) is, it would need fewer kernels. They were measured up to
/// 9% slower where a CTA has one tile: an epilogue's arguments are read behind the main loop.
pub trait Activates: Copy + Default + Send + Sync + 'static {
    /// The activation.
    const ACTIVATION: Activation;
    /// Whether the kernel's rows are gates and ups in turn.
    const GATED: bool = false;
    /// Whether the kernel has alpha alone, neither beta nor bias: their terms take registers that an accumulator may not leave.
    const PLAIN: bool = false;
}

/// Activations by the names that they have in kernels' names.
#[allow(non_camel_case_types)]
mod named {
    use super::{Activates, Activation};

    macro_rules! named {
        ($($name:ident $activation:ident)*) => { $(
            #[derive(Clone, Copy, Debug, Default)]
            pub struct $name;
            impl Activates for $name {
                const ACTIVATION: Activation = Activation::$activation;
            }
        )* };
    }
    named! { none Identity relu Relu gelu Gelu silu Silu }

    /// Nothing but alpha.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct plain;
    impl Activates for plain {
        const ACTIVATION: Activation = Activation::Identity;
        const PLAIN: bool = true;
    }

    /// Gated units.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct gated<E>(core::marker::PhantomData<E>);
    impl<E: Activates> Activates for gated<E> {
        const ACTIVATION: Activation = E::ACTIVATION;
        const GATED: bool = true;
    }
}
use named::{gated, gelu, none, plain, relu, silu};

// Orders are those of op(A) and op(B), n as they are and t transposed; with `swap_` the kernel computes the transposed product, so
// that few rows of A become few columns of a tile. Of Hopper's tiles the first is for large products, the second for outputs and
// activations beyond the usual, the third and fourth for few tiles, the swapped ones for many tiles, of which warpgroups take
// every other, and for few rows. Stages fill the shared memory.
#[rustfmt::skip]
kernels! {
    /// The GEMM kernels.
    pub static GEMM: GemmKernel;

    let ANY = [none, relu, gelu, silu];
    let ACTIVE = [relu, gelu, silu];
    let ALIKE = [(f16, f16), (bf16, bf16)];
    let WIDER = [(f16, f32), (bf16, f32)];
    let ORDERS = [
        (nn, RowMajor, RowMajor, RowMajor), (nt, RowMajor, ColMajor, RowMajor),
        (tn, ColMajor, RowMajor, RowMajor), (tt, ColMajor, ColMajor, RowMajor),
    ];
    let ROWS = [(nn, RowMajor, RowMajor, RowMajor), (nt, RowMajor, ColMajor, RowMajor)];
    let SWAPPED = [(swap_nn, ColMajor, ColMajor, ColMajor), (swap_nt, RowMajor, ColMajor, ColMajor)];

    // The usual output types. With an activation and a transposed A there is the smaller tile alone.
    for E in ANY, (T, U) in ALIKE, (O, A, B, C) in ORDERS {
        sm_90: [gemm_sm_90_ T _ U _ O _ E _128x128x64s6k1]:
            gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, U, E, A, B, C, 128, 128, 64, 6, 1, 64>;
        sm_80: [gemm_sm_80_ T _ U _ O _ E _128x128x32s4k1]:
            gemm<Multistage<4, Vectors>, warp::Square<2, 2>, T, U, E, A, B, C, 128, 128, 32, 4, 1, 64>;
    }
    for (T, U) in ALIKE, (O, A, B, C) in ORDERS {
        sm_90: [gemm_sm_90_ T _ U _ O _none_128x256x64s4k1]:
            gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, U, none, A, B, C, 128, 256, 64, 4, 1, 64>;
    }
    for E in ACTIVE, (T, U) in ALIKE, (O, A, B, C) in ROWS {
        sm_90: [gemm_sm_90_ T _ U _ O _ E _128x256x64s4k1]:
            gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, U, E, A, B, C, 128, 256, 64, 4, 1, 64>;
    }
    // f32 in full precision, by ordinary instructions: of aligned lines, many rows or few, or of any strides.
    for E in ANY {
        sm_80: [gemm_sm_80_f32_f32_nn_ E _128x64x16s4k1sk]:
            gemm_stream<Multistage<4, Vectors>, Threads<16, 8, 4>, f32, f32, E, RowMajor, RowMajor, RowMajor, 128, 64, 16, 4, 64, 64>;
        sm_80: [gemm_sm_80_f32_f32_nt_ E _128x64x16s4k1sk]:
            gemm_stream<Multistage<4, Vectors>, KMajor<Threads<16, 8>>, f32, f32, E, RowMajor, ColMajor, RowMajor, 128, 64, 16, 4, 64, 64>;
        sm_80: [gemm_sm_80_f32_f32_tn_ E _128x64x16s4k1sk]:
            gemm_stream<Multistage<4, Vectors>, Threads<16, 8, 4>, f32, f32, E, ColMajor, RowMajor, RowMajor, 128, 64, 16, 4, 64, 64>;
        sm_80: [gemm_sm_80_f32_f32_nn_ E _16x128x32s3k1sk]:
            gemm_stream<Multistage<4, Vectors>, Threads<4, 32, 4>, f32, f32, E, RowMajor, RowMajor, RowMajor, 16, 128, 32, 3, 64, 64>;
        sm_80: [gemm_sm_80_f32_f32_nt_ E _16x128x32s3k1sk]:
            gemm_stream<Multistage<4, Vectors>, KMajor<Threads<4, 32>>, f32, f32, E, RowMajor, ColMajor, RowMajor, 16, 128, 32, 3, 64, 64>;
        sm_80: [gemm_sm_80_f32_f32_any_ E _64x64x16s3k1sk]:
            gemm_stream<Multistage<4, Elements>, Threads<8, 16, 4>, f32, f32, E, RowMajor, RowMajor, RowMajor, 64, 64, 16, 3, 64, 64>;
    }
    // Wider outputs.
    for (T, U) in WIDER, (O, A, B, C) in ORDERS {
        sm_90: [gemm_sm_90_ T _ U _ O _none_128x256x64s4k1]:
            gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, U, none, A, B, C, 128, 256, 64, 4, 1, 64>;
        sm_90: [gemm_sm_90_ T _ U _ O _none_128x128x64s6k1]:
            gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, U, none, A, B, C, 128, 128, 64, 6, 1, 64>;
        sm_80: [gemm_sm_80_ T _ U _ O _none_128x64x32s4k1]:
            gemm<Multistage<4, Vectors>, warp::Square<2, 2>, T, U, none, A, B, C, 128, 64, 32, 4, 1, 64>;
    }
    for E in ACTIVE, (T, U) in WIDER, (O, A, B, C) in ROWS {
        sm_90: [gemm_sm_90_ T _ U _ O _ E _128x128x64s6k1]:
            gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, U, E, A, B, C, 128, 128, 64, 6, 1, 64>;
    }
    // Many tiles, without beta and bias: warpgroups take tiles in turn, and waves are filled by tiles of some width.
    for (T, U) in ALIKE, (O, A, B, C) in SWAPPED {
        sm_90: [gemm_sm_90_ T _ U _ O _none_256x128x64s6c2]:
            gemm<WarpSpecialized<PingPongCluster>, PerWarpgroup<2>, T, U, plain, A, B, C, 128, 128, 64, 6, 1, 64>;
        sm_90: [gemm_sm_90_ T _ U _ O _none_256x144x64s6c2]:
            gemm<WarpSpecialized<PingPongCluster>, PerWarpgroup<2>, T, U, plain, A, B, C, 128, 144, 64, 6, 1, 72>;
        sm_90: [gemm_sm_90_ T _ U _ O _none_256x160x64s5c2]:
            gemm<WarpSpecialized<PingPongCluster>, PerWarpgroup<2>, T, U, plain, A, B, C, 128, 160, 64, 5, 1, 80>;
        sm_90: [gemm_sm_90_ T _ U _ O _none_256x176x64s5c2]:
            gemm<WarpSpecialized<PingPongCluster>, PerWarpgroup<2>, T, U, plain, A, B, C, 128, 176, 64, 5, 1, 88>;
    }
    // Few tiles.
    for (T, U) in ALIKE, (O, A, B, C) in ORDERS {
        sm_90: [gemm_sm_90_ T _ U _ O _none_128x64x64s8k1]:
            gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, U, none, A, B, C, 128, 64, 64, 8, 1, 64>;
        sm_90: [gemm_sm_90_ T _ U _ O _none_128x64x64s8k2]:
            gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, U, none, A, B, C, 128, 64, 64, 8, 2, 64>;
        sm_80: [gemm_sm_80_ T _ U _ O _none_128x256x64s3k1]:
            gemm<Multistage<8, Vectors>, warp::Square<2, 4>, T, U, none, A, B, C, 128, 256, 64, 3, 1, 64>;
    }
    // Waves of tiles that the others leave half empty.
    for (T, U) in ALIKE {
        sm_90: [gemm_sm_90_ T _ U _swap_nt_none_128x96x64s6k1]:
            gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, U, none, RowMajor, ColMajor, ColMajor, 128, 96, 64, 6, 1, 96>;
        sm_90: [gemm_sm_90_ T _ U _swap_nt_none_128x104x64s6k1]:
            gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, U, none, RowMajor, ColMajor, ColMajor, 128, 104, 64, 6, 1, 104>;
        sm_90: [gemm_sm_90_ T _ U _swap_nt_none_64x64x64s12k1]:
            gemm<WarpSpecialized<OneConsumer>, FullRow<1>, T, U, none, RowMajor, ColMajor, ColMajor, 64, 64, 64, 12, 1, 64>;
        sm_90: [gemm_sm_90_ T _ U _swap_nt_none_64x112x64s9k1]:
            gemm<WarpSpecialized<OneConsumer>, FullRow<1>, T, U, none, RowMajor, ColMajor, ColMajor, 64, 112, 64, 9, 1, 112>;
    }
    // Some hundred rows of great depth: tiles of all rows, whose depth the CTAs of a cluster divide.
    for (T, U) in ALIKE, (O, A, B, C) in SWAPPED, CTAS in [2, 4] {
        sm_90: [gemm_sm_90_ T _ U _ O _none_128x128x64s5k CTAS]:
            gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, U, plain, A, B, C, 128, 128, 64, 5, CTAS, 64>;
        sm_90: [gemm_sm_90_ T _ U _ O _none_128x192x64s4k CTAS]:
            gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, T, U, plain, A, B, C, 128, 192, 64, 4, CTAS, 64>;
    }
    // Some hundred rows, in as few tiles as one wave takes: what CTAs share of them comes from L2 once for a cluster.
    for (T, U) in ALIKE, (O, A, B, C) in SWAPPED {
        sm_90: [gemm_sm_90_ T _ U _ O _none_256x128x64s5c2]:
            gemm<WarpSpecialized<TwoConsumersCluster>, FullRow<2>, T, U, plain, A, B, C, 128, 128, 64, 5, 1, 64>;
        sm_90: [gemm_sm_90_ T _ U _ O _none_256x224x64s4c2]:
            gemm<WarpSpecialized<TwoConsumersCluster>, FullRow<2>, T, U, plain, A, B, C, 128, 224, 64, 4, 1, 56>;
        sm_90: [gemm_sm_90_ T _ U _ O _none_512x192x64s4c4]:
            gemm<WarpSpecialized<TwoConsumersClusterOfFour>, FullRow<2>, T, U, plain, A, B, C, 128, 192, 64, 4, 1, 64>;
    }
    // Some hundred rows whose tiles fill no wave: all CTAs divide their depth.
    for (T, U) in ALIKE, (O, A, B, C) in SWAPPED {
        sm_90: [gemm_sm_90_ T _ U _ O _none_512x96x64s6c4sk]:
            gemm_stream<WarpSpecialized<TwoConsumersClusterOfFour>, FullRow<2>, T, U, none, A, B, C, 128, 96, 64, 6, 24, 96>;
        sm_90: [gemm_sm_90_ T _ U _ O _none_512x128x64s6c4sk]:
            gemm_stream<WarpSpecialized<TwoConsumersClusterOfFour>, FullRow<2>, T, U, none, A, B, C, 128, 128, 64, 6, 32, 64>;
        sm_90: [gemm_sm_90_ T _ U _ O _none_256x160x64s5c2sk]:
            gemm_stream<WarpSpecialized<TwoConsumersCluster>, FullRow<2>, T, U, none, A, B, C, 128, 160, 64, 5, 80, 40>;
        sm_90: [gemm_sm_90_ T _ U _ O _none_256x208x64s4c2sk]:
            gemm_stream<WarpSpecialized<TwoConsumersCluster>, FullRow<2>, T, U, plain, A, B, C, 128, 208, 64, 4, 104, 16>;
    }
    // Few rows.
    for (T, U) in ALIKE, (O, A, B, C) in SWAPPED {
        sm_90: [gemm_sm_90_ T _ U _ O _none_64x64x64s11k2]:
            gemm<WarpSpecialized<OneConsumer>, FullRow<1>, T, U, none, A, B, C, 64, 64, 64, 11, 2, 64>;
        sm_90: [gemm_sm_90_ T _ U _ O _none_64x32x128s8k2]:
            gemm<WarpSpecialized<OneConsumer>, FullRow<1>, T, U, none, A, B, C, 64, 32, 128, 8, 2, 32>;
    }
    for E in ANY, (T, U) in [(f16, f16), (bf16, bf16), (f16, f32), (bf16, f32)], (O, A, B, C) in SWAPPED {
        sm_90: [gemm_sm_90_ T _ U _ O _ E _64x16x128s10k2]:
            gemm<WarpSpecialized<OneConsumer>, FullRow<1>, T, U, E, A, B, C, 64, 16, 128, 10, 2, 16>;
    }
    // The same of gated units.
    for (NAME, E) in [(gelu, gated<gelu>), (silu, gated<silu>)], (T, U) in ALIKE {
        sm_90: [gemm_sm_90_ T _ U _swap_nt_gated_ NAME _64x16x128s10k2]:
            gemm<WarpSpecialized<OneConsumer>, FullRow<1>, T, U, E, RowMajor, ColMajor, ColMajor, 64, 16, 128, 10, 2, 16>;
    }
    // Any strides.
    for E in ANY, (T, U) in [(f16, f16), (bf16, bf16), (f16, f32), (bf16, f32), (f16, bf16), (bf16, f16)] {
        sm_80: [gemm_sm_80_ T _ U _nt_ E _64x64x32s3k1]:
            gemm<Multistage<4, Elements>, warp::Square<2, 2>, T, U, E, RowMajor, ColMajor, RowMajor, 64, 64, 32, 3, 1, 64>;
    }
}

kernels! {
    /// The kernels that copy lines, that of the newest architecture first.
    pub static COPIES: CopyKernel;

    sm_90: [copy_lines_sm_90]: copy_lines<Overlapped<8>, f16>;
    sm_80: [copy_lines_sm_80]: copy_lines<Simt<8>, f16>;
}
