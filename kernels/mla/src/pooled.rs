//! Sequences in the pages of a pool whose rows are read whole, or many of them by one copy: caches that all heads share.
//!
//! A copy of a [`PagedTile`](tilewright_device::tile::PagedTile) is of 64 columns of one head; here it is of as many as a line has.

use tilewright_device::abi::{GlobalAbi, GlobalArg, KernelArg, SWIZZLE_BYTES};
use tilewright_device::arch::special::{same_number, thread_x, thread_x_volatile};
use tilewright_device::arch::{cp_async, mbarrier};
use tilewright_device::tile::{
    CopyTo, Dst, Element, Global, InBlock, Loader, Mapped, Multistage, PageTable, Roles, RowMajor, Shared,
    SharedLayout, SharedTile, Swizzle, Vectors,
};

/// Sequences of rows in pages, as the host passes them.
#[repr(C, align(64))]
pub struct PooledAbi<T> {
    /// The pages: \[pages, columns / 64, rows of a page, 64\].
    pub pool: GlobalAbi<T, 4>,
    /// Which of them hold which rows of a sequence.
    pub pages: PageTable,
}

impl<T> Clone for PooledAbi<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for PooledAbi<T> {}

/// Sequences of rows of which each lies in pages of a pool. One copy reads `BOX` rows, a page's or as many as divide it, and
/// `PLANES` times 64 columns: all of them, where a page has the rows of a tile.
///
/// A page's number that is out of range reads as rows of zeros.
#[derive(Clone, Copy)]
pub struct Pooled<T: Element, const BOX: usize, const PLANES: usize> {
    pub(crate) pool: Pool<T, BOX, PLANES>,
    pub(crate) pages: PageTable,
}

/// The pool's pages as an argument: see [`PooledAbi::pool`].
impl<T: Element, const BOX: usize, const PLANES: usize> GlobalArg<4> for Pool<T, BOX, PLANES> {
    type Element = T;
    const ROW_MAJOR: bool = true;
    const BOX_ROWS: u32 = BOX as u32;
    const BOX_PLANES: u32 = PLANES as u32;
}

/// The pages of [`Pooled`] sequences.
#[derive(Clone, Copy)]
pub struct Pool<T: Element, const BOX: usize, const PLANES: usize>(pub(crate) Global<T, 4, RowMajor, BOX>);

impl<T: Element, const BOX: usize, const PLANES: usize> KernelArg for Pool<T, BOX, PLANES> {
    type Abi = GlobalAbi<T, 4>;
    #[inline(always)]
    unsafe fn load(at: *const GlobalAbi<T, 4>) -> Self {
        // SAFETY: passed on to the caller.
        Pool(unsafe { KernelArg::load(at) })
    }
}

/// A tile of a sequence: as many rows and columns as its destination has.
pub struct PooledTile<T: Element, const BOX: usize, const PLANES: usize> {
    of: InBlock<Pooled<T, BOX, PLANES>>,
    place: [u32; 2],
    end: u32,
}

/// Tiles of [`Pooled`] sequences, whose table is read where it is needed.
pub trait PooledTiles<T: Element, const BOX: usize, const PLANES: usize> {
    /// Where tile `index` of `R` rows of `sequence` lies: in one page, or in several, which are looked up when it is read.
    fn place<const R: usize>(&self, sequence: u32, index: u32) -> [u32; 2];
    /// The tile at a place.
    fn tile(&self, place: [u32; 2]) -> PooledTile<T, BOX, PLANES>;
}

impl<T: Element, const BOX: usize, const PLANES: usize> PooledTiles<T, BOX, PLANES>
    for InBlock<Pooled<T, BOX, PLANES>>
{
    #[inline(always)]
    fn place<const R: usize>(&self, sequence: u32, index: u32) -> [u32; 2] {
        let row = index * R as u32;
        if BOX < R { [sequence, row] } else { self.get().pages.place(sequence, row).into() }
    }
    #[inline(always)]
    fn tile(&self, place: [u32; 2]) -> PooledTile<T, BOX, PLANES> {
        PooledTile { of: *self, place, end: u32::MAX }
    }
}

impl<T: Element, const BOX: usize, const PLANES: usize> PooledTile<T, BOX, PLANES> {
    /// The tile with zeros in place of the sequence's rows from `end` on, where `cp.async` reads it.
    #[inline(always)]
    pub fn until(self, end: u32) -> Self {
        PooledTile { end, ..self }
    }
}

impl<T: Element, const BOX: usize, const PLANES: usize> KernelArg for Pooled<T, BOX, PLANES> {
    type Abi = PooledAbi<T>;
    #[inline(always)]
    unsafe fn load(at: *const PooledAbi<T>) -> Self {
        // SAFETY: the caller passes an initialised parameter; the map in it is used in place.
        unsafe {
            Pooled {
                pool: KernelArg::load(&raw const (*at).pool),
                pages: KernelArg::load(&raw const (*at).pages),
            }
        }
    }
}

/// A schedule that copies tiles of [`Pooled`] sequences into stages.
pub trait ReadsPools: Loader {
    /// Copies a tile into a stage that is being filled.
    ///
    /// # Safety
    /// `to` is a tile of type `Shared<T, R, C, L>` in a stage that is this role's to fill, with its ticket.
    #[doc(hidden)]
    unsafe fn gather<
        T: Element,
        L: SharedLayout,
        const BOX: usize,
        const PLANES: usize,
        const R: usize,
        const C: usize,
    >(
        from: PooledTile<T, BOX, PLANES>,
        to: u32,
        ticket: Self::Ticket,
    );
}

