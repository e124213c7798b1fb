//! Preceding grids that may still run.
//!
//! A grid with programmatic dependent launch may begin when the preceding one launches its dependents, or ends. Here launches follow each other, so
//! what it could have met is looked up: which bytes of global memory the preceding grids have read and written. Until it has waited for
//! them, it may not write what they accessed, nor read what they wrote. PTX ISA, "Parallel Synchronization and Communication
//! Instructions: griddepcontrol".

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::global::{GlobalOrder, PAGE};
use crate::error::Reason;
use crate::memory::budget::{Budget, Held};

/// What memory is held for.
const WHAT: &str = "what is known of grids that may still run";

/// Bits for the bytes of a page.
type Bits = [u64; PAGE / 64];

/// The bytes of a page that were accessed, and those that were written.
#[derive(Debug)]
struct Page {
    accessed: Bits,
    written: Bits,
}

impl Default for Page {
    fn default() -> Self {
        Self { accessed: [0; PAGE / 64], written: [0; PAGE / 64] }
    }
}

/// Grids of a stream that may still run when the next one begins: at first none.
///
/// For [`Emulator::launch_behind`](crate::Emulator::launch_behind). A new one stands for work that has ended.
#[derive(Debug, Default)]
pub struct Preceding {
    /// The kernel of the last one.
    kernel: String,
    pages: HashMap<u64, Page>,
    held: Option<Held>,
}

impl Preceding {
    /// The kernel of the last grid.
    pub(super) fn kernel(&self) -> &str {
        &self.kernel
    }

    /// There are none that accessed anything.
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// What they did that an access of these bytes meets: whether they wrote them.
    pub(super) fn meets(&self, at: u64, bytes: usize, wrote: bool) -> Option<bool> {
        let mut pieces = words(at..at.saturating_add(bytes as u64));
        pieces.find_map(|(page, word, mask)| {
            let page = self.pages.get(&page)?;
            let written = page.written[word] & mask != 0;
            (written || wrote && page.accessed[word] & mask != 0).then_some(written)
        })
    }

    /// One more grid, the last of them. Those before it may still run unless it launched its dependents behind its wait for them.
    pub(crate) fn follow(
        &mut self,
        kernel: &str,
        order: &GlobalOrder,
        budget: &Arc<Budget>,
    ) -> Result<(), Reason> {
        if order.has_waited() {
            *self = Self::default();
        }
        let held = match &mut self.held {
            Some(held) => held,
            none => none.insert(budget.hold(0, WHAT)?),
        };
        self.kernel = kernel.to_owned();
        let pages = &mut self.pages;
        order.each_access(|at, bytes, wrote| {
            for (number, word, mask) in words(at..at + bytes) {
                if !pages.contains_key(&number) {
                    held.grow(size_of::<Page>() as u64, WHAT)?;
                }
                let page = pages.entry(number).or_default();
                page.accessed[word] |= mask;
                page.written[word] |= if wrote { mask } else { 0 };
            }
            Ok(())
        })
    }
}

/// The words of bits that a range of bytes has: the page, the word of it, and the bits.
fn words(bytes: Range<u64>) -> impl Iterator<Item = (u64, usize, u64)> {
    let mut at = bytes.start;
    std::iter::from_fn(move || {
        let next = (at / 64 * 64).saturating_add(64).min(bytes.end);
        let count = next.checked_sub(at).filter(|&count| count > 0)?;
        let mask = (u64::MAX >> (64 - count)) << (at % 64);
        let piece = (at / PAGE as u64, at as usize % PAGE / 64, mask);
        at = next;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn a_range_is_cut_at_words_and_pages() {
        assert_eq!(words(5..5).count(), 0);
        assert_eq!(words(4..8).collect::<Vec<_>>(), [(0, 0, 0xf0)]);
        let all: Vec<_> = words(4096 + 60..8192 + 1).collect();
        assert_eq!(all.len(), 65);
        assert_eq!((all[0], all[1], all[64]), ((1, 0, 0xf << 60), (1, 1, u64::MAX), (2, 0, 1)));
    }
}
