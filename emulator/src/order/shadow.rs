//! The cells of a range of memory.
//!
//! A cell of shared memory is of 16 bytes, the size of what the matrix instructions and the copies access; one of global memory is
//! of 64, as of what warps access lanes follow each other. Where its bytes were accessed differently it is split into four, and these
//! again; a write of the whole joins it.

use std::ops::Range;

use super::access::Access;
use super::cell::{Cell, Check, Conflict, Lists};
use super::cells::Cells;

/// Logarithms of a cell's bytes, in shared and in global memory.
pub(super) const SHARED_CELL: u8 = 4;
pub(super) const GLOBAL_CELL: u8 = 6;

/// A cell: of the memory itself, or a part of another.
#[derive(Clone, Copy)]
enum Slot {
    Whole(usize),
    Part(u32, usize),
}

/// The part of a cell that an access covers.
#[derive(Clone, Copy)]
struct Part {
    /// In the cell.
    from: u32,
    to: u32,
    /// Bytes of the access before `from`.
    skip: u32,
}

/// What is remembered of a range of memory.
#[derive(Debug)]
pub(super) struct Shadow {
    /// Logarithm of a cell's bytes.
    cell: u8,
    cells: Cells,
    parts: Vec<[Cell; 4]>,
    free: Vec<u32>,
    lists: Lists,
}

impl Shadow {
    /// Of so many bytes, in cells of a size whose logarithm is `cell`: an even number.
    pub(super) fn new(bytes: usize, cell: u8) -> Self {
        let cells = Cells::new(bytes.div_ceil(1 << cell));
        Self { cell, cells, parts: Vec::new(), free: Vec::new(), lists: Lists::default() }
    }

    /// Bytes that this takes; it never gets less.
    pub(super) fn bytes(&self) -> u64 {
        self.cells.bytes() + (self.parts.len() * size_of::<[Cell; 4]>()) as u64 + self.lists.bytes()
    }

    /// Bytes that its cells would take more if all of the memory were accessed.
    pub(super) fn bytes_to_come(&self) -> u64 {
        self.cells.bytes_to_come()
    }

    /// Checks and remembers an access. What is outside is nobody's business here.
    pub(super) fn access(&mut self, from: usize, bytes: usize, check: &Check<'_>) -> Result<(), Conflict> {
        let size = self.cell;
        if bytes == 1 << size && from.is_multiple_of(bytes) && from >> size < self.cells.len() {
            let cell = self.cells.at(from >> size);
            if cell.split == 0 {
                return check.cell(cell, &mut self.lists, 0, size);
            }
        }
        let end = (from + bytes).min(self.cells.len() << size);
        let mut at = from;
        while at < end {
            let index = at >> size;
            let begin = index << size;
            let next = (begin + (1 << size)).min(end);
            let part =
                Part { from: (at - begin) as u32, to: (next - begin) as u32, skip: (at - from) as u32 };
            let cell = self.cells.at(index);
            if part.to - part.from == 1 << size && cell.split == 0 {
                check.cell(cell, &mut self.lists, part.skip, size)?;
            } else {
                self.within(Slot::Whole(index), size, part, check)?;
            }
            at = next;
        }
        Ok(())
    }

    fn cell(&mut self, slot: Slot) -> &mut Cell {
        match slot {
            Slot::Whole(index) => self.cells.at(index),
            Slot::Part(four, i) => &mut self.parts[four as usize - 1][i],
        }
    }

