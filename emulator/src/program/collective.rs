//! Instructions that lanes execute together which a mask names.

use super::op::Op;
use super::register::R;

impl Op {
    /// The register with the lanes that execute it together.
    pub(crate) fn members(&self) -> Option<R> {
        match *self {
            Op::Shuffle { members, .. }
            | Op::Vote { members, .. }
            | Op::Ballot { members, .. }
            | Op::Match { members, .. }
            | Op::Reduce { members, .. }
            | Op::Elect { members, .. }
            | Op::SyncWarp { members } => Some(members),
            _ => None,
        }
    }

    /// Whether lanes at the one instruction and lanes at the other execute it together: they have the same qualifiers.
    pub(crate) fn meets(&self, other: &Op) -> bool {
        match (self, other) {
            (Op::Shuffle { kind: a, .. }, Op::Shuffle { kind: b, .. }) => a == b,
            (Op::Vote { kind: a, .. }, Op::Vote { kind: b, .. }) => a == b,
            (Op::Match { all: a, a: x, .. }, Op::Match { all: b, a: y, .. }) => {
                a == b && std::mem::discriminant(x) == std::mem::discriminant(y)
            }
            (Op::Reduce { op: a, .. }, Op::Reduce { op: b, .. }) => a == b,
            (Op::Ballot { .. }, Op::Ballot { .. })
            | (Op::Elect { .. }, Op::Elect { .. })
            | (Op::SyncWarp { .. }, Op::SyncWarp { .. }) => true,
            _ => false,
        }
    }
}
