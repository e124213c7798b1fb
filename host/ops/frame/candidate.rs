//! A kernel that could do what is asked for, or why it could not.

use std::cmp::Reverse;
use std::fmt;

use super::{Descriptor, Estimate as _, Rejection};
use crate::KernelEntry;

/// A kernel that could compute a call, or why it could not.
#[derive(Debug)]
pub struct Candidate<K: Descriptor> {
    pub(in crate::ops) kernel: &'static K,
    pub(in crate::ops) outcome: Result<K::Estimate, Rejection>,
}

impl<K: Descriptor> Clone for Candidate<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Descriptor> Copy for Candidate<K> {}

impl<K: Descriptor> Candidate<K> {
    /// The kernel's name, by which an operator's `kernel` forces it.
    pub fn name(&self) -> &'static str {
        self.kernel.name()
    }
    /// The compiled kernel; `None` where the build leaves it out.
    pub fn entry(&self) -> Option<&'static KernelEntry> {
        self.kernel.entry()
    }
    /// Estimated time in cycles of an SM; `None` when the kernel cannot compute this call, and where kernels are not chosen by time.
    pub fn cycles(&self) -> Option<u64> {
        self.outcome.ok().and_then(|estimate| estimate.cycles())
    }
    /// Why the kernel cannot compute this call.
    pub fn rejection(&self) -> Option<String> {
        self.outcome.err().map(|rejection| rejection.to_string())
    }

    /// The order of preference: by time, then the largest first; those that cannot compute the call last.
    pub(super) fn rank(&self) -> (bool, Option<u64>, Reverse<[u32; 3]>) {
        (self.outcome.is_err(), self.cycles(), Reverse(self.kernel.size()))
    }
}

impl<K: Descriptor> fmt::Display for Candidate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Err(reason) => write!(f, "{}: not possible, {reason}", self.name()),
            Ok(estimate) => write!(f, "{}: {estimate}", self.name()),
        }
    }
}
