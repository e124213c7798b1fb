//! What operations do with values that nobody wrote.

use super::op::Op;

/// What becomes of an operand without a value.
///
/// Compilers copy such values, choose between them and others, and compute with them ahead of a choice; that is no
/// fault as long as nothing depends on the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undefined {
    /// Something depends on it: an address, a value in memory.
    Used,
    /// The rows and columns of the result have no value that come of one without: those of a product.
    Multiplied,
    /// The result has no value in the lanes that take it from one without; the lanes that take part must be known.
    Exchanged,
    /// The result has no value either.
    PassedOn,
    /// The result has no value where the operation chooses this operand, or where no other decides it.
    Chosen,
    /// The result has a value when one of the parts has: the other half of a register may never be looked at.
    Joined,
}

impl Op {
    /// What the operation does with operands that have no value.
    pub(crate) fn undefined(&self) -> Undefined {
        match self {
            Op::Move32(..)
            | Op::Move64(..)
            | Op::MovePredicate(..)
            | Op::SetPredicate(..)
            | Op::F1_32(..)
            | Op::F1_64(..)
            | Op::F1_32to64(..)
            | Op::F1_64to32(..)
            | Op::F2_32(..)
            | Op::F2_64(..)
            | Op::F2Wide(..)
            | Op::Shift64(..)
            | Op::F3_32(..)
            | Op::F3_64(..)
            | Op::F3Wide(..)
            | Op::BitField64(..)
            | Op::Insert32(_)
            | Op::Lop3 { .. }
            | Op::Split64(..)
            | Op::Split32(..)
            | Op::Split16x4(..)
            | Op::Each(_)
            | Op::ToGeneric { .. }
            | Op::FromGeneric { .. } => Undefined::PassedOn,
            Op::Select32(..)
            | Op::Select64(..)
            | Op::Compare32(..)
            | Op::Compare64(..)
            | Op::Permute { .. }
            | Op::Predicates(..) => Undefined::Chosen,
            Op::Shuffle { .. }
            | Op::Vote { .. }
            | Op::Ballot { .. }
            | Op::Match { .. }
            | Op::Reduce { .. } => Undefined::Exchanged,
            Op::Mma(_) | Op::WarpProduct(_) => Undefined::Multiplied,
            Op::Join64(..) | Op::Join32(..) | Op::Join16x4(..) => Undefined::Joined,
            _ => Undefined::Used,
        }
    }
}
