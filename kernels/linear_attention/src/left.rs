//! What a segment leaves of each channel of a state that comes from before it.

use tilewright_device::arch::shared;
use tilewright_device::arch::special::thread_x;
use tilewright_device::tile::{Collective, GlobalTileMut, RowMajor};

/// The product of the factors of a segment's chunks: of one channel for each thread, or of two.
pub struct Left<const DK: usize>([f32; 2]);

impl<const DK: usize> Left<DK> {
    /// All of it, before the first chunk.
    #[inline(always)]
    pub fn all() -> Self {
        Left([1.0; 2])
    }

    /// Calls `f` with this thread's channels and what is left of them.
    #[inline(always)]
    fn each<P: Collective>(&mut self, mut f: impl FnMut(u32, &mut f32)) {
        const { assert!(DK as u32 <= 2 * P::CONSUMERS, "a thread has two channels") };
        let mut i = 0;
        while i < 2 {
            let channel = thread_x() + i * P::CONSUMERS;
            if channel < DK as u32 {
                f(channel, &mut self.0[i as usize]);
            }
            i += 1;
        }
    }

    /// Takes a chunk's factors, which lie at `address` in shared memory.
    ///
    /// # Safety
    /// There are `DK` of f32.
    #[inline(always)]
    pub unsafe fn multiply<P: Collective>(&mut self, address: u32) {
        // SAFETY: the caller's.
        self.each::<P>(|channel, left| *left *= unsafe { shared::load_f32(address + channel * 4) });
    }

    /// Writes them to a line.
    #[inline(always)]
    pub fn store<P: Collective>(&mut self, to: &GlobalTileMut<f32, 3, RowMajor, 0>) {
        self.each::<P>(|channel, left| to.put::<1, DK>(0, channel, *left));
    }
}
