//! A turn of every warp.

/// What happened while every warp had a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// Something that another warp may have waited for.
    pub(super) event: bool,
    /// An instruction.
    pub(super) retired: bool,
    /// Warps that tried and will try again.
    pub(super) polling: bool,
    /// Warps that used all of their turn.
    pub(super) busy: bool,
}

impl Round {
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            event: self.event | other.event,
            retired: self.retired | other.retired,
            polling: self.polling | other.polling,
            busy: self.busy | other.busy,
        }
    }
}
