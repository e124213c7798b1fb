//! How the sequences of an attention lie.

use tilewright::{Device, Result};

use crate::place::{Place, Placed};
use crate::random::Random;

/// How sequences lie.
#[derive(Clone, Debug)]
pub enum Sequences {
    Equal,
    /// Of as many keys as a tensor says, which may be less than none and more than there is room for.
    Lengths(Vec<i32>),
    /// In pages of so many rows, of which this is the table; those that do not exist are zeros.
    Paged(usize, Vec<i32>, Option<Vec<i32>>),
    /// One after the other: queries and keys of each.
    Packed(Vec<[usize; 2]>),
}

impl Sequences {
    pub fn any(random: &mut Random, batch: usize, keys: usize) -> Self {
        if random.one_in(6) {
            let sizes = (0..random.within(1..=4)).map(|_| [random.size(90), random.size(150)]);
            return Sequences::Packed(sizes.collect());
        }
        Self::apart(random, batch, keys)
    }

    /// Each sequence in a matrix or in pages of its own.
    pub fn apart(random: &mut Random, batch: usize, keys: usize) -> Self {
        let lengths = |random: &mut Random, room: usize| -> Vec<i32> {
            (0..batch).map(|_| random.below(room + 8) as i32 - 3).collect()
        };
        match random.below(5) {
            0 => Sequences::Lengths(lengths(random, keys)),
            1 | 2 => {
                let rows = random.pick(&[8, 16, 32, 64, 128]);
                let entries = keys.div_ceil(rows).max(1);
                let pages = random.shuffled(batch * entries + 2);
                let mut table: Vec<i32> = pages[..batch * entries].iter().map(|&page| page as i32).collect();
                if random.one_in(4) && !table.is_empty() {
                    let at = random.below(table.len());
                    table[at] = random.pick(&[-1, i32::MIN, i32::MAX, 1 << 20]);
                }
                let lengths = random.one_in(2).then(|| lengths(random, entries * rows));
                Sequences::Paged(rows, table, lengths)
            }
            _ => Sequences::Equal,
        }
    }

    /// Keys that a sequence of a batch has room for, of which a matrix of its own has `keys`.
    pub fn room(&self, batch: usize, keys: usize) -> usize {
        match self {
            Sequences::Packed(all) => all.iter().map(|one| one[1]).sum(),
            Sequences::Paged(rows, table, _) => rows * table.len() / batch,
            _ => keys,
        }
    }

    /// Matrices of K, of which each sequence has one, or pages, and the rows of each.
    pub fn blocks(&self, batch: usize, keys: usize) -> [usize; 2] {
        match self {
            Sequences::Paged(rows, table, _) => [table.len() + 2, *rows],
            _ => [batch, keys],
        }
    }

    /// The keys of sequence `b` that count, of as many as it has room for.
    pub fn length(&self, b: usize, room: usize) -> usize {
        match self {
            Sequences::Lengths(lengths) | Sequences::Paged(_, _, Some(lengths)) => {
                room.min(lengths[b].max(0) as usize)
            }
            _ => room,
        }
    }

    /// The matrix or page of key `at` of sequence `b` of a batch, and its row there; none if there is no such page.
    pub fn place(&self, (b, batch): (usize, usize), at: usize) -> Option<(usize, usize)> {
        let Sequences::Paged(rows, table, _) = self else { return Some((b, at)) };
        let page = usize::try_from(table[b * table.len() / batch + at / rows]).ok();
        page.filter(|&page| page < table.len() + 2).map(|page| (page, at % rows))
    }

    /// Lengths and pages on a device, where there are any.
    pub fn on(&self, device: &Device, batch: usize) -> Result<[Option<Placed<i32>>; 2]> {
        let lengths = match self {
            Sequences::Lengths(lengths) | Sequences::Paged(_, _, Some(lengths)) => {
                Some(numbers(device, lengths, &[batch])?)
            }
            _ => None,
        };
        let table = match self {
            Sequences::Paged(_, table, _) => Some(numbers(device, table, &[batch, table.len() / batch])?),
            _ => None,
        };
        Ok([lengths, table])
    }
}

/// Numbers on a device: rows of a table may be apart.
pub fn numbers(device: &Device, values: &[i32], shape: &[usize]) -> Result<Placed<i32>> {
    let mut place = Place::packed(shape);
    if shape.len() > 1 {
        place.strides[0] += 3;
    }
    Placed::new(device, place, values)
}
