//! Global memory, which clusters on several cores access.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cell::{Check, Conflict};
use super::clock::Clocks;
use super::released::Released;
use super::releases::Releases;
use super::shadow::{GLOBAL_CELL, Shadow};
use crate::error::Reason;
use crate::memory::budget::{Budget, Held};

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;
/// Locks: pages are spread over them.
const SHARDS: u64 = 64;

/// Bytes that an address takes of which clocks were passed on, about: they share what they can.
pub(super) const LOCATION: u64 = 1024;
/// Bytes that the releases of a warp take, about.
const RELEASES: u64 = 1024;
/// What memory is held for.
const WHAT: &str = "what is known of accesses to global memory";

#[derive(Debug, Default)]
struct Shard {
    pages: HashMap<u64, Shadow>,
    /// Bytes that these take, and those that are held for them: an eighth more at most.
    used: u64,
    held: u64,
    /// What strong writes of an address passed on.
    locations: HashMap<u64, Clocks>,
}

/// The order of a launch's accesses to global memory. Launches are ordered, so each begins anew; [`Preceding`](super::preceding::Preceding)
/// is of those that need not be.
#[derive(Debug)]
pub(crate) struct GlobalOrder {
    shards: Vec<Mutex<Shard>>,
    released: Released,
    /// Clusters have raced with each other.
    raced: AtomicBool,
    /// A CTA has waited for the preceding grids before it launched dependent ones.
    waited: AtomicBool,
    held: Mutex<Held>,
}

impl GlobalOrder {
    pub(crate) fn new(budget: &Arc<Budget>) -> Result<Self, Reason> {
        Ok(Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            released: Released::default(),
            raced: AtomicBool::new(false),
            waited: AtomicBool::new(false),
            held: Mutex::new(budget.hold(0, WHAT)?),
        })
    }

    fn shard(&self, at: u64) -> MutexGuard<'_, Shard> {
        let shard = (at / PAGE as u64 % SHARDS) as usize;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds so many bytes more.
    fn hold(&self, bytes: u64) -> Result<(), Conflict> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.grow(bytes, WHAT).map_err(|_| Conflict::Memory)
    }

    pub(super) fn access(&self, at: u64, bytes: usize, check: &Check<'_>) -> Result<(), Conflict> {
        let (mut at, mut left, mut check) = (at, bytes, Check { ..*check });
        while left > 0 {
            let offset = at as usize % PAGE;
            let here = left.min(PAGE - offset);
            let Shard { pages, used, held, .. } = &mut *self.shard(at);
            let mut before = 0;
            let page = match pages.entry(at / PAGE as u64) {
                Entry::Occupied(page) => {
                    before = page.get().bytes();
                    page.into_mut()
                }
                Entry::Vacant(none) => none.insert(Shadow::new(PAGE, GLOBAL_CELL)),
            };
            let done = page.access(offset, here, &check);
            *used += page.bytes() - before;
            if *used > *held {
                let more = *used - *held + *used / 8;
                self.hold(more)?;
                *held += more;
            }
            done?;
            check.new = check.new.behind(here as u32);
            at = at.wrapping_add(here as u64);
            left -= here;
        }
        Ok(())
    }

    /// What lanes of all clusters have released.
    pub(super) fn released(&self) -> &Released {
        &self.released
    }

    /// Takes note of a release of some lanes of a warp, or of all if it is known for one of some.
    pub(super) fn release(
        &self,
        warp: (u32, u16),
        some: bool,
        note: impl FnOnce(&mut Releases),
    ) -> Result<(), Conflict> {
        self.released.note(warp, some, note, || self.hold(RELEASES))
    }

    /// Two clusters race with each other.
    pub(super) fn race(&self) {
        self.raced.store(true, Relaxed);
    }

    /// Whether clusters have raced with each other: which of them is found to do so depends on which came first.
    pub(crate) fn has_raced(&self) -> bool {
        self.raced.load(Relaxed)
    }

    /// A CTA that knows the preceding grids to have ended launches dependent ones. These begin when all CTAs have launched them.
    pub(super) fn set_waited(&self) {
        self.waited.store(true, Relaxed);
    }

    /// Whether the preceding grids have ended when dependent ones begin.
    pub(super) fn has_waited(&self) -> bool {
        self.waited.load(Relaxed)
    }

    /// Calls `f` with the address and the number of bytes that were accessed, and whether they were written: all of them.
    pub(super) fn each_access<E>(&self, mut f: impl FnMut(u64, u64, bool) -> Result<(), E>) -> Result<(), E> {
        self.shards.iter().try_for_each(|shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.pages.iter().try_for_each(|(page, shadow)| {
                let start = page * PAGE as u64;
                shadow
                    .each_access(&mut |range, wrote| f(start + range.start as u64, range.len() as u64, wrote))
            })
        })
    }

    /// What was passed on through an address.
    pub(super) fn location(&self, at: u64, cluster: u32) -> Option<Clocks> {
        self.shard(at).locations.get(&at).map(|clocks| clocks.inside(cluster))
    }

    /// Passes clocks on through an address.
    pub(super) fn pass(&self, at: u64, cluster: u32, clocks: &Clocks) -> Result<(), Conflict> {
        let Shard { locations, .. } = &mut *self.shard(at);
        match locations.entry(at) {
            Entry::Occupied(passed) => passed.into_mut().join(&clocks.outside(cluster)),
            Entry::Vacant(none) => {
                self.hold(LOCATION)?;
                none.insert(clocks.outside(cluster));
            }
        }
        Ok(())
    }
}
