//! Runs PTX on the CPU.
//!
//! The text of a PTX module is parsed and decoded once ([`Module::load`]); an instruction, modifier or operand that
//! this crate does not know is an error there that names it and its line. A kernel then runs on an [`Emulator`]:
//! 32 lanes of a warp in lock-step, diverging and reconverging, the warps of a cluster in a fixed order or a random one
//! ([`Schedule`]), clusters that cannot talk to each other in parallel over the cores.
//!
//! What is modelled, what is not, and how far results can be trusted is on a page of its own, `docs/emulator.md`.

mod arch;
mod check;
mod count;
mod decode;
mod emulator;
mod error;
mod exec;
mod flow;
mod kind;
mod launch;
mod limits;
mod memory;
mod order;
mod program;
mod progress;
mod tensor;
mod wide;

pub use arch::Arch;
pub use count::banks::SharedTraffic;
pub use count::executed::{Classes, Executed};
pub use count::traffic::GlobalTraffic;
pub use count::{Counters, GlobalCounters, SharedCounters, WaitCounters, Waits};
pub use emulator::{Emulator, Kernel, Module};
pub use error::{Fault, LoadError, MemoryError};
pub use exec::launch::SMS;
pub use exec::schedule::Schedule;
pub use kind::FaultKind;
pub use launch::Launch;
pub use limits::{Limits, LimitsError};
pub use order::preceding::Preceding;
pub use program::class::Class;
pub use progress::Progress;
pub use tensor::map::{DataType, Fill, Im2col, MapError, Swizzle, TensorMap};
pub use tilewright_ptx::source::SourceLine;
