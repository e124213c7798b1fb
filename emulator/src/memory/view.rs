//! Global memory as the clusters of a core see it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use super::allocation::Allocation;
use super::budget::Budget;
use super::table::Table;
use crate::error::Reason;

/// Bytes of the device's heap, from which kernels allocate: what `cudaLimitMallocHeapSize` is unless a program changes it.
const HEAP: u64 = 8 << 20;

/// The allocations that were there when a launch began, and those that kernels make. Remembers the last one that was accessed.
#[derive(Clone, Debug)]
pub(crate) struct View {
    live: Arc<[Arc<Allocation>]>,
    freed: Arc<Vec<(u64, u64)>>,
    last: usize,
    table: Arc<RwLock<Table>>,
    budget: Arc<Budget>,
}

impl View {
    /// The allocations of a table.
    pub(super) fn new(allocated: &Table, table: Arc<RwLock<Table>>, budget: Arc<Budget>) -> Self {
        let live = allocated.live.values().cloned().collect();
        Self { live, freed: Arc::clone(&allocated.freed), last: 0, table, budget }
    }

    /// Allocates memory of the heap; 0 if there is none, or of no bytes.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<u64, Reason> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        match table.heap.checked_add(bytes) {
            Some(1..=HEAP) if bytes > 0 => table.allocate(bytes, true, &self.budget),
            _ => Ok(0),
        }
    }

    /// Frees memory of the heap; `false` if none begins there.
    pub(crate) fn free(&mut self, start: u64) -> bool {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if !table.live.get(&start).is_some_and(|allocation| allocation.heap) || !table.free(start) {
            return false;
        }
        self.freed = Arc::clone(&table.freed);
        drop(table);
        self.live = self.live.iter().filter(|allocation| allocation.start != start).cloned().collect();
        true
    }

    /// Takes over what other clusters have done to the heap; whether there is anything new.
    #[cold]
    fn refresh(&mut self) -> bool {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let old = self.live.iter().filter(|allocation| allocation.heap).count();
        let heap: Vec<_> = table.live.values().filter(|allocation| allocation.heap).cloned().collect();
        if heap.len() == old && Arc::ptr_eq(&self.freed, &table.freed) {
            return false;
        }
        let mut all: Vec<_> =
            self.live.iter().filter(|allocation| !allocation.heap).cloned().chain(heap).collect();
        all.sort_by_key(|allocation| allocation.start);
        (self.live, self.freed) = (all.into(), Arc::clone(&table.freed));
        true
    }

    /// The allocation that has all of these bytes.
    #[inline]
    fn find(&mut self, at: u64, bytes: u64) -> Result<&Allocation, Reason> {
        let inside =
            |a: &Allocation| a.start <= at && at.checked_add(bytes).is_some_and(|end| end <= a.end());
        if !self.live.get(self.last).is_some_and(|a| inside(a)) {
            let after = self.live.partition_point(|a| a.start <= at);
            match after.checked_sub(1) {
                Some(before) if inside(&self.live[before]) => self.last = before,
                _ if self.refresh() => return self.find(at, bytes),
                _ => return Err(self.outside(at, bytes, after)),
            }
        }
        Ok(&self.live[self.last])
    }

    #[cold]
    fn outside(&self, at: u64, bytes: u64, after: usize) -> Reason {
        let what = format!("{bytes} bytes of global memory at {at:#x}");
        if let Some(&(start, end)) = self.freed.iter().find(|&&(start, end)| start <= at && at < end) {
            return Reason::address(format!("{what}: freed memory ({start:#x} to {end:#x})"));
        }
        let before = after.checked_sub(1).and_then(|before| self.live.get(before));
        let distance = |a: &&Arc<Allocation>| at.saturating_sub(a.end()).max(a.start.saturating_sub(at));
        let near = before.into_iter().chain(self.live.get(after)).min_by_key(distance);
        Reason::address(match near {
            Some(a) if distance(&a) < 1 << 20 => {
                format!("{what}: out of bounds; the nearest allocation is {:#x} to {:#x}", a.start, a.end())
            }
            _ => format!("{what}: not allocated"),
        })
    }

    /// The allocation that has these bytes, which a kernel is to write or not: its first address, its bytes and its words. `None`
    /// also where that is no multiple of 16.
    #[inline]
    pub(crate) fn words(&mut self, at: u64, bytes: u64, written: bool) -> Option<(u64, usize, &[AtomicU32])> {
        let allocation = self.find(at, bytes).ok()?;
        let may = allocation.start.is_multiple_of(16) && !(written && allocation.constant);
        may.then_some((allocation.start, allocation.bytes as usize, &allocation.words))
    }

    /// The end of the allocation that has the address.
    pub(crate) fn end_of(&mut self, at: u64) -> Option<u64> {
        self.find(at, 1).ok().map(Allocation::end)
    }

    #[inline]
    pub(crate) fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), Reason> {
        self.find(at, into.len() as u64)?.read(at, into);
        Ok(())
    }

    #[inline]
    pub(crate) fn write(&mut self, at: u64, from: &[u8]) -> Result<(), Reason> {
        self.find_variable(at, from.len() as u64)?.write(at, from);
        Ok(())
    }

    /// Writes as the host does: to constants too.
    pub(crate) fn set(&mut self, at: u64, from: &[u8]) -> Result<(), Reason> {
        self.find(at, from.len() as u64)?.write(at, from);
        Ok(())
    }

    /// The allocation that has all of these bytes, which a kernel may write.
    #[inline]
    fn find_variable(&mut self, at: u64, bytes: u64) -> Result<&Allocation, Reason> {
        let allocation = self.find(at, bytes)?;
        match allocation.constant {
            false => Ok(allocation),
            true => Err(Reason::address(format!(
                "{bytes} bytes at {at:#x}: constant memory, which kernels cannot write"
            ))),
        }
    }

    /// Changes bytes while no other thread does so by this method.
    pub(crate) fn update(
        &mut self,
        at: u64,
        len: usize,
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Reason> {
        let allocation = self.find_variable(at, len as u64)?;
        let _held = allocation.wide.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = vec![0; len];
        allocation.read(at, &mut bytes);
        change(&mut bytes);
        allocation.write(at, &bytes);
        Ok(())
    }

    /// Replaces 4 bytes, and gives what was there.
    pub(crate) fn update32(&mut self, at: u64, f: impl Fn(u32) -> u32) -> Result<u32, Reason> {
        let allocation = self.find_variable(at, 4)?;
        let word = &allocation.words[((at - allocation.start) / 4) as usize];
        Ok(word.fetch_update(Relaxed, Relaxed, |old| Some(f(old))).unwrap_or_else(|old| old))
    }
}
