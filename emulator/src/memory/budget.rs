//! How much memory there is to give.

use crate::error::Reason;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The memory of an emulator: so many bytes, of which some are held.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: AtomicU64,
    held: AtomicU64,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit: limit.into(), held: 0.into() })
    }

    pub(crate) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Relaxed);
    }

    /// Bytes that nobody holds.
    pub(crate) fn free(&self) -> u64 {
        self.limit.load(Relaxed).saturating_sub(self.held.load(Relaxed))
    }

    /// Holds so many bytes, for this.
    pub(crate) fn hold(self: &Arc<Self>, bytes: u64, what: &str) -> Result<Held, Reason> {
        let mut held = Held { budget: Arc::clone(self), bytes: 0 };
        held.resize(bytes, what)?;
        Ok(held)
    }
}

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Held {
    /// Holds so many bytes in all, for this. What was held is kept if they are not there.
    pub(crate) fn resize(&mut self, bytes: u64, what: &str) -> Result<(), Reason> {
        let Budget { limit, held } = &*self.budget;
        let limit = limit.load(Relaxed);
        let change = |held: u64| {
            let others = held.saturating_sub(self.bytes);
            others.checked_add(bytes).filter(|&all| all <= limit || bytes <= self.bytes)
        };
        match held.fetch_update(Relaxed, Relaxed, change) {
            Ok(_) => {
                self.bytes = bytes;
                Ok(())
            }
            Err(held) => Err(Reason::limit(format!(
                "out of memory: {what} takes {bytes} bytes, and others hold {} of {limit} (`Limits::memory`)",
                held.saturating_sub(self.bytes)
            ))),
        }
    }

    /// Holds so many bytes more.
    pub(crate) fn grow(&mut self, bytes: u64, what: &str) -> Result<(), Reason> {
        self.resize(self.bytes.saturating_add(bytes), what)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_given_back() {
        let budget = Budget::new(100);
        let mut first = budget.hold(60, "the first").unwrap();
        let refused = budget.hold(41, "the second").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "out of memory: the second takes 41 bytes, and others hold 60 of 100 (`Limits::memory`)"
        );
        assert!(budget.hold(u64::MAX, "the third").is_err());
        assert_eq!(budget.free(), 40);
        let second = budget.hold(40, "the second").unwrap();
        assert!(first.grow(1, "the first").is_err() && first.grow(u64::MAX, "the first").is_err());
        first.resize(30, "the first").unwrap();
        first.grow(30, "the first").unwrap();
        drop((first, second));
        budget.hold(100, "all").unwrap();
        // Less memory than is held: it can be given back, and nothing more be held.
        let mut held = budget.hold(80, "some").unwrap();
        budget.set_limit(10);
        held.resize(50, "some").unwrap();
        assert!(held.grow(1, "some").is_err() && budget.hold(1, "more").is_err());
    }
}
