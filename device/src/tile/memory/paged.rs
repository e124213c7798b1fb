//! Sequences whose rows lie in pages: paged caches of keys and values (Kwon et al. 2023).

use crate::abi::PassedAsIs;
use crate::arch::global;
use crate::layout::{Element, RowMajor};
use crate::tile::memory::global::Global;
use crate::tile::memory::global_tile::GlobalTile;

/// Which page of a tensor \[pages, heads, rows, columns\] holds which rows of a sequence: a block table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PageTable {
    /// Address of page numbers, `i32` in the low bytes of each, for each sequence as many as `entries`; 0 where sequence i is page i, whole.
    pub address: u64,
    /// Elements from one sequence's page numbers to the next one's.
    pub stride: u64,
    /// Page numbers of a sequence.
    pub entries: u32,
    /// The logarithm to base 2 of a page's rows.
    pub log2_rows: u32,
    /// The logarithm to base 2 of the bytes from one page number to the next.
    pub log2_bytes: u32,
    /// The end of a multiple of 8 bytes.
    pub padding: u32,
}

impl PageTable {
    /// Every sequence a page of its own.
    pub const NONE: Self =
        PageTable { address: 0, stride: 0, entries: 1, log2_rows: 31, log2_bytes: 0, padding: 0 };

    /// Rows of the boxes of TMA that copy tiles of `rows` rows: all of them where there are no pages; else as many as divide both a page
    /// and a tile, so that none reaches from one page into the next.
    #[inline(always)]
    pub const fn box_rows(&self, rows: u32) -> u32 {
        let dividing = rows & rows.wrapping_neg();
        match self.address {
            0 => rows,
            _ if dividing >> self.log2_rows == 0 => dividing,
            _ => 1 << self.log2_rows,
        }
    }

    /// Which row of its page row `row` of a sequence is; of all rows, where there is no table.
    #[inline(always)]
    pub(in crate::tile) fn row(&self, row: u32) -> u32 {
        row & ((1 << self.log2_rows) - 1)
    }

    /// The pages of `N` rows of a sequence, from `row` on, `step` apart, where there is a table. Beyond it they are none of the tensor's.
    ///
    /// Without branches, so that all numbers are on their way at a time.
    #[inline(always)]
    pub(in crate::tile) fn pages<const N: usize>(&self, sequence: u32, row: u32, step: u32) -> [u32; N] {
        let table = self.address + ((sequence as u64 * self.stride) << self.log2_bytes);
        let mut pages = [u32::MAX; N];
        let mut i = 0;
        while i < N {
            let entry = (row + i as u32 * step) >> self.log2_rows;
            let inside = entry < self.entries;
            // SAFETY: the host passes a table of so many sequences and entries. A page has 8 rows or more, and rows are numbered by 32 bits, so
            // that 8 bytes for each page of a sequence take less than 4 GiB.
            let number = unsafe {
                global::ld_global_u32_if((table + (entry << self.log2_bytes) as u64) as *const u32, inside)
            };
            pages[i] = if inside { number } else { u32::MAX };
            i += 1;
        }
        pages
    }

    /// Page and row of row `row` of a sequence. Beyond the table, the page is none of the tensor's.
    #[inline(always)]
    pub fn place(&self, sequence: u32, row: u32) -> (u32, u32) {
        let (entry, row) = (row >> self.log2_rows, self.row(row));
        if self.address == 0 {
            return (sequence, row);
        }
        if entry >= self.entries {
            return (u32::MAX, row);
        }
        let at = self.address + ((sequence as u64 * self.stride + entry as u64) << self.log2_bytes);
        // SAFETY: the host passes a table of so many sequences and entries.
        (unsafe { global::ld_global_u32(at as *const u32) }, row)
    }
}

impl PassedAsIs for PageTable {}

/// A tile of a sequence in pages: as many rows as it has, from a multiple of that on; columns likewise, from the first on unless said.
pub struct PagedTile<T, const BOX: usize> {
    pub(in crate::tile) of: Global<T, 4, RowMajor, BOX>,
    pub(in crate::tile) pages: PageTable,
    pub(in crate::tile) sequence: u32,
    pub(in crate::tile) head: u32,
    /// Which tile of the sequence.
    pub(in crate::tile) index: u32,
    /// Which tile of its columns.
    pub(in crate::tile) column: u32,
    /// Rows of the sequence.
    pub(in crate::tile) rows: u32,
    /// The row of its matrix at which a sequence without pages begins.
    pub(in crate::tile) first: u32,
    /// Whether it has none, and is copied as any matrix is.
    pub(in crate::tile) is_matrix: bool,
}

impl<T: Element, const BOX: usize> PagedTile<T, BOX> {
    /// The same tile, of a sequence that may also have no pages: then it is matrix `sequence` of the tensor from row `first` on, and rows behind
    /// its last are what the matrix holds. With a table of pages `first` is 0.
    #[inline(always)]
    pub fn or_rows(self, first: u32) -> Self {
        PagedTile { first, is_matrix: self.pages.address == 0, ..self }
    }

    /// The tile `column` tiles further along the columns.
    #[inline(always)]
    pub fn of_columns(self, column: u32) -> Self {
        PagedTile { column, ..self }
    }

    /// The tile of a matrix.
    #[inline(always)]
    pub(in crate::tile) fn matrix(self) -> GlobalTile<T, 4, RowMajor, BOX> {
        self.of.tile([self.sequence, self.head, self.index, self.column]).of_rows(self.first, u32::MAX)
    }
}

impl<T: Element, const BOX: usize> Global<T, 4, RowMajor, BOX> {
    /// Tile `index` of the sequence of `rows` rows whose pages of this tensor, \[pages, heads, rows, columns\], `pages` names.
    ///
    /// Pages that the tensor does not have are zeros. Rows behind the sequence's last are zeros or what else its page holds.
    #[inline(always)]
    pub fn paged(self, pages: PageTable, [sequence, head, index]: [u32; 3], rows: u32) -> PagedTile<T, BOX> {
        PagedTile { of: self, pages, sequence, head, index, column: 0, rows, first: 0, is_matrix: false }
    }
}
