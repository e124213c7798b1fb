//! Instructions that touch watched registers.

mod fragments;
pub(super) mod order;
mod products;
pub(super) mod undefined;

use crate::error::Reason;
use crate::exec::warp::Warp;
use crate::program::Program;

/// Checks the instruction at `pc`, which the lanes of `mask` are about to execute, of those that are `here`.
#[inline(never)]
pub(super) fn check(warp: &mut Warp, program: &Program, pc: u32, here: u32, mask: u32) -> Result<(), Reason> {
    if program.code[pc as usize].doubtful || warp.watches_all() {
        undefined::check(warp, program, pc, here, mask)?;
    }
    if mask != 0 {
        products::check(warp, program, pc)?;
    }
    Ok(())
}
