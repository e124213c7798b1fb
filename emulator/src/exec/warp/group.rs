//! Lanes of a warp that are at the same instruction, and what they wait for.

/// Why some lanes do not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wait {
    No,
    /// For the other lanes that the instruction is for.
    Lanes,
    /// For a named barrier of so many threads (`None`: all), that had completed so many times.
    Barrier {
        id: u32,
        threads: Option<u32>,
        reduces: bool,
        generation: u64,
    },
    /// For the cluster's barrier.
    Cluster {
        generation: u64,
    },
    /// For an mbarrier: the instruction is tried again.
    Mbarrier,
    /// For the other warps of the warpgroup.
    Warpgroup,
    /// For others to show why it is wrong.
    Accused,
    /// For so many more registers a thread in the CTA's pool: the instruction is tried again.
    Registers {
        needed: u32,
    },
}

/// Lanes that are at the same instruction.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Group {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) wait: Wait,
}
