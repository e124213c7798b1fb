//! What the ranks of a group agree on: which collective is next.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::transport::Collective;
use crate::{Error, Result};

/// The ranks of one process that compute together.
#[derive(Debug)]
pub(super) struct Group {
    ranks: usize,
    ledger: Mutex<Ledger>,
    changed: Condvar,
}

/// Collectives that not all ranks have left behind.
#[derive(Debug, Default)]
struct Ledger {
    /// The number of the first.
    first: u64,
    calls: VecDeque<Call>,
    /// Why there are no more.
    broken: Option<String>,
}

#[derive(Debug)]
struct Call {
    what: Collective,
    /// Who called it first.
    rank: usize,
    called: usize,
    /// Ranks that went on.
    left: usize,
}

/// How often a rank looks for the others before it sleeps: they are mostly a few microseconds behind.
const LOOKS: usize = 100;

impl Group {
    pub(super) fn new(ranks: usize) -> Arc<Self> {
        Arc::new(Group { ranks, ledger: Mutex::default(), changed: Condvar::new() })
    }

    pub(super) fn ranks(&self) -> usize {
        self.ranks
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all ranks have called the collective of this number, and checks that it is the same.
    ///
    /// So none is queued that waits on the device for a rank that does not come. If ranks do not agree, or one is gone, all are told.
    pub(super) fn meet(&self, rank: usize, number: u64, what: Collective) -> Result<()> {
        self.arrive(rank, number, what)?;
        let mut looks = 0;
        let mut ledger = self.ledger();
        loop {
            let Some(call) = ledger.call(number) else { return Ok(()) };
            // Once all have come it does not matter who goes.
            if call.called == self.ranks {
                call.left += 1;
                while ledger.calls.front().is_some_and(|call| call.left == self.ranks) {
                    ledger.calls.pop_front();
                    ledger.first += 1;
                }
                return Ok(());
            }
            ledger.expect_whole()?;
            if looks < LOOKS {
                looks += 1;
                drop(ledger);
                std::thread::yield_now();
                ledger = self.ledger();
            } else {
                ledger = self.changed.wait(ledger).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn arrive(&self, rank: usize, number: u64, what: Collective) -> Result<()> {
        let mut ledger = self.ledger();
        ledger.expect_whole()?;
        match ledger.call(number) {
            None => ledger.calls.push_back(Call { what, rank, called: 1, left: 0 }),
            Some(call) if call.what == what => call.called += 1,
            Some(call) => {
                let was = format!("{what} as collective {number} of rank {rank}");
                let allowed = format!("{}, which rank {} called", call.what, call.rank);
                drop(ledger);
                self.break_off(format!("broken: ranks called different collectives: {was} and {allowed}"));
                return Err(Error::argument("collective", was, allowed));
            }
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Refuses what comes, and tells who waits.
    pub(super) fn break_off(&self, reason: String) {
        self.ledger().broken.get_or_insert(reason);
        self.changed.notify_all();
    }

    /// A rank goes. Others that call more collectives than it did are told.
    pub(super) fn leave(&self, rank: usize, called: u64) {
        if self.ranks > 1 {
            self.break_off(format!("broken: rank {rank} was dropped before its collective {called}"));
        }
    }
}

impl Ledger {
    fn expect_whole(&self) -> Result<()> {
        match &self.broken {
            None => Ok(()),
            Some(reason) => {
                Err(Error::argument("communicator", reason.clone(), "of a group whose ranks are all there"))
            }
        }
    }

    fn call(&mut self, number: u64) -> Option<&mut Call> {
        let at = number.checked_sub(self.first)?;
        self.calls.get_mut(usize::try_from(at).ok()?)
    }
}
