//! Tiles of tensors in global memory.

use crate::arch::atomic;
use crate::layout::{Element, Major, RowMajor};
use crate::tile::memory::global::Global;
use crate::tile::memory::window::Window;

/// One tile of a tensor, to be copied from; what lies outside the tensor reads as zero.
pub struct GlobalTile<T, const RANK: usize, O = RowMajor, const BOX: usize = 64> {
    pub(in crate::tile) of: Global<T, RANK, O, BOX>,
    pub(in crate::tile) index: [u32; RANK],
    /// The matrix's row from which tiles are counted.
    first: u32,
    /// Rows from there on that are the tiles', if the matrix has so many.
    rows: u32,
    /// The matrix's column from which tiles are counted.
    first_col: u32,
    /// The column behind the tiles' last one, if the matrix has so many. Not a number of columns, as `rows` is one of rows: less is computed of it where all are the tiles'.
    end_col: u32,
    /// Whether the caller vouches for the leading indices.
    vouched: bool,
    /// Whole and ragged tiles are stored by the same code.
    pub(in crate::tile) sparing: bool,
    /// Whether other CTAs of the cluster take another one.
    pub(in crate::tile) own: bool,
    /// Whether what a stage holds of rows, or of columns, outside of the tensor may stay.
    kept: [bool; 2],
    /// Lines of each tile, if not all that it has room for.
    pub(in crate::tile) short: Option<u32>,
}

/// One tile of a tensor, to be copied to; what lies outside the tensor is not stored.
pub struct GlobalTileMut<T, const RANK: usize, O = RowMajor, const BOX: usize = 64>(
    pub(in crate::tile) GlobalTile<T, RANK, O, BOX>,
);

/// A tile as lines along its contiguous dimension.
pub struct Lines {
    /// The first line's first byte.
    pub pointer: *const u8,
    /// Bytes between lines.
    pub stride: u64,
    /// Lines of the tile that are inside the tensor.
    pub inside: u32,
    /// Bytes of a line that are inside the tensor.
    pub bytes: u32,
}

impl<T: Element, const RANK: usize, O: Major, const BOX: usize> GlobalTileMut<T, RANK, O, BOX> {
    /// Stores the element at (row, col) of the tile, if tiles are of `R` x `C`; nothing outside of the tensor.
    #[inline(always)]
    pub fn put<const R: usize, const C: usize>(&self, row: u32, col: u32, x: T) {
        self.0.window(R, C).write(row, col, x)
    }
    /// The same tile of the matrix of `rows` rows that begins at row `first` of this one: nothing behind it is stored.
    #[inline(always)]
    pub fn of_rows(self, first: u32, rows: u32) -> Self {
        GlobalTileMut(self.0.of_rows(first, rows))
    }
    /// The same tile, stored by the same code whether it is whole or not: slower, for kernels that have no register left.
    #[inline(always)]
    pub fn sparing(self) -> Self {
        GlobalTileMut(GlobalTile { sparing: true, ..self.0 })
    }
}

impl<const RANK: usize, O: Major, const BOX: usize> GlobalTileMut<f32, RANK, O, BOX> {
    /// Makes the element at (row, col) of the tile the greater of itself and the magnitude of `x`, atomically; nothing outside of the tensor. A NaN in `x` makes it NaN, which it
    /// remains.
    #[inline(always)]
    pub fn raise<const R: usize, const C: usize>(&self, row: u32, col: u32, x: f32) {
        let window = self.0.window(R, C);
        let inside = row < window.rows && col < window.cols;
        // As integers, magnitudes are ordered as numbers are, NaN last, and greater than whatever has a sign.
        // SAFETY: the tensor's host view says that its elements are writable and aligned.
        unsafe { atomic::red_max_i32_if(window.at(row, col).cast(), x.abs().to_bits() as i32, inside) }
    }
}

impl<T: Element, const RANK: usize, O: Major, const BOX: usize> GlobalTileMut<T, RANK, O, BOX> {
    /// The same tile where each has `lines` lines alone, if any are named, and the next one begins behind them: nothing else is stored.
    #[inline(always)]
    pub fn short(self, lines: Option<u32>) -> Self {
        GlobalTileMut(GlobalTile { short: lines, ..self.0 })
    }
}

impl<T: Element, const RANK: usize, O: Major, const BOX: usize> GlobalTileMut<T, RANK, O, BOX> {
    /// The same tile of the matrix of `cols` columns that begins at column `first` of this one: nothing behind it is stored.
    #[inline(always)]
    pub fn of_cols(self, first: u32, cols: u32) -> Self {
        GlobalTileMut(GlobalTile { first_col: first, end_col: first.saturating_add(cols), ..self.0 })
    }
}

