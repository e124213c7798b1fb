//! Keys and values in a cache: of lengths of their own, in pages, with NaN in whatever is not theirs.

use tilewright::{Device, Result, Tensor};
use tilewright_support::Real;

use crate::operand::{Operand, Place};

/// How keys and values lie.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    /// Keys of each sequence; all of them if it is none.
    pub lengths: Option<Vec<usize>>,
    /// Rows of a page.
    pub page: Option<usize>,
}

/// Pages that belong to nobody.
const SPARE: usize = 3;

impl Cache {
    /// Keys of a sequence.
    pub fn length(&self, sequence: usize, keys: usize) -> usize {
        self.lengths.as_ref().map_or(keys, |lengths| lengths[sequence])
    }

    pub fn lengths(&self, device: &Device) -> Result<Option<Tensor<i32>>> {
        let Some(lengths) = &self.lengths else { return Ok(None) };
        let lengths: Vec<i32> = lengths.iter().map(|&length| length as i32).collect();
        Tensor::from_slice(device, &lengths, &[lengths.len()]).map(Some)
    }

    /// The page of each entry of the table, shuffled.
    fn pages(entries: usize) -> Vec<usize> {
        let all = entries + SPARE;
        // A step that has no divisor in common with their number reaches every page.
        let step = (all / 2 + 1..).find(|&step| gcd(step, all) == 1).unwrap_or(1);
        (0..entries).map(|entry| (entry + 1) * step % all).collect()
    }

    /// For keys of this shape.
    pub fn table(&self, device: &Device, [batch, _, keys, _]: [usize; 4]) -> Result<Option<Tensor<i32>>> {
        let Some(rows) = self.page else { return Ok(None) };
        let entries = keys.div_ceil(rows);
        let pages: Vec<i32> = Self::pages(batch * entries).into_iter().map(|page| page as i32).collect();
        Tensor::from_slice(device, &pages, &[batch, entries]).map(Some)
    }

    /// Keys or values, [batch, heads, keys, columns], as they lie in the cache.
    pub fn operand<T: Real>(&self, device: &Device, place: Place, elements: &[T]) -> Result<Operand<T>> {
        let [batch, heads, keys, columns] = place.shape;
        let mut elements = elements.to_vec();
        for (line, elements) in elements.chunks_mut(columns.max(1)).enumerate() {
            let (sequence, key) = (line / keys / heads, line % keys);
            if key >= self.length(sequence, keys) {
                elements.fill(T::POISON);
            }
        }
        let Some(rows) = self.page else { return Operand::new(device, place, &elements) };
        let entries = keys.div_ceil(rows);
        let pages = Self::pages(batch * entries);
        let shape = [batch * entries + SPARE, heads, rows, columns];
        let mut paged = vec![T::POISON; shape.iter().product()];
        for (line, elements) in elements.chunks(columns).enumerate() {
            let (sequence, head, key) = (line / keys / heads, line / keys % heads, line % keys);
            let page = pages[sequence * entries + key / rows];
            let to = ((page * heads + head) * rows + key % rows) * columns;
            paged[to..][..columns].copy_from_slice(elements);
        }
        // Caches have the heads of a row side by side.
        Operand::new(device, Place::bshd(shape), &paged)
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
