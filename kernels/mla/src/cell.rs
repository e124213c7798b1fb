//! Numbers of one warp that are kept out of its registers.

use tilewright_device::arch::shared;
use tilewright_device::arch::special::thread_x;
use tilewright_device::tile::{Collective, Cta};

/// Two numbers that threads of the CTA's first warp keep in shared memory: what they do beside the others costs them no
/// registers. One of them at a time reads or writes, ordered by the warp's barriers.
#[derive(Clone, Copy)]
pub struct Cell {
    address: u32,
}

impl Cell {
    /// Two numbers of the CTA's first warp.
    #[inline(always)]
    pub fn new<P: Collective>(cta: &mut Cta<P>) -> Self {
        Cell { address: cta.reserve(8, 8) }
    }
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
