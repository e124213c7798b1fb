//! Where the variables in shared memory lie.
//!
//! There is room between them, so that who runs from one into the next is seen. It is of as many bytes as all banks have:
//! a variable begins at the bank that it would begin at without.

use std::ops::Range;

/// Bytes between two variables at least.
pub(crate) const GAP: u32 = 128;

/// The variables of a kernel in shared memory.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Bytes that the static ones take on a GPU.
    pub(crate) bytes: u32,
    /// Bytes that they take here; the dynamic ones follow.
    pub(crate) span: u32,
    /// The static ones, one after the other.
    pub(crate) variables: Vec<Variable>,
}

/// A variable in shared memory.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) place: Range<u32>,
}

impl Shared {
    /// The bytes that are of no variable, and the number of the one before.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (usize, Range<u32>)> {
        let next = self.variables.iter().skip(1).map(|variable| variable.place.start).chain([self.span]);
        let ends = self.variables.iter().map(|variable| variable.place.end);
        ends.zip(next).enumerate().map(|(i, (end, next))| (i, end..next))
    }
}
