//! What is allocated of global memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::allocation::Allocation;
use super::budget::Budget;
use super::{GLOBAL_START, MODULES_START};
use crate::error::Reason;

/// Allocations begin at multiples of this, and are at least as far apart.
const ALIGN: u64 = 256;

/// The allocations, by their addresses.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) live: BTreeMap<u64, Arc<Allocation>>,
    /// Ranges that were allocated once: addresses are not given out again.
    pub(super) freed: Arc<Vec<(u64, u64)>>,
    next: u64,
    pub(super) used: u64,
    /// Bytes of the heap that are allocated.
    pub(super) heap: u64,
}

impl Table {
    pub(super) fn allocate(&mut self, bytes: u64, heap: bool, budget: &Arc<Budget>) -> Result<u64, Reason> {
        let start = self.next.max(GLOBAL_START);
        let next = bytes.checked_add(start + 2 * ALIGN - 1).map(|end| end / ALIGN * ALIGN);
        let next = next.filter(|&next| next <= MODULES_START);
        let next = next.ok_or_else(|| {
            let left = MODULES_START - start;
            Reason::limit(format!("an allocation of {bytes} bytes: there are {left} addresses left"))
        })?;
        let allocation = Allocation { heap, ..Allocation::new(start, bytes, 0xcdcd_cdcd, budget)? };
        self.live.insert(start, Arc::new(allocation));
        self.next = next;
        self.used += bytes;
        self.heap += if heap { bytes } else { 0 };
        Ok(start)
    }

    pub(super) fn free(&mut self, start: u64) -> bool {
        let Some(allocation) = self.live.remove(&start) else { return false };
        self.used -= allocation.bytes;
        self.heap -= if allocation.heap { allocation.bytes } else { 0 };
        Arc::make_mut(&mut self.freed).push((start, allocation.end()));
        true
    }
}
