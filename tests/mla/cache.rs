//! Latent caches: in shuffled pages or not, with NaN in whatever is no sequence's.

use tilewright::{Device, Result, Tensor};
use tilewright_support::Real;
use tilewright_support::random::normal;

use crate::case::Case;

/// How keys lie.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    /// Each sequence's by themselves.
    Dense,
    /// In pages of so many rows, with a table on the device.
    Pages(usize),
    /// The same, with a table in the host's memory.
    HostPages(usize),
}

/// Pages that belong to nobody.
const SPARE: usize = 3;

/// The keys of a case, on the host and on a device.
pub struct Cache<T> {
    pub tensor: Tensor<T>,
    pub table: Option<Tensor<i32>>,
    /// The table, if the device has none.
    pub pages: Vec<i32>,
    keys: Vec<Vec<T>>,
}

impl<T: Real> Cache<T> {
    pub fn new(device: &Device, case: &Case) -> Result<Self> {
        let (batch, [d, _]) = (case.lengths.len(), case.columns);
        let mut keys: Vec<Vec<T>> =
            (2..).zip(&case.lengths).map(|(seed, &length)| normal(seed, length as usize * d)).collect();
        if let Some(column) = case.nan {
            for keys in &mut keys {
                if let Some(x) = keys.chunks_mut(d).last().map(|key| &mut key[column]) {
                    *x = T::POISON;
                }
            }
        }
        let longest = case.lengths.iter().max().map_or(1, |&length| length.max(1)) as usize;
        let rows = match case.layout {
            Layout::Dense => longest,
            Layout::Pages(rows) | Layout::HostPages(rows) => rows,
        };
        let entries = longest.div_ceil(rows);
        let (count, order) = match case.layout {
            Layout::Dense => (batch, (0..batch).collect()),
            _ => (batch * entries + SPARE, shuffled(batch * entries)),
        };
        let mut elements = vec![T::POISON; count * rows * d];
        for (sequence, keys) in keys.iter().enumerate() {
            for (page, keys) in order[sequence * entries..].iter().zip(keys.chunks(rows * d)) {
                elements[page * rows * d..][..keys.len()].copy_from_slice(keys);
            }
        }
        let tensor = Tensor::from_slice(device, &elements, &[count, rows, 1, d])?;
        let numbers: Vec<i32> = order.into_iter().map(|page| page as i32).collect();
        let (table, pages) = match case.layout {
            Layout::Dense => (None, Vec::new()),
            Layout::Pages(_) => (Some(Tensor::from_slice(device, &numbers, &[batch, entries])?), Vec::new()),
            Layout::HostPages(_) => (None, numbers),
        };
        Ok(Cache { tensor, table, pages, keys })
    }

    /// The keys of a sequence, row-major.
    pub fn keys(&self, sequence: usize) -> &[T] {
        &self.keys[sequence]
    }
}

/// The page of each entry of a table.
fn shuffled(entries: usize) -> Vec<usize> {
    let all = entries + SPARE;
    // A step that has no divisor in common with their number reaches every page.
    let step = (all / 2 + 1..).find(|&step| gcd(step, all) == 1).unwrap_or(1);
    (0..entries).map(|entry| (entry + 1) * step % all).collect()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
