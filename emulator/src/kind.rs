//! What kind of fault a fault is, for programs that sort them.

/// What kind of thing went wrong.
///
/// The text of a [`Fault`](crate::Fault) says more; this is what programs tell faults apart by.
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
