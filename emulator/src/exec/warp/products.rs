//! The products of a warpgroup that a warp has in flight.
//!
//! A product belongs to the group that the next `wgmma.commit_group` closes, and is in flight until a
//! `wgmma.wait_group` covers that group. Each warp counts for itself. PTX ISA, "wgmma.commit_group" and
//! "wgmma.wait_group".

/// The groups of a warp, numbered from 1.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// The last group that was committed: a product that is issued now is of the next one.
    pub(crate) committed: u64,
    /// The last group that was waited for: it and those before it are complete.
    pub(crate) waited: u64,
    /// `wgmma.fence`s so far.
    pub(crate) fences: u64,
}

impl Groups {
    pub(crate) fn commit(&mut self) {
        self.committed += 1;
    }

    /// Waits until at most the last `pending` groups are in flight.
    pub(crate) fn wait(&mut self, pending: u32) {
        self.waited = self.waited.max(self.committed.saturating_sub(pending.into()));
    }
}
