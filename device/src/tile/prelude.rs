//! The public names: all that a kernel imports.

pub use crate::tile::copy::access::{Access, Elements, Overlapping, Vectors};
pub use crate::tile::copy::add::AtomicAdd;
pub use crate::tile::copy::arrival::Arrival;
pub use crate::tile::copy::blocks_of_sums::{BlockSums, SumTurn};
pub use crate::tile::copy::columns::ColumnsFrom;
pub use crate::tile::copy::elementwise::elementwise;
pub use crate::tile::copy::row_part::{RowMut, RowPart};
pub use crate::tile::copy::row_parts::RowParts;
pub use crate::tile::copy::rows_alike::{Beside, BesideMut, PartAlike, RowsAlike};
pub use crate::tile::copy::scratch_pair::ScratchPair;
pub use crate::tile::cta::collective::Collective;
pub use crate::tile::cta::simt::{Overlapped, Overlaps, Simt};
pub use crate::tile::cta::{Cta, TILE_ALIGN};
pub use crate::tile::epilogue::activation::Activation;
pub use crate::tile::epilogue::apply::{Epilogue, EpilogueAbi};
pub use crate::tile::epilogue::gated::{GATES, unit_of_gate, up_of_lane};
pub use crate::tile::epilogue::output::columns::{ColumnsLayout, OutputColumns};
pub use crate::tile::epilogue::output::staging::matrix_line;
pub use crate::tile::epilogue::output::{Output, OutputLayout};
pub use crate::tile::epilogue::term::{Absent, ByColumn, ByElement, ByRow, Term};
pub use crate::tile::fragment::arithmetic::Arithmetic;
pub use crate::tile::fragment::bytes::byte_column;
pub use crate::tile::fragment::col_reducer::ColReducer;
pub use crate::tile::fragment::col_scanner::ColScanner;
pub use crate::tile::fragment::cols::Cols;
pub use crate::tile::fragment::held::{Held, Packed};
pub use crate::tile::fragment::parking::Parking;
pub use crate::tile::fragment::row_reducer::RowReducer;
pub use crate::tile::fragment::row_scanner::RowScanner;
pub use crate::tile::fragment::row_scratch::RowScratch;
pub use crate::tile::fragment::row_vector::{RowVector, for_each_row};
pub use crate::tile::fragment::scan::Scan;
pub use crate::tile::fragment::step_rows::StepRows;
pub use crate::tile::fragment::transposed::RowsOfWarps;
pub use crate::tile::fragment::{Fragment, Operand, Rows};
pub use crate::tile::memory::add_to::{AddTo, atomic_add};
pub use crate::tile::memory::copy_to::{CopyTo, copy};
pub use crate::tile::memory::gathered::{Gathered, Scattered};
pub use crate::tile::memory::global::{Global, GlobalMut};
pub use crate::tile::memory::global_tile::{GlobalTile, GlobalTileMut, Lines};
pub use crate::tile::memory::in_place::{InBlock, InPlace};
pub use crate::tile::memory::list::{List, ListAbi};
pub use crate::tile::memory::loader::Loader;
pub use crate::tile::memory::paged::{PageTable, PagedTile};
pub use crate::tile::memory::part::Part;
pub use crate::tile::memory::patches::{PatchOrder, PatchTile, Patches, PatchesAbi, Tap, Taps, Volumes};
pub use crate::tile::memory::picked::Picked;
pub use crate::tile::memory::prefetch::Mapped;
pub use crate::tile::memory::row_tiles::{RowOrder, RowTile};
pub use crate::tile::memory::rows_ahead::RowsAhead;
pub use crate::tile::memory::scratch::Scratch;
pub use crate::tile::memory::shared::{
    Dst, Fill, Full, Ring, Shared, SharedTile, Src, Stage, Stages, Transposed,
};
pub use crate::tile::memory::strips::{Strip, StripPixel};
pub use crate::tile::memory::unmapped::{Unmapped, UnmappedMut};
pub use crate::tile::mma::accumulates::Accumulates;
pub use crate::tile::mma::gemm::{Fresh, Gemm, GemmRegisters, MatA, MatB, MatD, OperandLayout, Over, gemm};
pub use crate::tile::mma::in_flight::{Accumulator, InFlight, Issued, Pending, Then};
pub use crate::tile::mma::tf32::Tf32;
pub use crate::tile::mma::threads::KMajor;
pub use crate::tile::mma::wgmma::SharedOperand;
pub use crate::tile::pipeline::configuration::{
    Configuration, Elected, FourConsumersJointProducers, OneConsumer, OneConsumerTwoProducers,
    OneConsumerTwoProducersTwoPerSm, PingPong, PingPongCluster, Producers, RegisterBudget, ThreeConsumers,
    ThreeConsumersThreeProducers, TwoConsumers, TwoConsumersCluster, TwoConsumersClusterOfFour,
    TwoConsumersJointProducers, TwoConsumersJointProducersCluster, TwoConsumersThreeProducers,
    TwoConsumersThreeProducersAdder, TwoConsumersTwoProducersAdder,
};
pub use crate::tile::pipeline::early::Early;
pub use crate::tile::pipeline::loads::{Ahead, Loads, Turn};
pub use crate::tile::pipeline::multistage::Multistage;
pub use crate::tile::pipeline::ring::Pipeline;
pub use crate::tile::pipeline::schedule::{Reads, Schedule};
pub use crate::tile::pipeline::turns::Turns;
pub use crate::tile::pipeline::warp_specialized::WarpSpecialized;
pub use crate::tile::quantized::bytes::{E4M3, E5M2, FP4, I8, NF4};
pub use crate::tile::quantized::format::{Decode, Format, Half, I1, I2, I4, U1, U2, U4};
pub use crate::tile::quantized::int8::Integers;
pub use crate::tile::quantized::weights::{PLAIN_SCALES, Quantized, Weights, WeightsAbi};
pub use crate::tile::quantized::widened::Codes;
pub use crate::tile::quantized::zeros::{NoZeros, Original, Rescaled, Zeros, ZerosFirst};
pub use crate::tile::roles::{Roles, TwoRoles};
pub use crate::tile::scheduler::groups::{GroupProducts, GroupTile, GroupTiles, Groups};
pub use crate::tile::scheduler::queue::{HandsOut, TileList, TileNumbers, TileQueue, TileSlots};
pub use crate::tile::scheduler::raster::{Raster, RasterOrder, TileIndex};
pub use crate::tile::scheduler::split_k::SplitK;
pub use crate::tile::scheduler::stream_k::{StreamK, StreamOrder, TilePart};
pub use crate::tile::softmax::chained::ChainedGemm;
pub use crate::tile::softmax::merge::PartsOfRows;
pub use crate::tile::softmax::online::OnlineSoftmax;
pub use crate::tile::softmax::split_parts::{PartOfTile, SplitParts};

pub use crate::arch::math;
pub use crate::arch::mma::{E4M3E5M2x2, E4M3x2, E5M2E4M3x2, E5M2x2, HalfTf32, I8x2};
pub use crate::arch::special::{block_x, block_x_volatile, block_y, block_z, grid_x, grid_y, grid_z};
pub use crate::kernel::Program;
pub use crate::layout::{
    ColMajor, CoreMatrices, Element, F8E4M3, FragmentLayout, FullCol, FullRow, Linear, Major, OneWarpgroup,
    Padded, PerWarpgroup, RowMajor, SharedLayout, Spread, Striped, Sum, Swizzle, Threads, Warpgroup, warp,
};
pub use half::{bf16, f16};
