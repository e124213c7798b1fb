//! An access to memory.

/// Synchronises: two such accesses do not race.
pub(crate) const STRONG: u8 = 1;
/// Through the async proxy.
pub(crate) const ASYNC: u8 = 2;
/// Initialises an mbarrier.
pub(super) const MBARRIER: u8 = 4;
/// Ends an mbarrier.
pub(super) const ENDS: u8 = 8;
/// Reads what nobody writes while the kernel runs: `ld.global.nc`.
pub(crate) const READ_ONLY: u8 = 16;
/// No access: the bytes are of no variable, but behind the one whose number stands for the instruction.
pub(super) const GAP: u8 = 32;
/// It is strong for the threads of its CTA alone, or of its cluster.
pub(crate) const OF_CTA: u8 = 64;
pub(crate) const OF_CLUSTER: u8 = 128;

/// The lane of what no single lane did.
pub(super) const NO_LANE: u8 = 254;
/// The lane of accesses of several lanes.
pub(super) const MANY_LANES: u8 = 255;

/// An access, and who made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// The agent's time, from 1; 0 where there was no access.
    pub(super) clock: u32,
    pub(super) cluster: u32,
    pub(super) pc: u32,
    pub(super) agent: u16,
    /// The lane that accessed the first byte.
    pub(super) lane: u8,
    pub(super) kind: u8,
    /// Logarithm of the bytes of each lane: those behind the first belong to the next lanes.
    pub(super) shift: u8,
    /// A write that gives what was there, and so knows of the writes before it.
    pub(super) gives: bool,
    /// Among the reads of a cell: a write that a later one stands for, and is not ordered after.
    pub(super) wrote: bool,
}

impl Access {
    pub(super) fn is_of(&self, other: &Access) -> bool {
        self.agent == other.agent && self.cluster == other.cluster
    }

    pub(super) fn same_time(&self, other: &Access) -> bool {
        self.is_of(other) && self.clock == other.clock
    }

    /// The part `bytes` behind the beginning.
    pub(super) fn behind(mut self, bytes: u32) -> Self {
        if self.lane < 32 {
            self.lane += (bytes >> self.shift) as u8;
        }
        self
    }

    /// That part, of a size whose logarithm is `size`.
    pub(super) fn part(self, bytes: u32, size: u8) -> Self {
        let part = self.behind(bytes);
        Self { shift: part.shift.min(size), ..part }
    }
}
