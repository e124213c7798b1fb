//! A tile in shared memory of which each warp copies, and reads, the depth that it multiplies.

use core::marker::PhantomData;

use tilewright_device::arch::special::{same_number, thread_x, thread_x_volatile};
use tilewright_device::arch::warp::uniform;
use tilewright_device::arch::{cp_async, sync};
use tilewright_device::kernel::Arch;
use tilewright_device::tile::{
    Collective, Cta, Element, GlobalTile, RowMajor, Shared, SharedLayout, SharedTile, Src, Swizzle,
    TILE_ALIGN,
};

use super::chunks::CHUNK;

/// `R` rows and a panel of `K` of their depth. The warps have 128 of the depth each, in turn.
pub struct WarpDepths<P, T, const R: usize, const K: usize> {
    base: u32,
    kind: PhantomData<(P, T)>,
}

impl<P: Collective, T: Element, const R: usize, const K: usize> WarpDepths<P, T, R, K> {
    /// A tile whose depth the warps share. All threads of the CTA meet; on Hopper the next kernel may then start.
    #[inline(always)]
    pub fn open(cta: &mut Cta<P>) -> Self {
        let base = cta.reserve(Shared::<T, R, K, Swizzle<128>>::bytes(), TILE_ALIGN);
        // SAFETY: all threads execute it.
        unsafe {
            sync::syncthreads();
            if matches!(P::ARCH, Arch::Sm90a) {
                sync::griddep_launch_dependents();
            }
        }
        WarpDepths { base, kind: PhantomData }
    }

    /// Copies this warp's part of a panel, and waits for it: `from(chunk)` is the tile of `R` rows and 128 of depth of that number.
    /// Zeros outside of the tensor, whose lines are multiples of 16 bytes.
    ///
    /// On Hopper it waits first for the kernels that this one was launched to overlap (programmatic dependent launch).
    #[inline(always)]
    pub fn load<const BOX: usize>(
        &mut self,
        panel: u32,
        from: impl Fn(u32) -> GlobalTile<T, 2, RowMajor, BOX>,
    ) {
        const {
            assert!(
                T::BYTES == 2 && R.is_multiple_of(2),
                "a warp copies two rows of 16-bit elements at a time"
            )
        };
        let lane = thread_x_volatile() % 32;
        // Not unrolled: the copies' addresses are not all in registers at a time.
        let (mut at, end) = (uniform(thread_x() / 32), same_number(K as u32 / CHUNK));
        // SAFETY: this warp alone reads what it copies, before it copies again.
        unsafe {
            if matches!(P::ARCH, Arch::Sm90a) {
                sync::griddep_wait();
            }
            sync::sync_warp();
            while at < end {
                let lines = from(panel * (K as u32 / CHUNK) + at).lines(R, CHUNK as usize);
                let (mut row, byte) = (lane / 16, lane % 16 * 16);
                while row < R as u32 {
                    let to = self.base
                        + Swizzle::<128>::offset(R as u32, 2 * K as u32, row, at * 2 * CHUNK + byte);
                    let source =
                        lines.pointer.wrapping_add((row as u64 * lines.stride) as usize + byte as usize);
                    cp_async::copy16_if(to, source, row < lines.inside && byte < lines.bytes);
                    row += 2;
                }
                at += P::CONSUMERS / 32;
            }
            cp_async::wait_all();
            sync::sync_warp();
        }
    }

    /// The tile, of which a warp reads its own parts alone.
    #[inline(always)]
    pub fn full(&self) -> Src<'_, Shared<T, R, K, Swizzle<128>>> {
        // SAFETY: the tile is this one's; a warp writes what it alone reads, while nobody borrows the tile.
        unsafe { Src::from_address(self.base) }
    }
}
