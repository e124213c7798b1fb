//! Warps without roles or rings: for kernels that no tensor core works for.

use crate::arch::special::thread_x;
use crate::arch::sync;
use crate::kernel::{Arch, Program};

/// `W` warps that all do the same. On Hopper, if it is compiled for that, it may overlap the kernel in front.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simt<const W: usize, const HOPPER: bool = false>;

impl<const W: usize, const HOPPER: bool> Program for Simt<W, HOPPER> {
    const ARCH: Arch = if HOPPER { Arch::Sm90a } else { Arch::Sm80 };
    const THREADS: u32 = 32 * W as u32;

    #[inline(always)]
    unsafe fn run(body: impl FnOnce()) {
        // SAFETY: the kernel was launched with THREADS threads; the kernels behind it wait for its end.
        unsafe {
            core::hint::assert_unchecked(thread_x() < Self::THREADS);
            if HOPPER {
                sync::griddep_launch_dependents();
                sync::griddep_wait();
            }
        }
        body()
    }
}
