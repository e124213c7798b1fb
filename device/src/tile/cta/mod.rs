//! A CTA as its kernel sees it: what it allocates.

use core::marker::PhantomData;

use crate::arch::declare::takes_shared;
use crate::arch::shared::dynamic_shared;
use crate::arch::special::{dynamic_shared_bytes, thread_x, trap};
use crate::arch::sync;
use crate::kernel::Arch;
use crate::tile::cta::collective::{Collective, meet};

pub mod barriers;
pub mod collective;
pub(in crate::tile) mod registers;
pub mod simt;

/// Alignment of every tile: the swizzle's pattern repeats over 1024 bytes.
pub const TILE_ALIGN: u32 = 1024;

/// A CTA that runs a kernel's body on schedule `P`, and hands out its shared memory.
///
/// A kernel takes it as a parameter, `mut cta: Cta<P>` where its `program` is `P`. The host does not pass it.
///
/// Shared memory is handed out front to back in the order of the calls, and the kernel is launched with as much as it takes: the
/// builder finds the sum in the compiled kernel. Where it is not known then, because a number of the launch decides it, say the most
/// by `shared = …` of `#[kernel]`; a kernel that takes more traps at its start.
pub struct Cta<P> {
    base: u32,
    used: u32,
    pub(in crate::tile) pipelines: u32,
    schedule: PhantomData<P>,
}

impl<P: Collective> Cta<P> {
    /// The CTA that runs this body: what `#[kernel]` passes to a parameter of type `Cta`.
    ///
    /// # Safety
    /// Called once by every thread, in a body that [`Program::run`](crate::kernel::Program::run) of `P` runs: whoever has a `Cta`
    /// hands out all of the CTA's shared memory and barriers.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn enter() -> Self {
        Cta { base: dynamic_shared(), used: 0, pipelines: 0, schedule: PhantomData }
    }

    /// The address of so many bytes of shared memory, aligned to a power of two up to 1024, that nobody else is given: for what a
    /// kernel keeps there by itself. Every thread calls it alike.
    #[inline(always)]
    pub fn reserve(&mut self, bytes: u32, align: u32) -> u32 {
        let begin = self.used.next_multiple_of(align);
        self.used = begin + bytes;
        if bytes > 0 {
            takes_shared(self.used);
        }
        if self.used > dynamic_shared_bytes() {
            trap();
        }
        self.base + begin
    }

    /// Waits until all threads that compute have come here. What each of them wrote to memory before, all of them read behind it.
    ///
    /// All of them come: it stands in no branch that some threads take and others do not. If one stays away, the others wait for
    /// ever, which the emulator reports. Threads that only load pass it by. [`copy`](crate::tile::copy) to and from tiles of shared memory
    /// needs none: it waits by itself.
    #[inline(always)]
    pub fn barrier(&self) {
        if self.computes() {
            // SAFETY: whole warps come here, as many threads as compute; no other barrier of this number is under way, since all come in the
            // same order to all of them.
            unsafe { meet::<P>() }
        }
    }

    /// Whether this thread computes, and does not only load.
    #[inline(always)]
    pub fn computes(&self) -> bool {
        thread_x() < P::CONSUMERS
    }

    /// Waits for the preceding grid, where this one may start before its end (programmatic dependent launch): for kernels that read what it writes before they
    /// load. Pipelines wait by themselves, in all threads but [joint](crate::tile::Producers::Joint) producers.
    #[inline(always)]
    pub fn wait_for_preceding_grid(&self) {
        if matches!(P::ARCH, Arch::Sm90a) {
            // SAFETY: any thread may wait for it, as often as it likes.
            unsafe { sync::griddep_wait() }
        }
    }
}
