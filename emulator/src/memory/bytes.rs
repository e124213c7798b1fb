//! Bytes as instructions access them: elements of 1, 2, 4 or 8 bytes, each aligned to its size.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::program::register::{L32, L64, LANES, lanes_of};

/// Where a lane's element begins among some bytes.
pub(crate) type Offsets = [usize; LANES];

/// Memory that is read. Offsets are inside.
pub(crate) trait Source {
    fn byte(&self, at: usize) -> u8;
    fn half(&self, at: usize) -> u16;
    fn word(&self, at: usize) -> u32;
    /// Puts the halves, or the words, of all lanes, which follow each other from here on.
    fn halves(&self, at: usize, into: &mut L32);
    fn words(&self, at: usize, into: &mut L32);

    #[inline(always)]
    fn double(&self, at: usize) -> u64 {
        u64::from(self.word(at)) | u64::from(self.word(at + 4)) << 32
    }

    #[inline(always)]
    fn doubles(&self, at: &Offsets) -> L64 {
        lanes_of(|lane| self.double(at[lane]))
    }

    /// An element of `size` bytes, at most four, extended with zeros.
    #[inline(always)]
    fn element(&self, at: usize, size: u32) -> u32 {
        match size {
            1 => self.byte(at).into(),
            2 => self.half(at).into(),
            _ => self.word(at),
        }
    }

    /// Puts those of all lanes.
    #[inline(always)]
    fn elements(&self, at: &Offsets, size: u32, into: &mut L32) {
        let all = into.iter_mut().zip(at);
        match size {
            1 => all.for_each(|(into, &at)| *into = self.byte(at).into()),
            2 => all.for_each(|(into, &at)| *into = self.half(at).into()),
            _ => all.for_each(|(into, &at)| *into = self.word(at)),
        }
    }
}

/// Memory that is written. Offsets are inside.
pub(crate) trait Sink {
    /// The low `size` bytes of an element, at most four.
    fn put(&mut self, at: usize, size: u32, value: u32);
    /// The low halves, or the words, of all lanes, which follow each other from here on.
    fn put_halves(&mut self, at: usize, values: &L32);
    fn put_words(&mut self, at: usize, values: &L32);
    /// Bytes that follow each other, whole words.
    fn put_piece(&mut self, at: usize, piece: &[u8; 16]);

    #[inline(always)]
    fn put_double(&mut self, at: usize, value: u64) {
        self.put(at, 4, value as u32);
        self.put(at + 4, 4, (value >> 32) as u32);
    }
}

/// Memory of one thread of the host.
impl Source for [u8] {
    #[inline(always)]
    fn byte(&self, at: usize) -> u8 {
        self[at]
    }

    #[inline(always)]
    fn half(&self, at: usize) -> u16 {
        self[at..].first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes))
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u32 {
        self[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    #[inline(always)]
    fn halves(&self, at: usize, into: &mut L32) {
        for (value, bytes) in into.iter_mut().zip(self[at..][..2 * LANES].as_chunks().0) {
            *value = u16::from_le_bytes(*bytes).into();
        }
    }

    #[inline(always)]
    fn words(&self, at: usize, into: &mut L32) {
        for (value, bytes) in into.iter_mut().zip(self[at..][..4 * LANES].as_chunks().0) {
            *value = u32::from_le_bytes(*bytes);
        }
    }
}

impl Sink for [u8] {
    #[inline(always)]
    fn put(&mut self, at: usize, size: u32, value: u32) {
        match size {
            1 => self[at] = value as u8,
            2 => {
                if let Some(bytes) = self[at..].first_chunk_mut() {
                    *bytes = (value as u16).to_le_bytes();
                }
            }
            _ => {
                if let Some(bytes) = self[at..].first_chunk_mut() {
                    *bytes = value.to_le_bytes();
                }
            }
        }
    }

    #[inline(always)]
    fn put_halves(&mut self, at: usize, values: &L32) {
        for (bytes, value) in self[at..][..2 * LANES].as_chunks_mut().0.iter_mut().zip(values) {
            *bytes = (*value as u16).to_le_bytes();
        }
    }

    #[inline(always)]
    fn put_words(&mut self, at: usize, values: &L32) {
        for (bytes, value) in self[at..][..4 * LANES].as_chunks_mut().0.iter_mut().zip(values) {
            *bytes = value.to_le_bytes();
        }
    }

    #[inline(always)]
    fn put_piece(&mut self, at: usize, piece: &[u8; 16]) {
        if let Some(bytes) = self[at..].first_chunk_mut() {
            *bytes = *piece;
        }
    }
}

/// Memory of several threads: each sees some value of a word, as on a GPU.
impl Source for [AtomicU32] {
    #[inline(always)]
    fn byte(&self, at: usize) -> u8 {
        (self[at / 4].load(Relaxed) >> (8 * (at % 4))) as u8
    }

    #[inline(always)]
    fn half(&self, at: usize) -> u16 {
        (self[at / 4].load(Relaxed) >> (8 * (at % 4))) as u16
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u32 {
        self[at / 4].load(Relaxed)
    }

    #[inline(always)]
    fn halves(&self, at: usize, into: &mut L32) {
        if !at.is_multiple_of(4) {
            into.iter_mut().enumerate().for_each(|(lane, into)| *into = self.half(at + 2 * lane).into());
            return;
        }
        for (values, word) in into.as_chunks_mut().0.iter_mut().zip(&self[at / 4..][..LANES / 2]) {
            let word = word.load(Relaxed);
            *values = [word & 0xffff, word >> 16];
        }
    }

    #[inline(always)]
    fn words(&self, at: usize, into: &mut L32) {
        for (value, word) in into.iter_mut().zip(&self[at / 4..][..LANES]) {
            *value = word.load(Relaxed);
        }
    }
}

/// Bytes of a word beside those that are put stay.
impl Sink for &[AtomicU32] {
    #[inline(always)]
    fn put(&mut self, at: usize, size: u32, value: u32) {
        let word = &self[at / 4];
        if size >= 4 {
            word.store(value, Relaxed);
            return;
        }
        let shift = 8 * (at % 4) as u32;
        let mask = ((1u32 << (8 * size)) - 1) << shift;
        // Never `None`, so never an error.
        let _ = word.fetch_update(Relaxed, Relaxed, |old| Some(old & !mask | value << shift & mask));
    }

    #[inline(always)]
    fn put_halves(&mut self, at: usize, values: &L32) {
        if !at.is_multiple_of(4) {
            (0..LANES).for_each(|lane| self.put(at + 2 * lane, 2, values[lane]));
            return;
        }
        for (word, [low, high]) in self[at / 4..][..LANES / 2].iter().zip(values.as_chunks().0) {
            word.store(low & 0xffff | high << 16, Relaxed);
        }
    }

    #[inline(always)]
    fn put_words(&mut self, at: usize, values: &L32) {
        for (word, value) in self[at / 4..][..LANES].iter().zip(values) {
            word.store(*value, Relaxed);
        }
    }

    #[inline(always)]
    fn put_piece(&mut self, at: usize, piece: &[u8; 16]) {
        for (word, bytes) in self[at / 4..].iter().zip(piece.as_chunks().0) {
            word.store(u32::from_le_bytes(*bytes), Relaxed);
        }
    }
}
