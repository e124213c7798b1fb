//! What kind of fault a fault is, for programs that sort them.

use crate::error::Fault;

/// What kind of thing went wrong.
///
/// The text of a [`Fault`] says more; this is what programs tell faults apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// Accesses that nothing orders, or not for the proxy that they are by.
    Race,
    /// Nothing can change any more.
    Deadlock,
    /// An address at which there is no memory that the thread may access.
    Address,
    /// An address that is no multiple of what it must be.
    Misaligned,
    /// A value that nobody wrote has an influence.
    Uninitialized,
    /// The kernel stopped itself.
    Trap,
    /// A [limit](crate::Limits) was reached, or the launch was cancelled.
    Limit,
    /// The launch does not suit the kernel or the device.
    Launch,
    /// An instruction that may not be executed as it was: a barrier, a collective, a copy or a product used wrongly.
    Misuse,
}

impl FaultKind {
    /// Its name in a word.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Race => "race",
            FaultKind::Deadlock => "deadlock",
            FaultKind::Address => "address",
            FaultKind::Misaligned => "misaligned",
            FaultKind::Uninitialized => "uninitialized",
            FaultKind::Trap => "trap",
            FaultKind::Limit => "limit",
            FaultKind::Launch => "launch",
            FaultKind::Misuse => "misuse",
        }
    }
}

/// What the texts of each kind say, in the order in which they are looked for.
const SAID: [(FaultKind, &[&str]); 6] = [
    (
        FaultKind::Uninitialized,
        &[
            "nobody has written",
            "nobody had written",
            "nobody wrote all of them",
            "that did not take part when",
        ],
    ),
    (
        FaultKind::Race,
        &[
            "no fence.proxy.async stands between",
            "what must not change while the kernel runs",
            "may still read shared memory",
        ],
    ),
    (FaultKind::Misaligned, &[": misaligned", "must be a multiple of 8", "must be a multiple of 64"]),
    (FaultKind::Limit, &["`Limits::", "the launch was cancelled", "out of memory"]),
    (
        FaultKind::Address,
        &[
            "out of bounds",
            "freed memory",
            "not allocated",
            "the local memory of another thread",
            "bytes of local memory at",
            "bytes of the parameters at",
            "a store to the parameters",
            "constant memory, which kernels cannot write",
            "whose shared memory that is has",
            "is no address in shared memory",
            "where no function begins",
        ],
    ),
    (FaultKind::Trap, &["trap: "]),
];

impl Fault {
    /// What kind of thing went wrong.
    pub fn kind(&self) -> FaultKind {
        // Those whose text goes on with instructions of the kernel come first.
        if self.what.starts_with("race: ") {
            return FaultKind::Race;
        }
        if self.what.starts_with("deadlock") {
            return FaultKind::Deadlock;
        }
        let said = SAID.iter().find(|(_, texts)| texts.iter().any(|text| self.what.contains(text)));
        match said {
            Some((kind, _)) => *kind,
            None if self.cta.is_none() => FaultKind::Launch,
            None => FaultKind::Misuse,
        }
    }
}
