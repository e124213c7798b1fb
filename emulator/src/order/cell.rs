//! What is remembered of a piece of memory: the last write, and the reads since that no later one stands for.

use super::access::{ASYNC, Access, ENDS, MBARRIER, NO_LANE, STRONG};
use super::clock::Clocks;

/// The lane of reads of several lanes.
const MANY_LANES: u8 = 255;

/// The accesses of a piece of 16, 4 or 1 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) write: Access,
    /// Reads since.
    pub(super) reads: [Access; 2],
    /// The list of more reads, from 1.
    pub(super) more: u32,
    /// The four parts, from 1, if they differ.
    pub(super) split: u32,
}

/// Lists of reads of cells with more than two.
#[derive(Debug, Default)]
pub(super) struct Lists {
    lists: Vec<Vec<Access>>,
    free: Vec<u32>,
}

impl Lists {
    /// Bytes that they take, as if each had eight reads.
    pub(super) fn bytes(&self) -> u64 {
        (self.lists.len() * (size_of::<Vec<Access>>() + 8 * size_of::<Access>())) as u64
    }

    fn add(&mut self, list: Vec<Access>) -> u32 {
        if let Some(free) = self.free.pop() {
            self.lists[free as usize - 1] = list;
            return free;
        }
        self.lists.push(list);
        self.lists.len() as u32
    }
}

/// Why an access is wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Conflict {
    /// Nothing orders it after this one.
    Race { first: Access, wrote: bool },
    /// Nothing orders it after that of another lane of its warp.
    Lanes { first: Access, wrote: bool },
    /// It reads what nobody wrote.
    Unwritten,
    /// It is of the async proxy, and no proxy fence stands after this write.
    Unfenced { first: Access },
    /// The bytes are an mbarrier's.
    Mbarrier,
    /// They are of a CTA that has ended.
    Ended,
    /// There is no memory to remember it.
    Memory,
}

/// An access that is checked.
pub(super) struct Check<'c> {
    pub(super) new: Access,
    pub(super) wrote: bool,
    /// What is ordered before it.
    pub(super) before: &'c Clocks,
    /// Whether reads of what nobody wrote are wrong.
    pub(super) initialised: bool,
    /// Reads that a cell remembers.
    pub(super) readers: usize,
}

impl Check<'_> {
    fn has(&self, old: &Access) -> bool {
        self.before.known.has(self.new.cluster, old)
    }

    /// Checks the access against an earlier one of the same bytes.
    #[inline]
    fn after(&self, old: &Access, new: &Access, wrote: bool) -> Result<(), Conflict> {
        if old.clock == 0 || old.kind & new.kind & STRONG != 0 {
            return Ok(());
        }
        if !self.has(old) {
            return Err(Conflict::Race { first: *old, wrote });
        }
        let lanes =
            (old.lane, old.shift) != (new.lane, new.shift) && old.lane != NO_LANE && new.lane != NO_LANE;
        if lanes && old.same_time(new) {
            return Err(Conflict::Lanes { first: *old, wrote });
        }
        Ok(())
    }

    /// Checks and remembers the access of a cell that is not split: `skip` bytes into the access.
    #[inline]
    pub(super) fn cell(
        &self,
        cell: &mut Cell,
        lists: &mut Lists,
        skip: u32,
        size: u8,
    ) -> Result<(), Conflict> {
        let new = self.new.part(skip, size);
        if self.wrote { self.write(cell, lists, new) } else { self.read(cell, lists, new) }
    }

    fn after_write(&self, cell: &Cell, new: &Access) -> Result<(), Conflict> {
        let old = &cell.write;
        self.after(old, new, true)?;
        if old.kind & MBARRIER != 0 && new.kind & (MBARRIER | ENDS) == 0 {
            return Err(Conflict::Mbarrier);
        }
        if new.kind & !old.kind & ASYNC != 0
            && old.clock != 0
            && !self.before.fenced.has(self.new.cluster, old)
        {
            return Err(Conflict::Unfenced { first: *old });
        }
        Ok(())
    }

    fn read(&self, cell: &mut Cell, lists: &mut Lists, new: Access) -> Result<(), Conflict> {
        let repeated = cell.reads.iter().position(|read| read.same_time(&new) && read.kind == new.kind);
        if let Some(i) = repeated
            && cell.reads[i].lane == new.lane
            && cell.reads[i].shift == new.shift
        {
            return Ok(());
        }
        if cell.write.clock == 0 && self.initialised {
            return Err(Conflict::Unwritten);
        }
        self.after_write(cell, &new)?;
        if let Some(i) = repeated {
            cell.reads[i].lane = if new.lane == NO_LANE { NO_LANE } else { MANY_LANES };
            return Ok(());
        }
        // A read stands for those that are ordered before it.
        let place = cell.reads.iter().position(|read| read.is_of(&new) || read.clock == 0 || self.has(read));
        if let Some(i) = place {
            cell.reads[i] = new;
            return Ok(());
        }
        if cell.more == 0 {
            cell.more = lists.add(Vec::new());
        }
        let list = &mut lists.lists[cell.more as usize - 1];
        match list.iter().position(|read| read.is_of(&new) || self.has(read)) {
            Some(i) if list[i].same_time(&new) && list[i].lane != new.lane => list[i].lane = MANY_LANES,
            Some(i) => list[i] = new,
            None if list.len() + 2 < self.readers => list.push(new),
            None => {}
        }
        Ok(())
    }

    fn write(&self, cell: &mut Cell, lists: &mut Lists, new: Access) -> Result<(), Conflict> {
        self.after_write(cell, &new)?;
        for read in &cell.reads {
            self.after(read, &new, false)?;
        }
        if cell.more != 0 {
            lists.lists[cell.more as usize - 1].iter().try_for_each(|read| self.after(read, &new, false))?;
            lists.free.push(cell.more);
        }
        // Who is ordered after a weak write is so after a strong one of the same time, but the other has no need to.
        let weak = cell.write.same_time(&new) && new.kind & !cell.write.kind & STRONG != 0;
        *cell = Cell { write: if weak { cell.write } else { new }, ..Cell::default() };
        Ok(())
    }
}

impl Cell {
    /// Its part number `i` of four, of a size whose logarithm is `size`.
    pub(super) fn part(&self, lists: &mut Lists, i: u32, size: u8) -> Cell {
        let skip = i << size;
        let more = match self.more {
            0 => 0,
            more => {
                let list = lists.lists[more as usize - 1].iter().map(|read| read.part(skip, size)).collect();
                lists.add(list)
            }
        };
        let reads = self.reads.map(|read| read.part(skip, size));
        Cell { write: self.write.part(skip, size), reads, more, split: 0 }
    }

    /// The first of its accesses for which `late` holds, and whether it wrote.
    pub(super) fn find(&self, lists: &Lists, late: &impl Fn(&Access) -> bool) -> Option<(Access, bool)> {
        let late = |access: &&Access| access.clock != 0 && late(access);
        let more = self.more.checked_sub(1).map_or(&[][..], |list| &lists.lists[list as usize]);
        let write = Some(&self.write).filter(late).map(|&write| (write, true));
        write.or_else(|| self.reads.iter().chain(more).find(late).map(|&read| (read, false)))
    }

    /// Gives back the list of more reads.
    pub(super) fn forget(&mut self, lists: &mut Lists) {
        if self.more != 0 {
            lists.free.push(self.more);
            self.more = 0;
        }
    }
}
