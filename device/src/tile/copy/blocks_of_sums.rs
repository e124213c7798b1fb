//! Sums of fragments in global memory, that TMA adds up in an order of their own.

use core::marker::PhantomData;

use crate::arch::special::{thread_x, thread_x_volatile};
use crate::arch::{global, shared, sync, tma};
use crate::kernel::Arch;
use crate::layout::{FragmentLayout, Registers};
use crate::tile::cta::Cta;
use crate::tile::cta::barriers::WARPGROUP;
use crate::tile::cta::collective::Collective;
use crate::tile::fragment::Fragment;

/// Room in shared memory through which fragments are added to blocks of `M` x `N` sums in global memory, by TMA, while the threads go on. On Hopper.
///
/// A block's sums lie as registers do, and not in rows: four of a thread's side by side, neighbouring threads of a warpgroup next to each other, so that a
/// warpgroup's are one piece of memory. [`Fragment::of_sums`] reads them.
///
/// Each sum is rounded after each addition, in an order that differs from launch to launch, as by [`atomic_add`](crate::tile::atomic_add).
pub struct BlockSums<P: Collective, const M: usize, const N: usize, L> {
    address: u32,
    kind: PhantomData<(P, L)>,
}

/// Elements from a block's begin to registers `i` to `i + 3` of a thread.
#[inline(always)]
fn place<L: FragmentLayout<M, N>, const M: usize, const N: usize>(thread: u32, i: usize) -> u32 {
    const {
        assert!(
            L::Regs::<f32>::LEN.is_multiple_of(4)
                && L::THREADS.is_multiple_of(128)
                && L::Regs::<f32>::LEN * L::THREADS as usize == M * N,
            "whole warpgroups hold the fragment, each element once, in fours"
        )
    }
    (thread / 128 * L::Regs::<f32>::LEN as u32 + i as u32) * 128 + thread % 128 * 4
}

impl<P: Collective, const M: usize, const N: usize, L: FragmentLayout<M, N>> BlockSums<P, M, N, L> {
    /// Begins to add a fragment to the block of sums at `at`. All threads that compute call it.
    ///
    /// # Safety
    /// `at` is a multiple of 16; `M N` elements are writable from there on until the kernel's end, and are used meanwhile in this way alone.
    #[inline(always)]
    pub unsafe fn add(&mut self, x: Fragment<f32, M, N, L>, at: *mut f32) {
        const { assert!(L::THREADS <= P::CONSUMERS, "the fragment lies over more threads than the schedule has") };
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        let (unit, first) = (thread_x() / 128, thread.is_multiple_of(128));
        // SAFETY: a warpgroup's part of the room is its own. It is written again when the addition that read it is done with it, behind a barrier of the
        // warpgroup; the fence makes what is written visible to TMA before the barrier behind which one thread adds it. The sums are the caller's.
        unsafe {
            if first {
                tma::bulk_wait_read::<0>();
            }
            sync::bar_sync(WARPGROUP.of(unit), 128);
            let mut i = 0;
            while i < L::Regs::<f32>::LEN {
                let four = core::array::from_fn(|e| x.regs.get(i + e));
                shared::store_f32x4(self.address + place::<L, M, N>(thread, i) * 4, four);
                i += 4;
            }
            sync::fence_proxy_async_shared();
            sync::bar_sync(WARPGROUP.of(unit), 128);
            if first {
                let part = place::<L, M, N>(thread, 0);
                let bytes = L::Regs::<f32>::LEN as u32 * 128 * 4;
                tma::bulk_add_f32(at.wrapping_add(part as usize), self.address + part * 4, bytes);
                tma::bulk_commit();
            }
        }
    }
}

impl<P: Collective, const M: usize, const N: usize, L> Drop for BlockSums<P, M, N, L> {
    #[inline(always)]
    fn drop(&mut self) {
        if thread_x() < P::CONSUMERS && thread_x().is_multiple_of(128) {
            // SAFETY: waits for this thread's own additions, which read the CTA's memory.
            unsafe { tma::bulk_wait::<0>() }
        }
    }
}

impl<P: Collective> Cta<P> {
    /// Room for adding fragments to blocks of sums.
    #[inline(always)]
    pub fn block_sums<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        &mut self,
    ) -> BlockSums<P, M, N, L> {
        const { assert!(matches!(P::ARCH, Arch::Sm90a), "TMA adds from Hopper on") };
        BlockSums { address: self.reserve((M * N * 4) as u32, 128), kind: PhantomData }
    }
}

impl<const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<f32, M, N, L> {
    /// The fragment of a block of sums, as [`BlockSums::add`] leaves them.
    ///
    /// # Safety
    /// `at` is a multiple of 16; `M N` elements are readable from there on.
    #[inline(always)]
    pub unsafe fn of_sums(at: *const f32) -> Self {
        let (mut all, thread) = (Self::zero(), thread_x_volatile());
        if thread >= L::THREADS {
            return all;
        }
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let four = at.wrapping_add(place::<L, M, N>(thread, i) as usize);
            // SAFETY: the caller's.
            let four = unsafe { global::ld_global_u32x4(four.cast()) };
            let mut e = 0;
            while e < 4 {
                all.regs.set(i + e, f32::from_bits(four[e]));
                e += 1;
            }
            i += 4;
        }
        all
    }
}
