//! Numbers of one warp that are kept out of its registers.

use crate::arch::shared;
use crate::arch::special::thread_x;
use crate::tile::cta::Cta;
use crate::tile::cta::collective::Collective;

/// Two numbers that threads of the CTA's first warp keep in shared memory: what they do beside the others costs them no
/// registers. One of them at a time reads or writes, ordered by the warp's barriers.
#[derive(Clone, Copy)]
pub struct Cell {
    address: u32,
}

impl<P: Collective> Cta<P> {
    /// Two numbers of the first warp.
    #[inline(always)]
    pub fn cell(&mut self) -> Cell {
        Cell { address: self.reserve(8, 8) }
    }
}

impl Cell {
    /// The numbers; zeros in other warps.
    #[inline(always)]
    pub fn get(&self) -> [u32; 2] {
        if thread_x() >= 32 {
            return [0; 2];
        }
        // SAFETY: of one thread at a time.
        unsafe { shared::load_u32x2(self.address) }
    }
    /// Replaces the numbers, in the first warp.
    #[inline(always)]
    pub fn set(&self, numbers: [u32; 2]) {
        if thread_x() < 32 {
            // SAFETY: of one thread at a time.
            unsafe { shared::store_u32x2(self.address, numbers) }
        }
    }
}
