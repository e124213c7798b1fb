//! Which instructions threads of different clusters can talk by.
//!
//! Strong operations (PTX ISA, "Memory Consistency Model: Strong Operations") and reductions, on global memory or, as far as the
//! instruction says, on any. Where all of an instruction's addresses turn out to be in shared memory, the clusters only run
//! one after the other without need. Ordinary loads and stores pass nothing on between running threads.

use crate::program::op::Op;
use crate::program::operand::{Callee, Destination, Window};
use tilewright_ptx::ast::Space;

/// Whether the instruction looks at memory that others may be about to write.
pub(super) fn polls(op: &Op, opcode: &str) -> bool {
    match op {
        Op::Load { window, .. } => !is_private(*window) && is_strong(opcode),
        Op::Atomic { d, .. } => !matches!(d, Destination::Sink),
        Op::Atomic128 { .. } => true,
        _ => false,
    }
}

/// Whether the instruction makes clusters depend on each other.
pub(super) fn between_clusters(op: &Op, opcode: &str) -> bool {
    match op {
        Op::Load { window, .. } | Op::Store { window, .. } => reaches_global(*window) && is_strong(opcode),
        Op::Atomic { window, .. } | Op::Atomic128 { window, .. } => reaches_global(*window),
        Op::BulkReduce { .. } => true,
        // What is free for one is not for the others.
        Op::Call(op) => matches!(op.callee, Callee::Allocate | Callee::Free),
        _ => false,
    }
}

fn is_private(window: Window) -> bool {
    matches!(window, Window::In(Space::Param | Space::Local | Space::Const))
}

fn reaches_global(window: Window) -> bool {
    matches!(window, Window::Generic | Window::In(Space::Global))
}

/// Whether a load or store is strong. `.cg`, `.cv` and `.wt` are for memory that others write meanwhile, too.
fn is_strong(opcode: &str) -> bool {
    const STRONG: [&str; 8] = ["volatile", "relaxed", "acquire", "release", "mmio", "cg", "cv", "wt"];
    opcode.split('.').any(|modifier| STRONG.contains(&modifier))
}
