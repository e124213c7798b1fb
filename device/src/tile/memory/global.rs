//! Tensors in global memory as kernels see them.

use core::marker::PhantomData;

use crate::abi::{GlobalAbi, GlobalArg, KernelArg, StridedAbi};
use crate::arch::tma::Coords;
use crate::layout::{Element, Major, RowMajor};
use crate::tile::memory::window::Window;

/// A tensor of `RANK` dimensions in global memory that a kernel reads.
///
/// The last two dimensions are a matrix's rows and columns; `O` says which of them is contiguous. `BOX`
/// is how many lines across the contiguous dimension one TMA box takes: it divides the tiles that are copied. A tensor with a
/// `BOX` of 0 is read to registers alone, never into stages, and may so have any strides in any kernel.
pub struct Global<T, const RANK: usize, O = RowMajor, const BOX: usize = 64> {
    pub(in crate::tile) map: *const u8,
    pub(in crate::tile) pointer: *mut T,
    pub(in crate::tile) strides: [u64; RANK],
    pub(in crate::tile) shape: [u32; RANK],
    pub(in crate::tile) policy: u64,
    pub(in crate::tile) align: u32,
    pub(in crate::tile) tma: bool,
    order: PhantomData<O>,
}

impl<T, const RANK: usize, O, const BOX: usize> Clone for Global<T, RANK, O, BOX> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const RANK: usize, O, const BOX: usize> Copy for Global<T, RANK, O, BOX> {}

/// A tensor of `RANK` dimensions in global memory that a kernel reads and writes.
pub struct GlobalMut<T, const RANK: usize, O = RowMajor, const BOX: usize = 64>(
    pub(in crate::tile) Global<T, RANK, O, BOX>,
);

/// One tile of a tensor, to be copied from; what lies outside the tensor reads as zero.
pub struct GlobalTile<T, const RANK: usize, O = RowMajor, const BOX: usize = 64> {
    pub(in crate::tile) of: Global<T, RANK, O, BOX>,
    pub(in crate::tile) index: [u32; RANK],
    /// The matrix's row from which tiles are counted.
    pub(in crate::tile) first: u32,
    /// Rows from there on that are the tiles', if the matrix has so many.
    pub(in crate::tile) rows: u32,
    /// Whether the caller vouches for the leading indices.
    vouched: bool,
    /// Whether other CTAs of the cluster take another one.
    pub(in crate::tile) own: bool,
    /// Whether what a stage holds of rows, or of columns, outside of the tensor may stay.
    kept: [bool; 2],
    /// Lines that TMA copies, if not all of the tile's.
    pub(in crate::tile) short: Option<u32>,
}

/// One tile of a tensor, to be copied to; what lies outside the tensor is not stored.
pub struct GlobalTileMut<T, const RANK: usize, O = RowMajor, const BOX: usize = 64>(
    pub(in crate::tile) GlobalTile<T, RANK, O, BOX>,
);

impl<T: Element, const RANK: usize, O: Major, const BOX: usize> Global<T, RANK, O, BOX> {
    const MATRIX: () = assert!(RANK >= 2 && RANK <= 5, "tensors in global memory have 2 to 5 dimensions");

