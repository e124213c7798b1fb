//! Who makes an access, and when.

/// Who makes an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The warp, for no lane alone.
    Warp,
    /// Lanes from this one on, each so many bytes (as a logarithm).
    Lanes(u8, u8),
    /// `cp.async` of these lanes.
    Copies(u32),
    /// A bulk group of these lanes: what it reads, and what it writes.
    BulkReads(u32),
    BulkWrites(u32),
    /// A copy that completes the phase of an mbarrier.
    Phase(Phase),
}

/// The current phase of an mbarrier, as the copies that complete on it know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) agent: u16,
    pub(crate) number: u32,
}

/// What a warp of the cluster did, by its agent and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(super) agent: u16,
    pub(super) time: u32,
}
