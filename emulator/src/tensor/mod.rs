//! What the tensor cores, the TMA unit and the approximate arithmetic compute: functions of their operands.
//!
//! Nothing here knows of threads, clocks or queues. A register of a warp is `[u32; 32]`, by lane; memory is whatever
//! implements [`Memory`](memory::Memory). When an asynchronous instruction takes effect is the executor's choice.

pub(crate) mod approx;
pub(crate) mod arith16;
pub(crate) mod element;
pub(crate) mod float;
pub(crate) mod fragment;
pub(crate) mod map;
pub(crate) mod matrix;
pub(crate) mod memory;
pub(crate) mod mma;
pub(crate) mod product;
pub(crate) mod reduce;
pub(crate) mod sparse;
pub(crate) mod tma;
pub(crate) mod warp_product;
pub(crate) mod wgmma;

/// A register of a warp, by lane.
pub(crate) type Register = [u32; 32];
