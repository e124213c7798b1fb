//! What the lanes of a launch's warps have released, for those of other clusters.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::access::Access;
use super::releases::Releases;

/// The releases of all clusters.
#[derive(Debug, Default)]
pub(super) struct Released {
    /// By cluster and warp, once lanes have released for themselves alone.
    warps: Mutex<HashMap<(u32, u16), Releases>>,
    /// Whether any has.
    some: AtomicBool,
}

impl Released {
    fn warps(&self) -> MutexGuard<'_, HashMap<(u32, u16), Releases>> {
        self.warps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a release of some lanes of a warp, or of all if it is known for one of some; `hold` holds the memory of a
    /// warp that is new.
    pub(super) fn note<E>(
        &self,
        warp: (u32, u16),
        some: bool,
        note: impl FnOnce(&mut Releases),
        hold: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if some {
            self.some.store(true, Relaxed);
            match self.warps().entry(warp) {
                Entry::Occupied(releases) => note(releases.into_mut()),
                Entry::Vacant(none) => {
                    hold()?;
                    note(none.insert(Releases::default()));
                }
            }
        } else if self.some.load(Relaxed)
            && let Some(releases) = self.warps().get_mut(&warp)
        {
            note(releases);
        }
        Ok(())
    }

    /// Whether a lane's access that is known to another cluster was released by that lane, or by all of its warp.
    pub(super) fn has(&self, access: &Access) -> bool {
        if !self.some.load(Relaxed) {
            return true;
        }
        let warps = self.warps();
        let own = warps.get(&(access.cluster, access.agent));
        own.is_none_or(|releases| releases.covers(access.lane, access.clock, u32::MAX))
    }
}
