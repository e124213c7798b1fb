//! Products of tiles on the tensor cores, `mma.sync` and `wgmma`, and by threads; results in flight.

pub mod accumulates;
pub mod gemm;
pub mod in_flight;
pub mod mma_sync;
pub mod one_warpgroup;
pub mod tf32;
pub mod threads;
pub mod wgmma;
