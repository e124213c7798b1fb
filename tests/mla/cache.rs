//! Latent caches: in shuffled pages or not, with NaN in whatever is no sequence's.

use tilewright::{Device, Element, F8E4M3, Result, Tensor, bf16};
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

/// How the keys of queries of `T` are kept.
pub trait Kept<T>: Element {
    /// What a NaN is, in whatever column.
    const POISON: Self;
    /// Elements of a key of `d` columns.
    fn width(d: usize) -> usize;
    /// A key, and the same as queries see it.
    fn keep(key: Vec<T>) -> (Vec<Self>, Vec<T>);
}

/// As they are.
impl<T: Real> Kept<T> for T {
    const POISON: T = <T as Real>::POISON;
    fn width(d: usize) -> usize {
        d
    }
    fn keep(key: Vec<T>) -> (Vec<T>, Vec<T>) {
        (key.clone(), key)
    }
}

/// As records: codes of 512 columns, a scale for 128 of them each, and 64 columns as they are.
impl Kept<bf16> for u8 {
    const POISON: u8 = u8::MAX;
    fn width(d: usize) -> usize {
        assert_eq!(d, 576, "columns of a record");
        656
    }
    fn keep(key: Vec<bf16>) -> (Vec<u8>, Vec<bf16>) {
        let (latent, rotary) = key.split_at(512);
        let (mut codes, mut scales, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        for (i, columns) in latent.chunks(128).enumerate() {
            // Each of another size, so that none is taken for another.
            let most = columns.iter().fold(0.0f32, |most, x| most.max(x.to_f32().abs()));
            let scale = most / (448.0 - 50.0 * i as f32);
            scales.extend(scale.to_le_bytes());
            for x in columns {
                let code = F8E4M3::from_f32(x.to_f32() / scale);
                codes.push(code.to_bits());
                seen.push(bf16::from_f32(code.to_f32() * scale));
            }
        }
        let record =
            [codes, scales, rotary.iter().flat_map(|x| x.to_bits().to_le_bytes()).collect()].concat();
        seen.extend(rotary);
        (record, seen)
    }
}

/// The keys of a case, on the host and on a device.
pub struct Cache<T, C = T> {
    pub tensor: Tensor<C>,
    pub table: Option<Tensor<i32>>,
    /// The table, if the device has none.
    pub pages: Vec<i32>,
    keys: Vec<Vec<T>>,
}

impl<T: Real, C: Kept<T>> Cache<T, C> {
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
        let width = C::width(d);
        let mut elements = vec![C::POISON; count * rows * width];
        for (sequence, keys) in keys.iter_mut().enumerate() {
            let mut kept = Vec::new();
            for key in keys.chunks_mut(d) {
                let (elements, seen) = C::keep(key.to_vec());
                key.copy_from_slice(&seen);
                kept.extend(elements);
            }
            for (page, kept) in order[sequence * entries..].iter().zip(kept.chunks(rows * width)) {
                elements[page * rows * width..][..kept.len()].copy_from_slice(kept);
            }
        }
        let tensor = Tensor::from_slice(device, &elements, &[count, rows, 1, width])?;
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
