//! Global memory: allocations that kernels and the host share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::budget::{Budget, Held};
use super::{GLOBAL_START, MODULES_START};
use crate::error::Reason;
use crate::program::Static;

/// Allocations begin at multiples of this, and are at least as far apart.
const ALIGN: u64 = 256;

/// Bytes of the device's heap, from which kernels allocate: what `cudaLimitMallocHeapSize` is unless a program changes it.
const HEAP: u64 = 8 << 20;

/// Memory that one call allocated.
///
/// In words that are accessed atomically, without order: kernels that race see some value, as on a GPU, and CTAs on
/// several cores need no lock.
#[derive(Debug)]
struct Allocation {
    start: u64,
    bytes: u64,
    words: Box<[AtomicU32]>,
    /// Kernels do not write it.
    constant: bool,
    /// A kernel allocated it.
    heap: bool,
    /// Held by atomic operations of other than 4 bytes.
    wide: Mutex<()>,
    _held: Held,
}

impl Allocation {
    /// Memory of which every word is this.
    fn new(start: u64, bytes: u64, word: u32, budget: &Arc<Budget>) -> Result<Self, Reason> {
        let what = || format!("an allocation of {bytes} bytes");
        let count = bytes.div_ceil(4);
        let held = budget.hold(count.saturating_mul(4), &what())?;
        let mut words = Vec::new();
        usize::try_from(count)
            .ok()
            .and_then(|count| words.try_reserve_exact(count).ok())
            .ok_or_else(|| Reason::limit(format!("out of memory: the host has not enough for {}", what())))?;
        words.extend((0..count).map(|_| AtomicU32::new(word)));
        Ok(Self {
            start,
            bytes,
            words: words.into(),
            constant: false,
            heap: false,
            wide: Mutex::new(()),
            _held: held,
        })
    }

    fn end(&self) -> u64 {
        self.start + self.bytes
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        let at = (at - self.start) as usize;
        if at.is_multiple_of(4) && into.len().is_multiple_of(4) {
            let words = &self.words[at / 4..][..into.len() / 4];
            for (bytes, word) in into.as_chunks_mut::<4>().0.iter_mut().zip(words) {
                *bytes = word.load(Relaxed).to_le_bytes();
            }
            return;
        }
        for (i, byte) in into.iter_mut().enumerate() {
            *byte = self.words[(at + i) / 4].load(Relaxed).to_le_bytes()[(at + i) % 4];
        }
    }

    fn write(&self, at: u64, from: &[u8]) {
        let at = (at - self.start) as usize;
        if at.is_multiple_of(4) && from.len().is_multiple_of(4) {
            let words = &self.words[at / 4..][..from.len() / 4];
            for (bytes, word) in from.as_chunks::<4>().0.iter().zip(words) {
                word.store(u32::from_le_bytes(*bytes), Relaxed);
            }
            return;
        }
        // Parts of words, at most a word at a time: the neighbours' bytes stay.
        let mut i = 0;
        while i < from.len() {
            let first = (at + i) % 4;
            let count = (4 - first).min(from.len() - i);
            let (mut mask, mut value) = ([0; 4], [0; 4]);
            mask[first..first + count].fill(0xff);
            value[first..first + count].copy_from_slice(&from[i..i + count]);
            let (mask, value) = (u32::from_le_bytes(mask), u32::from_le_bytes(value));
            let word = &self.words[(at + i) / 4];
            // Never `None`, so never an error.
            let _ = word.fetch_update(Relaxed, Relaxed, |old| Some(old & !mask | value));
            i += count;
        }
    }
}

#[derive(Debug, Default)]
struct Table {
    live: BTreeMap<u64, Arc<Allocation>>,
    /// Ranges that were allocated once: addresses are not given out again.
    freed: Arc<Vec<(u64, u64)>>,
    next: u64,
    used: u64,
    /// Bytes of the heap that are allocated.
    heap: u64,
}

impl Table {
    fn allocate(&mut self, bytes: u64, heap: bool, budget: &Arc<Budget>) -> Result<u64, Reason> {
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

    fn free(&mut self, start: u64) -> bool {
        let Some(allocation) = self.live.remove(&start) else { return false };
        self.used -= allocation.bytes;
        self.heap -= if allocation.heap { allocation.bytes } else { 0 };
        Arc::make_mut(&mut self.freed).push((start, allocation.end()));
        true
    }
}

/// Global memory.
#[derive(Debug)]
pub(crate) struct Global {
    table: Arc<RwLock<Table>>,
    budget: Arc<Budget>,
}

impl Global {
    /// Memory of which nothing is allocated.
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { table: Arc::default(), budget }
    }

