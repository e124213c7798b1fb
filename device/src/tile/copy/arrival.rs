//! What copies by TMA complete on.

/// What a copy by TMA fills and completes on.
#[derive(Clone, Copy)]
pub struct Arrival {
    pub(in crate::tile) barrier: u32,
    pub(in crate::tile) part: u32,
    pub(in crate::tile) parts: u32,
}

impl Arrival {
    /// A stage that is filled whole, and completes on the barrier at this address.
    #[inline(always)]
    pub fn new(barrier: u32) -> Self {
        Arrival { barrier, part: 0, parts: 1 }
    }
    /// The barrier's address, which is told how many bytes to expect.
    #[inline(always)]
    pub fn barrier(&self) -> u32 {
        self.barrier
    }
}
