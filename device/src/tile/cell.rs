//! Numbers of one thread that are kept out of its registers.

use super::{Cta, Schedule};
use crate::arch::shared;
use crate::arch::special::thread_x;

/// Two numbers that the CTA's first thread keeps in shared memory: what it does beside the others costs them no registers.
#[derive(Clone, Copy)]
pub struct Cell {
    address: u32,
}

impl<P: Schedule> Cta<P> {
    /// Two numbers of the first thread.
    #[inline(always)]
    pub fn cell(&mut self) -> Cell {
        Cell { address: self.take(8, 8) }
    }
}

impl Cell {
    /// The numbers; zeros in other threads.
    #[inline(always)]
    pub fn get(&self) -> [u32; 2] {
        if thread_x() > 0 {
            return [0; 2];
        }
        // SAFETY: of this thread alone.
        unsafe { shared::load_u32x2(self.address) }
    }
    /// Replaces the numbers, in the first thread.
    #[inline(always)]
    pub fn set(&self, numbers: [u32; 2]) {
        if thread_x() == 0 {
            // SAFETY: of this thread alone.
            unsafe { shared::store_u32x2(self.address, numbers) }
        }
    }
}