/// By TMA: a copy for each page that the tile has rows of and each 64 columns.
impl<
    const A: usize,
    const RA: u32,
    const B: usize,
    const RB: u32,
    const W: usize,
    const RW: u32,
    const K: u32,
> ReadsPools for Roles<A, RA, B, RB, W, RW, K>
{
    #[inline(always)]
    unsafe fn gather<
        T: Element,
        L: SharedLayout,
        const BOX: usize,
        const PLANES: usize,
        const R: usize,
        const C: usize,
    >(
        from: PooledTile<T, BOX, PLANES>,
        to: u32,
        ticket: Self::Ticket,
    ) {
        const {
            assert!(L::SWIZZLE == SWIZZLE_BYTES, "TMA boxes are swizzled over 128 bytes");
            assert!(
                PLANES == 1 || BOX == R && PLANES * SWIZZLE_BYTES as usize == C * T::BYTES,
                "a copy of several planes is of all columns, and of as many rows as the tile has"
            );
            assert!(R.is_multiple_of(BOX) && BOX.is_multiple_of(8), "BOX divides the tile's rows");
        }
        let barrier = ticket.barrier();
        let columns = SWIZZLE_BYTES / T::BYTES as u32;
        // SAFETY: passed on; the boxes tile the destination, and the barrier expects all their bytes, which TMA delivers
        // in full also where a box reaches outside the pool. A box lies in one page, whose rows BOX divides.
        unsafe {
            mbarrier::expect_tx(barrier, Shared::<T, R, C, L>::bytes());
            // How often is not known to the compiler: a loop, of few registers.
            let mut across = if BOX == R { 0 } else { same_number(0) };
            while across < R as u32 {
                let [page, row] = if BOX < R {
                    from.of.get().pages.place(from.place[0], from.place[1] + across).into()
                } else {
                    from.place
                };
                let pool = from.of.get().pool.0;
                let mut along = 0;
                while along < C as u32 / columns {
                    let to = to + (along * R as u32 + across) * SWIZZLE_BYTES;
                    pool.load_box([0, row, along, page], to, barrier);
                    along += PLANES as u32;
                }
                across += BOX as u32;
            }
        }
    }
}

/// By `cp.async`: each warp takes rows in turn, 16 bytes a lane.
impl<const W: usize> ReadsPools for Multistage<W, Vectors> {
    #[inline(always)]
    unsafe fn gather<
        T: Element,
        L: SharedLayout,
        const BOX: usize,
        const PLANES: usize,
        const R: usize,
        const C: usize,
    >(
        from: PooledTile<T, BOX, PLANES>,
        to: u32,
        live: bool,
    ) {
        const { assert!(BOX < R, "rows are looked up one by one: make BOX smaller than the tile") };
        let (line, of) = ((C * T::BYTES) as u32, from.of.get());
        let [sequence, first] = from.place;
        // How often is not known to the compiler: a loop.
        let mut row = thread_x_volatile() / 32;
        while row < R as u32 {
            let (page, at) = of.pages.place(sequence, first + row);
            let inside =
                live && first + row < from.end && page < of.pool.0.shape()[0] && at < of.pool.0.shape()[2];
            let start = page as u64 * of.pool.0.strides()[0] + at as u64 * of.pool.0.strides()[2];
            let start =
                of.pool.0.pointer().wrapping_add(if inside { start as usize } else { 0 }).cast::<u8>();
            let mut byte = thread_x() % 32 * 16;
            while byte < line {
                let to = to + L::offset(R as u32, line, row, byte);
                let plane = (byte / SWIZZLE_BYTES) as u64 * of.pool.0.strides()[1] * T::BYTES as u64;
                let piece = start.wrapping_add(plane as usize + (byte % SWIZZLE_BYTES) as usize);
                // SAFETY: passed on; only rows inside the pool are read, whose address and strides are multiples of 16
                // bytes. The rest is filled with zeros.
                unsafe { cp_async::copy16_if(to, piece, inside) };
                byte += 32 * 16;
            }
            row += W as u32;
        }
    }
}

impl<T, P, const BOX: usize, const PLANES: usize, const R: usize, const C: usize>
    CopyTo<Dst<'_, Shared<T, R, C, Swizzle<128>>, P>> for PooledTile<T, BOX, PLANES>
where
    T: Element,
    P: ReadsPools,
{
    #[inline(always)]
    fn copy_to(self, to: Dst<'_, Shared<T, R, C, Swizzle<128>>, P>) {
        // SAFETY: a `Dst` is a tile of a stage that is this role's to fill, with its ticket.
        unsafe { P::gather::<T, Swizzle<128>, BOX, PLANES, R, C>(self, to.address(), to.ticket()) }
    }
}

impl<T: Element, const BOX: usize, const PLANES: usize> Mapped for Pooled<T, BOX, PLANES> {
    #[inline(always)]
    fn maps(&self, f: &mut impl FnMut(*const u8)) {
        self.pool.0.maps(f)
    }
}
