//! The seam between communicators and what moves their data.

use std::fmt;

use crate::{DType, Result, Stream};

/// What ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Everyone gets the sums.
    AllReduce,
    /// Everyone gets a part of the sums.
    ReduceScatter,
    /// Everyone gets all parts.
    AllGather,
}

/// A collective: all ranks call the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Collective {
    pub(super) kind: Kind,
    pub(super) dtype: DType,
    /// Elements of a rank's part: of all, in an all-reduce.
    pub(super) count: usize,
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Collective { kind, dtype, count } = self;
        let name = match kind {
            Kind::AllReduce => "all_reduce",
            Kind::ReduceScatter => "reduce_scatter",
            Kind::AllGather => "all_gather",
        };
        write!(f, "{name} of {count} {dtype} a rank")
    }
}

/// How much of the device a collective may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// As much as makes it fastest.
    Alone,
    /// Few SMs, since a product runs beside it.
    Beside,
}

/// A rank's end of what moves data between ranks.
pub(super) trait Transport: fmt::Debug + Send + Sync {
    /// Queues a collective on `stream`.
    ///
    /// # Safety
    /// `from` is valid for reads and `to` for writes of what `what` says, on this rank's device, until the work is done; they are the same or
    /// apart. All ranks call the same collectives in the same order.
    unsafe fn queue(&self, what: Collective, share: Share, from: u64, to: u64, stream: &Stream)
    -> Result<()>;

    /// A call failed: ends other ranks' calls that wait for it.
    fn abort(&self) {}
}
