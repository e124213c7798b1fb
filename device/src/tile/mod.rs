//! Tiles in global memory, shared memory and registers, and what moves between them.
//!
//! Safe to use and generic over the architecture: a kernel written with this module alone compiles for
//! every [`Schedule`].

mod activation;
mod asynchronous;
mod copy;
mod cta;
mod fragment;
mod gemm;
mod global;
mod output;
mod pipeline;
mod raster;
mod schedule;
mod shared;
mod split_k;

pub use activation::{Activation, Gelu, Identity, Relu, Silu};
pub use asynchronous::{Accumulator, InFlight, Issued, Pending};
pub use copy::{CopyTo, copy};
pub use cta::Cta;
pub use fragment::{Fragment, Rows};
pub use gemm::{Accumulates, Gemm, GemmRegisters, MatA, MatB, MatD, OperandLayout, gemm};
pub use global::{Global, GlobalMut, GlobalTile, GlobalTileMut};
pub use output::{Output, OutputLayout};
pub use pipeline::Pipeline;
pub use raster::{Raster, RasterOrder, TileIndex};
pub use schedule::{Access, Elements, Multistage, Schedule, Vectors, WarpSpecialized};
pub use shared::{Dst, Fill, Full, Ring, Shared, SharedTile, Src, Stage, Transposed};
pub use split_k::{SplitK, split_k_bytes};

pub use crate::kernel::Program;
pub use crate::layout::{
    ColMajor, Element, FragmentLayout, FullCol, FullRow, Major, RowMajor, SharedLayout, Swizzle, warp,
};
pub use half::{bf16, f16};
