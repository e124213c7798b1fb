//! What an instruction comes to.

use super::warp::Warp;
use super::warp::group::Wait;
use crate::error::Reason;

/// Where the lanes go next.
pub(super) enum Next {
    Advance,
    /// The lanes that executed the instruction go there, the others on.
    Jump(u32),
    /// The lanes that executed the instruction go to [`Warp::targets`], the others on.
    Scatter,
    /// The lanes that executed the instruction end.
    Exit,
    /// These lanes, of those that are to execute the instruction, have; the others of them wait for more.
    Part(u32),
    /// All stay, and wait.
    Wait(Wait),
    /// All go on, after other warps.
    Yield,
}

/// The lanes that an instruction is for.
#[derive(Clone, Copy)]
pub(super) struct Active {
    /// Those at the instruction.
    pub(super) here: u32,
    /// Those of them that execute it.
    pub(super) mask: u32,
    pub(super) pc: u32,
}

impl Active {
    /// A wait unless all lanes of the warp, as far as they have not ended, are here.
    pub(super) fn together(self, warp: &Warp) -> Option<Next> {
        (self.here != warp.live()).then_some(Next::Wait(Wait::Lanes))
    }

    /// What to do instead of an instruction unless all lanes of the warp execute it: nothing, if its predicate holds for none.
    pub(super) fn whole(self, warp: &Warp) -> Result<Option<Next>, Reason> {
        match (self.together(warp), self.mask) {
            (Some(wait), _) => Ok(Some(wait)),
            (None, 0) => Ok(Some(Next::Advance)),
            (None, u32::MAX) => Ok(None),
            (None, some) => Err(Reason::misuse(format!(
                "the instruction needs all lanes of the warp, and {some:#010x} execute it"
            ))),
        }
    }
}