impl<T, const RANK: usize, O, const BOX: usize> GlobalTile<T, RANK, O, BOX> {
    /// The tile at `index`.
    #[inline(always)]
    pub(in crate::tile) fn new(of: Global<T, RANK, O, BOX>, index: [u32; RANK]) -> Self {
        GlobalTile {
            of,
            index,
            first: 0,
            rows: u32::MAX,
            first_col: 0,
            end_col: u32::MAX,
            vouched: false,
            sparing: false,
            own: false,
            kept: [false; 2],
            short: None,
        }
    }
    /// The same, whose leading indices are inside, as the caller vouches.
    #[inline(always)]
    pub(in crate::tile) fn vouched(self) -> Self {
        GlobalTile { vouched: true, ..self }
    }
}

impl<T: Element, const RANK: usize, O: Major, const BOX: usize> GlobalTile<T, RANK, O, BOX> {
    /// The same tile of the matrix of `rows` rows that begins at row `first` of this one. By TMA what lies behind its rows is
    /// copied too.
    #[inline(always)]
    pub fn of_rows(self, first: u32, rows: u32) -> Self {
        GlobalTile { first, rows, ..self }
    }
    /// The same tile where each has `lines` lines alone, if any are named, and the next one begins behind them: what lies between TMA's boxes and a tile's end keeps what is there, and
    /// is no part of the tensor.
    ///
    /// # Safety
    /// Where TMA copies it, the boxes of the host's map have `lines` lines, or equal parts of them, each a multiple of 8, where a tile is several boxes. The memory of the other lines has been
    /// written before ([`Stages::zero_lines`](crate::tile::Stages::zero_lines)), and what is computed from them is not used.
    #[inline(always)]
    pub unsafe fn short(self, lines: Option<u32>) -> Self {
        GlobalTile { short: lines, ..self }
    }
    /// The same tile, of this CTA alone: where the CTAs of a cluster share what they copy (multicast), not this one.
    #[inline(always)]
    pub fn own(self) -> Self {
        GlobalTile { own: true, ..self }
    }
    /// The same tile, of which rows outside of the tensor keep what is there, if `so`, and do not become zeros, where TMA copies whole boxes of them: it takes
    /// longer over those than over boxes inside.
    ///
    /// # Safety
    /// The memory has been written before, and what is computed from such rows is not used.
    #[inline(always)]
    pub unsafe fn rows_kept(self, so: bool) -> Self {
        GlobalTile { kept: [so, false], ..self }
    }
    /// The same of columns.
    ///
    /// # Safety
    /// The memory has been written before, and what is computed from such columns is not used.
    #[inline(always)]
    pub unsafe fn cols_kept(self, so: bool) -> Self {
        GlobalTile { kept: [false, so], ..self }
    }
    /// Of a tile of `r` x `c` in lines of `chunks` chunks of `chunk` elements, how many lines and chunks TMA has to fill at most; none if that is all of it,
    /// whatever lies outside.
    #[inline(always)]
    pub(in crate::tile) fn filled(
        &self,
        (r, c): (usize, usize),
        [chunks, chunk]: [u32; 2],
    ) -> Option<[u32; 2]> {
        let [of_lines, of_chunks] = if O::ROW_MAJOR { self.kept } else { [self.kept[1], self.kept[0]] };
        if !of_lines && !of_chunks {
            return None;
        }
        let (row, col) = self.corner(r, c);
        let (across, line) = if O::ROW_MAJOR { (RANK - 2, row) } else { (RANK - 1, col) };
        let (along, first) = if O::ROW_MAJOR { (RANK - 1, col) } else { (RANK - 2, row) };
        let inside = [
            self.of.shape[across].saturating_sub(line).next_multiple_of(BOX as u32),
            self.of.shape[along].saturating_sub(first).div_ceil(chunk),
        ];
        let chunks = if of_chunks && inside[1] < chunks { inside[1] } else { chunks };
        Some([if of_lines { inside[0] } else { u32::MAX }, chunks])
    }
    /// The element at (row, col) of the tile, if tiles are of `R` x `C`; zero outside of the tensor.
    #[inline(always)]
    pub fn element<const R: usize, const C: usize>(&self, row: u32, col: u32) -> T {
        self.window(R, C).read(row, col)
    }
    /// Whether the first `rows` rows and `cols` columns of a tile of `r` x `c` are all among those that are the tiles'.
    #[inline(always)]
    pub(in crate::tile) fn holds(&self, [r, c]: [usize; 2], [rows, cols]: [u32; 2]) -> bool {
        let lines = if O::ROW_MAJOR { rows } else { cols };
        let holds_lines = self.short.is_none_or(|short| lines <= short);
        let holds_rows =
            self.rows == u32::MAX || self.index[RANK - 2] * self.steps(r, c)[0] + rows <= self.rows;
        holds_lines && holds_rows && (self.end_col == u32::MAX || self.corner(r, c).1 + cols <= self.end_col)
    }
    /// Whether all rows and columns are the tiles'.
    #[inline(always)]
    pub(in crate::tile) fn is_of_all(&self) -> bool {
        self.rows == u32::MAX && self.end_col == u32::MAX
    }
    /// Whether the tensor has its matrix: a grid may be larger than the tensor.
    #[inline(always)]
    fn has_matrix(&self) -> bool {
        let (mut lead, mut inside) = (0, true);
        while lead < RANK - 2 && !self.vouched {
            inside &= self.index[lead] < self.of.shape[lead];
            lead += 1;
        }
        inside
    }
    /// Rows that are inside, from a tile of `r` x `c` on.
    #[inline(always)]
    fn rows_inside(&self, r: usize, c: usize) -> u32 {
        if !self.has_matrix() {
            return 0;
        }
        let row = self.index[RANK - 2] * self.steps(r, c)[0];
        let inside = self.of.shape[RANK - 2].saturating_sub(self.first + row);
        let inside = if self.rows == u32::MAX { inside } else { inside.min(self.rows.saturating_sub(row)) };
        self.short.filter(|_| O::ROW_MAJOR).map_or(inside, |short| inside.min(short))
    }
    /// Columns that are inside, from the tile's first column `col` on.
    #[inline(always)]
    fn cols_inside(&self, col: u32) -> u32 {
        let inside = self.of.shape[RANK - 1].min(self.end_col).saturating_sub(col);
        self.short.filter(|_| !O::ROW_MAJOR).map_or(inside, |short| inside.min(short))
    }
    /// Rows and columns from one tile of `r` x `c` to the next.
    #[inline(always)]
    fn steps(&self, r: usize, c: usize) -> [u32; 2] {
        match self.short {
            None => [r as u32, c as u32],
            Some(lines) if O::ROW_MAJOR => [lines, c as u32],
            Some(lines) => [r as u32, lines],
        }
    }
    /// The tile's first row and column.
    #[inline(always)]
    pub(in crate::tile) fn corner(&self, r: usize, c: usize) -> (u32, u32) {
        let [rows, cols] = self.steps(r, c);
        (self.first + self.index[RANK - 2] * rows, self.first_col + self.index[RANK - 1] * cols)
    }

