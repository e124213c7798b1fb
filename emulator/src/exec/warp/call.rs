//! Calls that have not returned.

use std::hash::{Hash, Hasher};

use crate::memory::budget::Held;
use crate::program::register::{L32, L64};

/// A call that some lanes have not returned from.
#[derive(Debug, Hash)]
pub(crate) struct Call {
    pub(crate) lanes: u32,
    /// The instruction.
    pub(crate) pc: u32,
    pub(crate) function: usize,
    /// The registers of the function when it was called while it ran already.
    pub(crate) saved: Option<Box<Saved>>,
    /// The end of the stack of each lane, where anything is taken from stacks.
    pub(crate) stack: Option<Box<L32>>,
}

/// Registers of each file.
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) p: Vec<u32>,
    pub(crate) r: Vec<L32>,
    pub(crate) d: Vec<L64>,
    /// Their memory.
    pub(crate) _held: Held,
}

impl Hash for Saved {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.p, &self.r, &self.d).hash(state);
    }
}
