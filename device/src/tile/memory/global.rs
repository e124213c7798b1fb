//! Tensors in global memory as kernels see them.

use core::marker::PhantomData;

use crate::abi::{GlobalAbi, GlobalArg, KernelArg, StridedAbi};
use crate::arch::tma::Coords;
use crate::layout::{Element, Major, RowMajor};
use crate::tile::memory::global_tile::{GlobalTile, GlobalTileMut};

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
    /// The columns from `first` on, to be read to registers.
    #[inline(always)]
    pub(in crate::tile) fn beyond_column(self, first: u32) -> Self {
        let pointer = self.pointer.wrapping_add((first as u64 * self.strides[RANK - 1]) as usize);
        let mut shape = self.shape;
        shape[RANK - 1] = shape[RANK - 1].saturating_sub(first);
        Global { pointer, shape, ..self }
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
        GlobalTile::new(self, index)
    }
    /// As [`tile`](Self::tile), for kernels that have no registers left to ask whether the leading indices are inside.
    ///
    /// # Safety
    /// The tensor has the leading indices.
    #[inline(always)]
    pub unsafe fn tile_unchecked(self, index: [u32; RANK]) -> GlobalTile<T, RANK, O, BOX> {
        self.tile(index).vouched()
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
