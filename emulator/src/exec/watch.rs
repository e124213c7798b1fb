//! Instructions that touch watched registers.

use super::warp::Warp;
use super::{flight, undefined};
use crate::program::Program;

/// What is known of a watched register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    pub(super) value: undefined::State,
    pub(super) products: flight::State,
}

impl Watched {
    /// All of them at the start of a thread.
    pub(super) fn all(program: &Program) -> Vec<Watched> {
        let new = |&doubtful: &bool| Watched {
            value: undefined::State::new(doubtful),
            products: flight::State::UNTOUCHED,
        };
        program.watched.doubtful().iter().map(new).collect()
    }
}

/// Checks the instruction at `pc`, which the lanes of `mask` are about to execute, of those that are `here`.
#[inline(never)]
pub(super) fn check(warp: &mut Warp, program: &Program, pc: u32, here: u32, mask: u32) -> Result<(), String> {
    undefined::check(warp, program, pc, here, mask)?;
    if mask != 0 {
        flight::check(warp, program, pc)?;
    }
    Ok(())
}