    fn within(&mut self, slot: Slot, size: u8, part: Part, check: &Check<'_>) -> Result<(), Conflict> {
        let whole = part.to - part.from == 1 << size;
        let mut four = self.cell(slot).split;
        if four == 0 && whole {
            let lists = &mut self.lists;
            let cell = match slot {
                Slot::Whole(index) => self.cells.at(index),
                Slot::Part(four, i) => &mut self.parts[four as usize - 1][i],
            };
            return check.cell(cell, lists, part.skip, size);
        }
        let size = size - 2;
        if four == 0 {
            four = self.divide(slot, size);
        }
        let bytes = 1 << size;
        for i in part.from / bytes..part.to.div_ceil(bytes) {
            let from = part.from.max(i * bytes);
            let to = part.to.min((i + 1) * bytes);
            let inner =
                Part { from: from - i * bytes, to: to - i * bytes, skip: part.skip + from - part.from };
            self.within(Slot::Part(four, i as usize), size, inner, check)?;
        }
        let parts = &self.parts[four as usize - 1];
        if whole && check.wrote && parts.iter().all(|part| part.write.kind == parts[0].write.kind) {
            // All parts have the same write, but for its lanes.
            let mut joined = parts[0];
            joined.write.shift = check.new.shift.min(size + 2);
            self.release(four);
            *self.cell(slot) = Cell { split: 0, ..joined };
        }
        Ok(())
    }

    /// Splits a cell into parts of this size.
    fn divide(&mut self, slot: Slot, size: u8) -> u32 {
        let mut cell = *self.cell(slot);
        let parts = [0, 1, 2, 3].map(|i| cell.part(&mut self.lists, i, size));
        cell.forget(&mut self.lists);
        let four = match self.free.pop() {
            Some(four) => {
                self.parts[four as usize - 1] = parts;
                four
            }
            None => {
                self.parts.push(parts);
                self.parts.len() as u32
            }
        };
        *self.cell(slot) = Cell { split: four, ..Cell::default() };
        four
    }

    /// Gives back the parts of a cell, which were just written and so are not split.
    fn release(&mut self, four: u32) {
        self.free.push(four);
    }

    /// The first access that is remembered for which `late` holds, and whether it wrote.
    pub(super) fn find(&self, late: &impl Fn(&Access) -> bool) -> Option<(Access, bool)> {
        self.cells.iter().find_map(|(_, cell)| self.find_in(cell, late))
    }

    fn find_in(&self, cell: &Cell, late: &impl Fn(&Access) -> bool) -> Option<(Access, bool)> {
        match cell.split {
            0 => cell.find(&self.lists, late),
            four => self.parts[four as usize - 1].iter().find_map(|part| self.find_in(part, late)),
        }
    }

    /// Calls `f` with each range of bytes that was accessed, and whether it was written.
    pub(super) fn each_access<E>(
        &self,
        f: &mut impl FnMut(Range<usize>, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let size = self.cell;
        self.cells.iter().try_for_each(|(index, cell)| self.each_in(cell, (index << size, size), f))
    }

    fn each_in<E>(
        &self,
        cell: &Cell,
        (at, size): (usize, u8),
        f: &mut impl FnMut(Range<usize>, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        match cell.split {
            0 if cell.write.clock != 0 => f(at..at + (1 << size), true),
            0 if cell.reads[0].clock != 0 => f(at..at + (1 << size), false),
            0 => Ok(()),
            four => {
                let (size, mut parts) = (size - 2, self.parts[four as usize - 1].iter().enumerate());
                parts.try_for_each(|(i, part)| self.each_in(part, (at + (i << size), size), f))
            }
        }
    }

    /// Which bytes nobody has written of some, up to 16: a bit for each.
    pub(super) fn unwritten(&mut self, from: usize, bytes: usize) -> u16 {
        let inside = from.saturating_add(bytes) <= self.cells.len() << self.cell;
        let missing = |i: &usize| inside && self.written(from + i).clock == 0;
        (0..bytes).filter(missing).fold(0, |all, i| all | 1 << i)
    }

    /// The write of the byte at an offset.
    pub(super) fn written(&mut self, at: usize) -> Access {
        let (mut slot, mut size) = (Slot::Whole(at >> self.cell), self.cell);
        loop {
            let cell = *self.cell(slot);
            if cell.split == 0 {
                return cell.write;
            }
            size -= 2;
            slot = Slot::Part(cell.split, at >> size & 3);
        }
    }
}