    #[inline(always)]
    pub(in crate::tile) fn window(&self, r: usize, c: usize) -> Window<T> {
        let (row, col) = self.corner(r, c);
        let mut offset = row as u64 * self.of.strides[RANK - 2] + col as u64 * self.of.strides[RANK - 1];
        let mut lead = 0;
        while lead < RANK - 2 {
            offset += self.index[lead] as u64 * self.of.strides[lead];
            lead += 1;
        }
        Window {
            pointer: self.of.pointer.wrapping_add(offset as usize),
            row_stride: self.of.strides[RANK - 2],
            col_stride: self.of.strides[RANK - 1],
            rows: self.rows_inside(r, c),
            cols: self.cols_inside(col),
        }
    }

    /// The tile as lines along the contiguous dimension, whose stride is taken to be 1, if tiles are of `r` x `c`.
    #[inline(always)]
    pub fn lines(&self, r: usize, c: usize) -> Lines {
        let (row, col) = self.corner(r, c);
        let across = if O::ROW_MAJOR { RANK - 2 } else { RANK - 1 };
        let (line, first) = if O::ROW_MAJOR { (row, col) } else { (col, row) };
        let mut offset = line as u64 * self.of.strides[across] + first as u64;
        let mut lead = 0;
        while lead < RANK - 2 {
            offset += self.index[lead] as u64 * self.of.strides[lead];
            lead += 1;
        }
        Lines {
            pointer: self.of.pointer.wrapping_add(offset as usize).cast(),
            stride: self.of.strides[across] * T::BYTES as u64,
            inside: if O::ROW_MAJOR { self.rows_inside(r, c) } else { self.cols_inside(col) },
            bytes: (if O::ROW_MAJOR { self.cols_inside(col) } else { self.rows_inside(r, c) })
                .saturating_mul(T::BYTES as u32),
        }
    }

    /// The coordinates of the TMA box that begins `across` lines and `along` elements into the tile.
    #[inline(always)]
    pub(in crate::tile) fn box_at(&self, r: usize, c: usize, across: u32, along: u32) -> [u32; RANK] {
        let (row, col) = self.corner(r, c);
        let mut coords = [0; RANK];
        (coords[0], coords[1]) =
            if O::ROW_MAJOR { (col + along, row + across) } else { (row + along, col + across) };
        let mut lead = 0;
        while lead < RANK - 2 {
            coords[RANK - 1 - lead] = self.index[lead];
            lead += 1;
        }
        coords
    }
}
