//! The cells of a range of memory, which come to be when they are accessed: of most memory that a CTA may use it uses little.

use super::cell::Cell;

/// Cells that come to be together.
const CHUNK: usize = 64;

/// Cells by their numbers.
#[derive(Debug)]
pub(super) struct Cells {
    /// Each of [`CHUNK`], or empty.
    chunks: Vec<Vec<Cell>>,
    count: usize,
    /// Chunks that are not empty.
    touched: usize,
}

impl Cells {
    /// So many.
    pub(super) fn new(count: usize) -> Self {
        Self { chunks: vec![Vec::new(); count.div_ceil(CHUNK)], count, touched: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> u64 {
        (self.chunks.len() * size_of::<Vec<Cell>>() + self.touched * CHUNK * size_of::<Cell>()) as u64
    }

    /// Bytes that they would take more if all had come to be.
    pub(super) fn bytes_to_come(&self) -> u64 {
        ((self.chunks.len() - self.touched) * CHUNK * size_of::<Cell>()) as u64
    }

    #[inline(always)]
    pub(super) fn at(&mut self, index: usize) -> &mut Cell {
        let chunk = &mut self.chunks[index / CHUNK];
        if chunk.is_empty() {
            self.touched += 1;
            chunk.resize(CHUNK, Cell::default());
        }
        &mut chunk[index % CHUNK]
    }

    /// Those that have come to be, with their numbers, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Cell)> {
        let all = self.chunks.iter().enumerate();
        all.flat_map(|(chunk, cells)| {
            cells.iter().enumerate().map(move |(i, cell)| (chunk * CHUNK + i, cell))
        })
    }
}
