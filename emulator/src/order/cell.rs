//! What is remembered of a piece of memory: the last write, and the reads since that no later one stands for.
//!
//! Strong writes need no order among themselves. Who reads or overwrites what several of them made needs to come after each, so two
//! that the last one is not ordered after are remembered too, unless that gives what they wrote, as an `atom` does.

use std::cell::Cell as Flag;

use super::access::{
    ASYNC, Access, ENDS, GAP, MANY_LANES, MBARRIER, NO_LANE, OF_CLUSTER, OF_CTA, READ_ONLY, STRONG,
};
use super::alone::Alone;
use super::clock::Clocks;
use super::released::Released;
use super::releases::Releases;

/// Reads of one cluster that a cell remembers: as many as it has warps, and what works beside them.
const ONE_CLUSTER: usize = 1024;

/// The accesses of a piece of 16, 4 or 1 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) write: Access,
    /// Reads since, and writes that the last one is not ordered after.
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
    /// It is ordered after a release of other lanes of the warp that did this, which had not met.
    Loose { first: Access, wrote: bool },
    /// Another lane of its warp, which it has not met since, has acquired this one.
    Alone { first: Access, wrote: bool },
    /// A preceding grid, which nobody has waited for, has accessed them.
    Preceding { wrote: bool },
    /// It reads what nobody wrote.
    Unwritten,
    /// It is of the async proxy, and no proxy fence stands after this write.
    Unfenced { first: Access },
    /// The bytes are an mbarrier's.
    Mbarrier,
    /// They lie behind the variable of this number, and are of no other.
    Gap(u32),
    /// They are of a CTA that has ended.
    Ended,
    /// They are of a CTA that may not have begun.
    NotBegun,
    /// They are written and read as what nobody writes, in either order.
    ReadOnly { first: Access, wrote: bool },
    /// There is no memory to remember it.
    Memory,
}

/// An access that is checked.
pub(super) struct Check<'c> {
    pub(super) new: Access,
    pub(super) wrote: bool,
    /// What is ordered before it.
    pub(super) before: &'c Clocks,
    /// Where to say that it reads what nobody wrote.
    pub(super) unwritten: Option<&'c Flag<bool>>,
    /// Of the warps of the own cluster, and of the others.
    pub(super) releases: (&'c [Releases], &'c Released),
    /// What some lanes of the warp alone know, if they do, and the lanes that make the access.
    pub(super) alone: Option<(&'c Alone, u32)>,
    /// Warps of a CTA.
    pub(super) warps_each: usize,
    /// The proxy of the memory, among those that fences tell apart.
    pub(super) proxy: usize,
    /// Who issues a bulk copy, if it is not the whole warp.
    pub(super) issuer: Option<Issuer>,
    /// Reads of several clusters that a cell remembers. Of two there are always some: clusters that cannot talk to each other
    /// never write what another reads, and so one of them is not ordered before a write, whosoever that is.
    pub(super) readers: usize,
}

/// Lanes of a warp that issue a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issuer {
    pub(super) warp: u16,
    pub(super) lanes: u32,
    /// What the others did from this time on they do not know.
    pub(super) apart: u32,
}

impl Issuer {
    /// Whether this is an access of another lane of the warp, which it has not met since.
    fn misses(&self, cluster: u32, old: &Access) -> bool {
        let other = old.lane < 32 && self.lanes >> old.lane & 1 == 0;
        other && old.agent == self.warp && old.cluster == cluster && old.clock >= self.apart
    }
}