    /// Elements in each dimension.
    #[inline(always)]
    pub fn shape(&self) -> [u32; RANK] {
        self.shape
    }
    /// Elements from one index to the next, in each dimension.
    #[inline(always)]
    pub fn strides(&self) -> [u64; RANK] {
        self.strides
    }
    /// The address of its first element.
    #[inline(always)]
    pub fn pointer(&self) -> *const T {
        self.pointer
    }
    /// Begins to copy the box at these coordinates, the contiguous dimension's first, to shared memory by TMA.
    ///
    /// # Safety
    /// The host made a map of boxes for it, and a box has room at `to`, which is this thread's to fill; `barrier` expects its bytes.
    #[inline(always)]
    pub unsafe fn load_box(&self, at: [u32; RANK], to: u32, barrier: u32)
    where
        [u32; RANK]: Coords,
    {
        // SAFETY: passed on.
        unsafe { at.load_hint(to, self.map, barrier, self.policy) }
    }
    /// The same tensor, to be read to registers: its strides say in which order.
    #[inline(always)]
    pub(in crate::tile) fn of_any_order(self) -> Global<T, RANK, RowMajor, 0> {
        let Global { map, pointer, strides, shape, policy, align, tma, .. } = self;
        Global { map, pointer, strides, shape, policy, align, tma, order: PhantomData }
    }
    /// Rows of each of its matrices.
    #[inline(always)]
    pub fn rows(&self) -> u32 {
        self.shape[RANK - 2]
    }
    /// Columns of each of its matrices.
    #[inline(always)]
    pub fn cols(&self) -> u32 {
        self.shape[RANK - 1]
    }
    /// The tile at `index`: the leading dimensions in elements, the last two in tiles. Where the tensor has no such index, all of the
    /// tile lies outside.
    #[inline(always)]
    pub fn tile(self, index: [u32; RANK]) -> GlobalTile<T, RANK, O, BOX> {
        const { Self::MATRIX };
        GlobalTile {
            of: self,
            index,
            first: 0,
            rows: u32::MAX,
            vouched: false,
            own: false,
            kept: [false; 2],
            short: None,
        }
    }
    /// As [`tile`](Self::tile), for kernels that have no registers left to ask whether the leading indices are inside.
    ///
    /// # Safety
    /// The tensor has the leading indices.
    #[inline(always)]
    pub unsafe fn tile_unchecked(self, index: [u32; RANK]) -> GlobalTile<T, RANK, O, BOX> {
        GlobalTile { vouched: true, ..self.tile(index) }
    }
}

impl<T: Element, const RANK: usize, O: Major, const BOX: usize> GlobalMut<T, RANK, O, BOX> {
    /// Elements in each dimension.
    #[inline(always)]
    pub fn shape(&self) -> [u32; RANK] {
        self.0.shape()
    }
    /// Rows of each of its matrices.
    #[inline(always)]
    pub fn rows(&self) -> u32 {
        self.0.rows()
    }
    /// The tile at `index`, to be written: the leading dimensions in elements, the last two in tiles.
    #[inline(always)]
    pub fn tile(&mut self, index: [u32; RANK]) -> GlobalTileMut<T, RANK, O, BOX> {
        GlobalTileMut(self.0.tile(index))
    }
    /// As [`tile`](Self::tile), for kernels that have no registers left to ask whether the leading indices are inside.
    ///
    /// # Safety
    /// The tensor has the leading indices.
    #[inline(always)]
    pub unsafe fn tile_unchecked(&mut self, index: [u32; RANK]) -> GlobalTileMut<T, RANK, O, BOX> {
        // SAFETY: the caller's.
        GlobalTileMut(unsafe { self.0.tile_unchecked(index) })
    }
    /// The tensor, to be read to registers. Not into stages: nothing checks that what is written can be read so.
    #[inline(always)]
    pub fn reader(&self) -> Global<T, RANK, O, 0> {
        let Global { map, pointer, strides, shape, policy, align, tma, order } = self.0;
        Global { map, pointer, strides, shape, policy, align, tma, order }
    }
    /// The tile at `index`, to be read to registers.
    #[inline(always)]
    pub fn read(&self, index: [u32; RANK]) -> GlobalTile<T, RANK, O, 0> {
        self.reader().tile(index)
    }
}

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
}

