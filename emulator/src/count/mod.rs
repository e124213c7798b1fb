//! What a launch did: instructions by class, and what they asked of the machine.

mod class;

pub use class::{Class, Classes, Executed};

use std::ops::AddAssign;

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Instructions, each counted once for a warp.
    pub instructions: u64,
    /// Instructions, each counted once for every lane that executed it.
    pub lane_instructions: u64,
    /// The same by class.
    pub classes: Classes,
    /// Multiplications and additions of tensor cores.
    pub tensor_operations: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.lane_instructions += other.lane_instructions;
        self.classes += other.classes;
        self.tensor_operations += other.tensor_operations;
    }
}
