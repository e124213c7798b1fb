//! Global memory: allocations that kernels and the host share.

use std::sync::{Arc, PoisonError, RwLock};

use super::MODULES_START;
use super::allocation::Allocation;
use super::budget::Budget;
use super::table::Table;
use super::view::View;
use crate::error::Reason;
use crate::program::Static;

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
        View::new(&table, Arc::clone(&self.table), Arc::clone(&self.budget))
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
