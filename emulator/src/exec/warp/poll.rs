//! A warp's last look at memory.

/// The last look of a warp at memory that others write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Poll {
    /// The instruction.
    pub(crate) pc: u32,
    /// What the cluster had done until then.
    pub(crate) events: u64,
    /// Where it looked and what it saw.
    pub(crate) found: u64,
}

impl Poll {
    /// An attempt of the instruction that failed.
    pub(crate) fn failed(pc: u32, events: u64) -> Self {
        Self { pc, events, found: 0 }
    }
}
