//! Warps without roles or rings: for kernels that no tensor core works for.

use crate::arch::special::thread_x;
use crate::arch::sync;
use crate::kernel::{Arch, Program};
use crate::tile::cta::collective::Collective;

/// `W` warps that all do the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simt<const W: usize>;

impl<const W: usize> Program for Simt<W> {
    const ARCH: Arch = Arch::Sm80;
    const THREADS: u32 = 32 * W as u32;

    #[inline(always)]
    unsafe fn run(body: impl FnOnce()) {
        // SAFETY: the kernel was launched with THREADS threads.
        unsafe { core::hint::assert_unchecked(thread_x() < Self::THREADS) };
        body()
    }
}

impl<const W: usize> Collective for Simt<W> {
    const CONSUMERS: u32 = Self::THREADS;
    const WARPGROUPS: u32 = 1;
}

/// A program whose body says when it needs what the preceding grid has written.
pub trait Overlaps: Program {
    /// Shared memory of a small kernel that overlaps the end of a large grid, as `shared = P::SPREAD`.
    ///
    /// Its CTAs come while the preceding grid still runs, and up to 32 of them would crowd on each of the few SMs that have room. With
    /// this an SM holds 4 at most, and the rest go where CTAs of the preceding grid end.
    const SPREAD: u32;

    /// Waits for the end of the preceding grids: before the first access to what they write.
    fn wait_for_preceding_grid();
}

/// As on every architecture: the kernel begins behind the end of the preceding grid.
impl<const W: usize> Overlaps for Simt<W> {
    /// None: nothing overlaps.
    const SPREAD: u32 = 0;

    #[inline(always)]
    fn wait_for_preceding_grid() {}
}

/// Hopper: `W` warps that all do the same, whose addresses can be ready when the preceding grid ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overlapped<const W: usize>;

impl<const W: usize> Program for Overlapped<W> {
    const ARCH: Arch = Arch::Sm90a;
    const THREADS: u32 = 32 * W as u32;

    #[inline(always)]
    unsafe fn run(body: impl FnOnce()) {
        // SAFETY: the kernel was launched with THREADS threads; the kernels behind it wait for its end.
        unsafe {
            core::hint::assert_unchecked(thread_x() < Self::THREADS);
            sync::griddep_launch_dependents();
        }
        body()
    }
}

impl<const W: usize> Overlaps for Overlapped<W> {
    const SPREAD: u32 = 48 << 10;

    #[inline(always)]
    fn wait_for_preceding_grid() {
        // SAFETY: no operands.
        unsafe { sync::griddep_wait() }
    }
}

impl<const W: usize> Collective for Overlapped<W> {
    const CONSUMERS: u32 = Self::THREADS;
    const WARPGROUPS: u32 = 1;
}
