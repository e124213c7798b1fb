//! One allocation of global memory.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::budget::{Budget, Held};
use crate::error::Reason;

/// Memory that one call allocated.
///
/// In words that are accessed atomically, without order: kernels that race see some value, as on a GPU, and CTAs on
/// several cores need no lock.
#[derive(Debug)]
pub(super) struct Allocation {
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) words: Box<[AtomicU32]>,
    /// Kernels do not write it.
    pub(super) constant: bool,
    /// A kernel allocated it.
    pub(super) heap: bool,
    /// Held by atomic operations of other than 4 bytes.
    pub(super) wide: Mutex<()>,
    pub(super) _held: Held,
}

impl Allocation {
    /// Memory of which every word is this.
    pub(super) fn new(start: u64, bytes: u64, word: u32, budget: &Arc<Budget>) -> Result<Self, Reason> {
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

    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes
    }

    pub(super) fn read(&self, at: u64, into: &mut [u8]) {
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

    pub(super) fn write(&self, at: u64, from: &[u8]) {
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
