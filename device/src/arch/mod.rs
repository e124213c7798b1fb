//! One thin function per PTX instruction: the only place with inline assembly.
//!
//! A file a family. Each function names the section of the PTX ISA that defines its instruction
//! and the lowest target that has it; nothing here knows of tiles or layouts. An address in shared
//! memory is the `u32` offset in its state space, a pointer to global memory is a raw pointer.
//!
//! Functions of registers alone are safe. What touches memory, or what the threads of a warp, CTA
//! or cluster must execute together, is `unsafe`, and its documentation says what must hold.
//!
//! rustc does not tell LLVM that an `asm!` must be executed by a warp's lanes together, so LLVM may
//! copy a small block with a barrier or a shuffle into both sides of a divergent branch before it.
//! The builder therefore compiles with `-C llvm-args=-simplifycfg-max-small-block-size=0`, which
//! turns off the one pass that does this for this target.
//!
//! The instructions of a newer target may be compiled into a crate for an older one as long as no
//! kernel reaches them: a function that no kernel calls leaves no PTX.
#![cfg_attr(
    not(target_arch = "nvptx64"),
    allow(
        unused_variables,
        unused_mut,
        unused_assignments,
        unreachable_code,
        reason = "on the host `ptx!` drops its operands and diverges"
    )
)]

/// `asm!` of PTX, with `options(nostack)` added.
///
/// Without further options LLVM takes it to read and write memory, and neither moves it across
/// another one nor removes it. `options(pure, nomem)` is for functions of registers alone, and
/// `options(nomem)` for those of them that the lanes of a warp must execute together.
#[cfg(target_arch = "nvptx64")]
macro_rules! ptx {
    ($($asm:tt)*) => { ::core::arch::asm!($($asm)*, options(nostack)) };
}

/// On the host: diverges, so that the operands need no value.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! ptx {
    ($($asm:tt)*) => {
        $crate::arch::on_host()
    };
}

/// What PTX instructions do on the host, where this crate is compiled for its types alone.
///
/// # Safety
/// None to keep; it is `unsafe` because what it stands for is.
#[cfg(not(target_arch = "nvptx64"))]
#[cold]
#[track_caller]
unsafe fn on_host() -> ! {
    panic!("device code called on the host")
}

pub mod atomic;
pub mod cp_async;
pub mod cvt;
pub mod declare;
pub mod global;
pub mod half;
pub mod ldmatrix;
pub mod math;
pub mod mbarrier;
pub mod mma;
pub mod print;
pub mod shared;
pub mod special;
pub mod stmatrix;
pub mod sync;
pub mod tma;
pub mod warp;
pub mod wgmma;