impl Check<'_> {
    fn has(&self, old: &Access) -> bool {
        self.before.known.has(self.new.cluster, old)
    }

    /// Whether each of two strong accesses is so for the other.
    #[inline(never)]
    fn both_strong(&self, old: &Access, new: &Access) -> bool {
        let narrow = (old.kind | new.kind) & (OF_CTA | OF_CLUSTER);
        let cta = |access: &Access| usize::from(access.agent) / self.warps_each;
        narrow == 0 || old.cluster == new.cluster && (narrow & OF_CTA == 0 || cta(old) == cta(new))
    }

    /// Whether what orders an earlier access of a lane before the access is that lane's, or of all.
    #[inline(never)]
    fn is_released(&self, old: &Access) -> bool {
        let (own, others) = self.releases;
        if old.cluster != self.new.cluster {
            return others.has(old);
        }
        let known = self.before.known.get(old.agent);
        own.get(usize::from(old.agent)).is_none_or(|releases| releases.covers(old.lane, old.clock, known))
    }

    /// Checks the access against an earlier one of the same bytes. Writes of several lanes are of one instruction, and do not race.
    #[inline(always)]
    fn after(&self, old: &Access, new: &Access, wrote: bool) -> Result<(), Conflict> {
        if old.clock == 0 || old.kind & new.kind & STRONG != 0 && self.both_strong(old, new) {
            return Ok(());
        }
        if !self.has(old) {
            return Err(Conflict::Race { first: *old, wrote });
        }
        if let Some((alone, lanes)) = self.alone
            && !alone.knows(lanes, new.cluster, old)
        {
            return Err(Conflict::Alone { first: *old, wrote });
        }
        if self.issuer.is_some_and(|issuer| issuer.misses(new.cluster, old)) {
            return Err(Conflict::Lanes { first: *old, wrote });
        }
        if old.is_of(new) {
            let lanes =
                (old.lane, old.shift) != (new.lane, new.shift) && old.lane != NO_LANE && new.lane != NO_LANE;
            if lanes && old.clock == new.clock && !(wrote && new.lane == MANY_LANES) {
                return Err(Conflict::Lanes { first: *old, wrote });
            }
        } else if old.lane != NO_LANE && !self.is_released(old) {
            return Err(Conflict::Loose { first: *old, wrote });
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
        let new = if skip == 0 {
            Access { shift: self.new.shift.min(size), ..self.new }
        } else {
            self.new.part(skip, size)
        };
        if self.wrote { self.write(cell, lists, new) } else { self.read(cell, lists, new) }
    }

    #[inline(always)]
    fn after_write(&self, cell: &Cell, new: &Access) -> Result<(), Conflict> {
        let old = &cell.write;
        self.after(old, new, true)?;
        if old.kind & (GAP | MBARRIER) != 0 && new.kind & (MBARRIER | ENDS) == 0 {
            return Err(if old.kind & GAP != 0 { Conflict::Gap(old.pc) } else { Conflict::Mbarrier });
        }
        if new.kind & !old.kind & ASYNC != 0
            && old.clock != 0
            && !self.before.is_fenced(self.proxy, self.new.cluster, old)
        {
            return Err(Conflict::Unfenced { first: *old });
        }
        Ok(())
    }

    fn read(&self, cell: &mut Cell, lists: &mut Lists, new: Access) -> Result<(), Conflict> {
        if let Some(unwritten) = self.unwritten
            && cell.write.clock == 0
        {
            unwritten.set(true);
        }
        let same = |read: &Access| read.same_time(&new) && read.kind == new.kind && !read.wrote;
        let repeated = cell.reads.iter().position(same);
        if let Some(i) = repeated
            && cell.reads[i].lane == new.lane
            && cell.reads[i].shift == new.shift
        {
            return Ok(());
        }
        self.after_write(cell, &new)?;
        cell.reads.iter().filter(|read| read.wrote).try_for_each(|write| self.after(write, &new, true))?;
        if new.kind & READ_ONLY != 0 && cell.write.clock != 0 {
            return Err(Conflict::ReadOnly { first: cell.write, wrote: true });
        }
        if let Some(i) = repeated {
            cell.reads[i].lane = if new.lane == NO_LANE { NO_LANE } else { MANY_LANES };
            return Ok(());
        }
        // A read stands for those that are ordered before it.
        let replaced = |read: &Access| !read.wrote && (read.is_of(&new) || self.has(read));
        let place = cell.reads.iter().position(|read| read.clock == 0 || replaced(read));
        if let Some(i) = place {
            cell.reads[i] = new;
            return Ok(());
        }
        let several = cell.reads[0].cluster != cell.reads[1].cluster;
        if cell.more == 0 {
            cell.more = lists.add(Vec::new());
        }
        let list = &mut lists.lists[cell.more as usize - 1];
        let full = list.len() + 2 >= if several { self.readers } else { ONE_CLUSTER };
        if full && several {
            return Ok(());
        }
        match list.iter().position(|read| read.is_of(&new) || self.has(read)) {
            Some(i) if list[i].same_time(&new) && list[i].lane != new.lane => list[i].lane = MANY_LANES,
            Some(i) => list[i] = new,
            // One of another cluster has its place where it is found at once.
            None if cell.reads[1].cluster != new.cluster && !cell.reads[1].wrote && !several => {
                list.push(std::mem::replace(&mut cell.reads[1], new));
            }
            None if !full => list.push(new),
            None => {}
        }
        Ok(())
    }

    fn write(&self, cell: &mut Cell, lists: &mut Lists, new: Access) -> Result<(), Conflict> {
        self.after_write(cell, &new)?;
        for read in &cell.reads {
            self.after(read, &new, read.wrote)?;
            if read.kind & READ_ONLY != 0 {
                return Err(Conflict::ReadOnly { first: *read, wrote: false });
            }
        }
        if cell.more != 0 {
            lists.lists[cell.more as usize - 1].iter().try_for_each(|read| self.after(read, &new, false))?;
            lists.free.push(cell.more);
        }
        // Who is ordered after a weak write is so after a strong one of the same time, but the other has no need to.
        let weak = cell.write.same_time(&new) && new.kind & !cell.write.kind & STRONG != 0;
        let reads =
            if new.kind & STRONG != 0 && !new.gives { self.unordered(cell) } else { Default::default() };
        *cell = Cell { write: if weak { cell.write } else { new }, reads, ..Cell::default() };
        Ok(())
    }

    /// The writes that the access is not ordered after, two at most.
    fn unordered(&self, cell: &Cell) -> [Access; 2] {
        let before = cell.reads.iter().filter(|read| read.wrote).chain([&cell.write]);
        let mut writes = before.filter(|write| write.clock != 0 && !self.has(write));
        [(); 2].map(|()| writes.next().map_or(Access::default(), |&write| Access { wrote: true, ..write }))
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
        write.or_else(|| self.reads.iter().chain(more).find(late).map(|&read| (read, read.wrote)))
    }

    /// Gives back the list of more reads.
    pub(super) fn forget(&mut self, lists: &mut Lists) {
        if self.more != 0 {
            lists.free.push(self.more);
            self.more = 0;
        }
    }
}
