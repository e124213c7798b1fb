//! Live stages: how far asynchronous copies run ahead of those who read them.
//!
//! A fill is what asynchronous copies write to a CTA's shared memory for one phase of one mbarrier, or, by `cp.async`,
//! between two of a warp's commits or arrivals; the n-th of every warp are one fill. It is live from when its first copy is
//! issued until the last time that something reads what it wrote. The largest number of fills live at a time is
//! the number of stages that a pipeline really uses; a tile that is loaded once and read for long is one of them.

use std::collections::HashMap;

use super::banks::PIECE;

/// Which copies belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fill {
    /// Those that complete this phase of the mbarrier at this address.
    Phase { mbarrier: u32, phase: u64 },
    /// Those of every warp's n-th batch.
    Batch(u64),
}

/// A fill, counted from 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer(u32);

impl Writer {
    /// Whatever is no asynchronous copy.
    pub(crate) const OTHER: Writer = Writer(0);
}

/// From when to when a fill was live.
#[derive(Clone, Copy, Debug)]
struct Life {
    first: u64,
    last: u64,
}

/// The fills of one CTA.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    lives: Vec<Life>,
    known: HashMap<Fill, Writer>,
    /// Who wrote each 16 bytes of shared memory last.
    writers: Vec<Writer>,
}

impl Stages {
    /// For shared memory up to this address.
    pub(crate) fn new(end: u32) -> Self {
        Self { writers: vec![Writer::OTHER; end.div_ceil(PIECE) as usize], ..Self::default() }
    }

    /// Bytes that what is known of them takes, about.
    pub(crate) fn bytes(&self) -> u64 {
        let each = size_of::<Life>() + 2 * size_of::<(Fill, Writer)>();
        (self.lives.len() * each + size_of_val(self.writers.as_slice())) as u64
    }

    /// Whether there were asynchronous copies.
    pub(crate) fn has_fills(&self) -> bool {
        !self.lives.is_empty()
    }

    /// Copies of this fill are about to write.
    pub(crate) fn writer(&mut self, fill: Fill, now: u64) -> Writer {
        let lives = &mut self.lives;
        *self.known.entry(fill).or_insert_with(|| {
            lives.push(Life { first: now, last: now });
            Writer(lives.len() as u32)
        })
    }

    /// Bytes are written.
    pub(crate) fn write(&mut self, at: u32, bytes: u32, writer: Writer) {
        if !self.has_fills() {
            return;
        }
        let (first, end) = ((at / PIECE) as usize, at.saturating_add(bytes).div_ceil(PIECE) as usize);
        if let Some(pieces) = self.writers.get_mut(first..end) {
            pieces.fill(writer);
        }
    }

    /// Something reads at most 16 aligned bytes here.
    pub(crate) fn read(&mut self, at: u32, now: u64) {
        let Writer(writer) = self.writers.get((at / PIECE) as usize).copied().unwrap_or(Writer::OTHER);
        if let Some(life) = (writer as usize).checked_sub(1).and_then(|index| self.lives.get_mut(index)) {
            life.last = now;
        }
    }

    /// The most fills that were live at a time.
    pub(crate) fn most(&self) -> u64 {
        let mut ends: Vec<u64> = self.lives.iter().map(|life| life.last).collect();
        ends.sort_unstable();
        // Fills begin in the order of the list.
        let mut over = 0;
        let live = self.lives.iter().enumerate().map(|(i, life)| {
            over += ends[over..].iter().take_while(|&&end| end < life.first).count();
            i + 1 - over
        });
        live.max().unwrap_or(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{Fill, Stages, Writer};

    fn fill(stages: &mut Stages, fill: Fill, at: u32, bytes: u32, now: u64) {
        let writer = stages.writer(fill, now);
        stages.write(at, bytes, writer);
    }

    #[test]
    fn fills_live_until_they_are_read_last() {
        let mut stages = Stages::new(4096);
        let phase = |phase| Fill::Phase { mbarrier: 8, phase };
        fill(&mut stages, phase(0), 1024, 256, 1);
        fill(&mut stages, phase(0), 2048, 256, 2);
        fill(&mut stages, phase(1), 1280, 256, 3);
        stages.read(2288, 4);
        assert_eq!(stages.most(), 2, "two copies of one phase are one fill");
        fill(&mut stages, phase(2), 1536, 16, 5);
        assert_eq!(stages.most(), 2, "neither is read after the third began");
        stages.read(1024, 6);
        stages.read(1280, 7);
        assert_eq!(stages.most(), 3);
    }

    #[test]
    fn what_others_wrote_is_no_stage() {
        let mut stages = Stages::new(4096);
        fill(&mut stages, Fill::Batch(0), 1024, 64, 1);
        stages.write(1024, 64, Writer::OTHER);
        fill(&mut stages, Fill::Batch(1), 2048, 64, 2);
        stages.read(1024, 3);
        assert_eq!(stages.most(), 1);
        fill(&mut stages, Fill::Batch(2), 4090, 600, 4);
        stages.read(8192, 5);
        assert_eq!(stages.most(), 1, "outside of shared memory is nothing");
    }
}
