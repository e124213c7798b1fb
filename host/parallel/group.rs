//! What the ranks of a group agree on: which collective is next.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::transport::{Collective, Transport};
use crate::{Error, Result};

/// The ranks of one process that compute together.
#[derive(Debug)]
pub(super) struct Group {
    ranks: usize,
    ledger: Mutex<Ledger>,
    transports: Vec<Arc<dyn Transport + Sync>>,
}

/// Collectives that some ranks have called and others have not.
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
}

impl Group {
    pub(super) fn new(transports: Vec<Arc<dyn Transport + Sync>>) -> Arc<Self> {
        Arc::new(Group { ranks: transports.len(), ledger: Mutex::default(), transports })
    }

    pub(super) fn ranks(&self) -> usize {
        self.ranks
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that `rank`'s call of this number is what the other ranks called or will call.
    ///
    /// If it is not the group breaks: what others have queued would wait for ever, and is ended.
    pub(super) fn agree(&self, rank: usize, number: u64, what: Collective) -> Result<()> {
        let mut ledger = self.ledger();
        if let Some(reason) = &ledger.broken {
            return Err(Error::argument(
                "communicator",
                reason.clone(),
                "of a group whose ranks are all there",
            ));
        }
        let at = usize::try_from(number - ledger.first).unwrap_or(usize::MAX);
        match ledger.calls.get_mut(at) {
            None => ledger.calls.push_back(Call { what, rank, called: 1 }),
            Some(call) if call.what == what => call.called += 1,
            Some(call) => {
                let was = format!("{what} as collective {number} of rank {rank}");
                let allowed = format!("{}, which rank {} called", call.what, call.rank);
                drop(ledger);
                self.break_off(format!("broken: ranks called different collectives: {was} and {allowed}"));
                return Err(Error::argument("collective", was, allowed));
            }
        }
        while ledger.calls.front().is_some_and(|call| call.called == self.ranks) {
            ledger.calls.pop_front();
            ledger.first += 1;
        }
        Ok(())
    }

    /// Ends what was queued, and refuses what comes.
    pub(super) fn break_off(&self, reason: String) {
        self.ledger().broken.get_or_insert(reason);
        self.transports.iter().for_each(|transport| transport.abort());
    }

    /// A rank goes. If others wait for it, they are told.
    pub(super) fn leave(&self, rank: usize, called: u64) {
        let ledger = self.ledger();
        let waited_for = called < ledger.first + ledger.calls.len() as u64 && ledger.broken.is_none();
        drop(ledger);
        if waited_for {
            self.break_off(format!("broken: rank {rank} was dropped before its collective {called}"));
        }
    }
}
