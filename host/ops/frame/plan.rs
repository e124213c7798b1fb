//! The kernel that computes a call, and why it was chosen.

use std::fmt;

use super::{Candidate, Descriptor, Estimate};

/// The kernel that computes a call, and why it was chosen.
#[derive(Debug)]
pub struct Plan<K: Descriptor> {
    pub(super) candidate: Candidate<K>,
    pub(in crate::ops) estimate: K::Estimate,
    pub(super) forced: bool,
}

impl<K: Descriptor> Clone for Plan<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Descriptor> Copy for Plan<K> {}

impl<K: Descriptor> Plan<K> {
    /// The kernel.
    pub fn kernel(&self) -> &Candidate<K> {
        &self.candidate
    }
    /// Why it was chosen.
    pub fn reason(&self) -> &'static str {
        if self.forced { "asked for by name" } else { K::Estimate::REASON }
    }

    /// What was estimated of it for this call.
    pub fn estimate(&self) -> K::Estimate {
        self.estimate
    }

    /// What is known of the kernel.
    pub fn descriptor(&self) -> &'static K {
        self.candidate.kernel
    }
}

impl<K: Descriptor> fmt::Display for Plan<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; ", self.candidate)?;
        self.candidate.kernel.describe(f)?;
        write!(f, ": {}", self.reason())
    }
}

/// A plan that runs explains itself as its field `choice` does, the [`Plan`] of these kernels, and derefs to it.
macro_rules! explained {
    ($plan:ty, $kernel:ty) => {
        impl std::ops::Deref for $plan {
            type Target = $crate::ops::Plan<$kernel>;
            fn deref(&self) -> &Self::Target {
                &self.choice
            }
        }

        impl std::fmt::Display for $plan {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.choice.fmt(f)
            }
        }
    };
}
pub(in crate::ops) use explained;