impl<T: Element, const RANK: usize, O: Major, const BOX: usize> GlobalTile<T, RANK, O, BOX> {
    /// The same tile of the matrix of `rows` rows that begins at row `first` of this one. By TMA what lies behind its rows is
    /// copied too.
    #[inline(always)]
    pub fn of_rows(self, first: u32, rows: u32) -> Self {
        GlobalTile { first, rows, ..self }
    }
    /// The same tile, of which TMA copies the first `lines` lines alone; the others keep what is there.
    ///
    /// # Safety
    /// The boxes of the host's map have `lines` lines, or equal parts of them, each a multiple of 8, where a tile is several boxes. The memory of the other lines has been
    /// written before ([`Stages::zero_lines`](crate::tile::Stages::zero_lines)), and what is computed from them is not used.
    #[inline(always)]
    pub unsafe fn short(self, lines: u32) -> Self {
        GlobalTile { short: Some(lines), ..self }
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
    /// Whether `rows` rows of a tile of `r` are all inside the rows that are the tiles'.
    #[inline(always)]
    pub(in crate::tile) fn holds(&self, r: usize, rows: u32) -> bool {
        self.rows == u32::MAX || self.index[RANK - 2] * r as u32 + rows <= self.rows
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
    /// Rows that are inside, from a tile of `r` rows on.
    #[inline(always)]
    fn rows_inside(&self, r: usize) -> u32 {
        if !self.has_matrix() {
            return 0;
        }
        let row = self.index[RANK - 2] * r as u32;
        let inside = self.of.shape[RANK - 2].saturating_sub(self.first + row);
        if self.rows == u32::MAX { inside } else { inside.min(self.rows.saturating_sub(row)) }
    }
    /// The tile's first row and column.
    #[inline(always)]
    pub(in crate::tile) fn corner(&self, r: usize, c: usize) -> (u32, u32) {
        (self.first + self.index[RANK - 2] * r as u32, self.index[RANK - 1] * c as u32)
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
            rows: self.rows_inside(r),
            cols: self.of.shape[RANK - 1].saturating_sub(col),
        }
    }

    /// The tile as lines along the contiguous dimension, whose stride is taken to be 1, if tiles are of `r` x `c`.
    #[inline(always)]
    pub fn lines(&self, r: usize, c: usize) -> Lines {
        let (row, col) = self.corner(r, c);
        let (across, along) = if O::ROW_MAJOR { (RANK - 2, RANK - 1) } else { (RANK - 1, RANK - 2) };
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
            inside: if O::ROW_MAJOR {
                self.rows_inside(r)
            } else {
                self.of.shape[across].saturating_sub(line)
            },
            bytes: (if O::ROW_MAJOR {
                self.of.shape[along].saturating_sub(first)
            } else {
                self.rows_inside(r)
            })
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

impl<T: Element, const RANK: usize> Global<T, RANK, RowMajor, 0> {
    /// The tensor of an argument that has no map.
    ///
    /// # Safety
    /// `at` points to an initialised argument in the kernel's parameter space, which outlives the kernel.
    #[inline(always)]
    pub(in crate::tile) unsafe fn unmapped(at: *const StridedAbi<T, RANK>) -> Self {
        // SAFETY: the caller's. A tensor of no boxes is never loaded by its map.
        unsafe {
            Global {
                map: core::ptr::null(),
                pointer: (*at).address as *mut T,
                strides: (*at).strides,
                shape: (*at).shape,
                policy: (*at).policy,
                align: (*at).align,
                tma: false,
                order: PhantomData,
            }
        }
    }
}

impl<T: Element, const RANK: usize, O: Major, const BOX: usize> KernelArg for Global<T, RANK, O, BOX> {
    type Abi = GlobalAbi<T, RANK>;

    #[inline(always)]
    unsafe fn load(at: *const GlobalAbi<T, RANK>) -> Self {
        // SAFETY: the caller passes an initialised parameter; the map is used in place, not copied.
        unsafe {
            Global {
                map: (&raw const (*at).map).cast(),
                pointer: (*at).address as *mut T,
                strides: (*at).strides,
                shape: (*at).shape,
                policy: (*at).policy,
                align: (*at).align,
                tma: (*at).tma != 0,
                order: PhantomData,
            }
        }
    }
}

impl<T: Element, const RANK: usize, O: Major, const BOX: usize> GlobalArg<RANK> for Global<T, RANK, O, BOX> {
    type Element = T;
    const ROW_MAJOR: bool = O::ROW_MAJOR;
    const BOX_ROWS: u32 = BOX as u32;
}

impl<T: Element, const RANK: usize, O: Major, const BOX: usize> KernelArg for GlobalMut<T, RANK, O, BOX> {
    type Abi = GlobalAbi<T, RANK>;

    #[inline(always)]
    unsafe fn load(at: *const GlobalAbi<T, RANK>) -> Self {
        // SAFETY: passed on to the caller.
        GlobalMut(unsafe { KernelArg::load(at) })
    }
}

impl<T: Element, const RANK: usize, O: Major, const BOX: usize> GlobalArg<RANK>
    for GlobalMut<T, RANK, O, BOX>
{
    type Element = T;
    const ROW_MAJOR: bool = O::ROW_MAJOR;
    const BOX_ROWS: u32 = BOX as u32;
}