    /// Allocates memory; what is in it at first is nobody's business, so it is a pattern that shows.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<u64, Reason> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.allocate(bytes, false, &self.budget)
    }

    /// Puts the variables of a module to their addresses, unless they are there.
    pub(crate) fn install(&self, statics: &[Static]) -> Result<(), Reason> {
        let Some(first) = statics.first() else { return Ok(()) };
        let there = |table: &Table| table.live.contains_key(&first.address);
        if there(&self.table.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if there(&table) {
            return Ok(());
        }
        let mut all = Vec::new();
        for &Static { ref name, address, bytes, constant, ref initial } in statics {
            let allocation = Allocation::new(address, bytes, 0, &self.budget)
                .map_err(|what| what.of(&format!("variable `{name}`")))?;
            allocation.write(address, initial);
            all.push((address, Arc::new(Allocation { constant, ..allocation })));
        }
        table.live.extend(all);
        Ok(())
    }

    /// Frees an allocation; `false` if none begins there.
    pub(crate) fn free(&self, start: u64) -> bool {
        if start >= MODULES_START {
            // The variables of modules stay.
            return false;
        }
        self.table.write().unwrap_or_else(PoisonError::into_inner).free(start)
    }

    /// Bytes that are allocated.
    pub(crate) fn used(&self) -> u64 {
        self.table.read().unwrap_or_else(PoisonError::into_inner).used
    }

    /// The allocations of this moment.
    pub(crate) fn view(&self) -> View {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        View {
            live: table.live.values().cloned().collect(),
            freed: Arc::clone(&table.freed),
            last: 0,
            table: Arc::clone(&self.table),
            budget: Arc::clone(&self.budget),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn global() -> Global {
        Global::new(Budget::new(1000))
    }

    #[test]
    fn bytes_keep_their_neighbours() {
        let global = global();
        let at = global.allocate(10).unwrap();
        let mut view = global.view();
        view.write(at, &[0; 10]).unwrap();
        view.write(at + 3, &[1, 2, 3, 4, 5]).unwrap();
        view.write(at + 8, &[9, 9]).unwrap();
        let mut all = [0; 10];
        view.read(at, &mut all).unwrap();
        assert_eq!(all, [0, 0, 0, 1, 2, 3, 4, 5, 9, 9]);
        view.update(at, 8, &mut |bytes| bytes[0] += 1).unwrap();
        assert_eq!(view.update32(at, |_| 7).unwrap(), 0x0100_0001);
    }

    #[test]
    fn what_is_not_allocated_is_named() {
        let global = global();
        let (a, b) = (global.allocate(100).unwrap(), global.allocate(8).unwrap());
        assert!(global.free(b) && !global.free(b));
        assert_eq!(global.used(), 100);
        let mut view = global.view();
        let error = |view: &mut View, at| view.read(at, &mut [0; 4]).unwrap_err().to_string();
        assert!(error(&mut view, a + 97).contains("out of bounds"), "{}", error(&mut view, a + 97));
        assert!(error(&mut view, b).contains("freed"));
        assert!(
            error(&mut view, a - 4).contains(&format!("the nearest allocation is {a:#x} to {:#x}", a + 100))
        );
        assert!(error(&mut view, 8).contains("not allocated"));
        assert!(error(&mut view, u64::MAX).contains("not allocated"));
    }

    #[test]
    fn what_is_freed_can_be_allocated_again() {
        let global = global();
        for _ in 0..10 {
            let at = global.allocate(998).unwrap();
            assert!(global.allocate(1).is_err());
            assert!(global.free(at));
        }
        // Not while somebody looks at it.
        let at = global.allocate(998).unwrap();
        let view = global.view();
        assert!(global.free(at) && global.allocate(1).is_err());
        drop(view);
        assert!(global.allocate(1).is_ok());
        for bytes in [1 << 40, u64::MAX, u64::MAX - 1000, u64::MAX / 2] {
            let what = global.allocate(bytes).unwrap_err().to_string();
            assert!(what.contains(&format!("an allocation of {bytes} bytes")), "{what}");
        }
    }
}
