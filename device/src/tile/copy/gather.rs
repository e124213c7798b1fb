//! From rows that lie anywhere in a tensor: to a [`Scratch`] tile, to a stage, to a fragment.

use core::marker::PhantomData;

use crate::abi::SWIZZLE_BYTES;
use crate::arch::special::{same_number, thread_x, thread_x_volatile};
use crate::arch::tma::Coords;
use crate::arch::{cp_async, mbarrier, shared};
use crate::layout::{Element, FragmentLayout, Registers, RowMajor, SharedLayout};
use crate::tile::copy::fragment::{load_global, per_access, scatter};
use crate::tile::copy::load::{PIECE, UNROLLED, for_each_piece};
use crate::tile::cta::collective::{Collective, expect_computing};
use crate::tile::fragment::Fragment;
use crate::tile::memory::copy_to::CopyTo;
use crate::tile::memory::gathered::Gathered;
use crate::tile::memory::global::Global;
use crate::tile::memory::scratch::{Scratch, end_write};
use crate::tile::memory::shared::{Shared, SharedTile};
use crate::tile::memory::window::read_if;

impl<T: Element, const RANK: usize, const BOX: usize> Global<T, RANK, RowMajor, BOX> {
    /// The line at `index`, and how many of its elements are inside the tensor.
    #[inline(always)]
    pub(in crate::tile) fn line(&self, index: [u32; RANK]) -> (*mut T, u32) {
        let (mut offset, mut inside) = (0, self.shape[RANK - 1].saturating_sub(index[RANK - 1]));
        let mut i = 0;
        while i < RANK {
            offset += index[i] as u64 * self.strides[i];
            if index[i] >= self.shape[i] {
                inside = 0;
            }
            i += 1;
        }
        (self.pointer.wrapping_add(offset as usize), inside)
    }
}

impl<T: Element, const RANK: usize, const BOX: usize, F: Fn(u32) -> Option<[u32; RANK]>>
    Gathered<T, RANK, BOX, F>
{
    /// Whether lines are whole pieces, aligned to them.
    #[inline(always)]
    fn in_pieces(&self) -> bool {
        let step = self.of.strides[RANK - 1];
        self.of.align >= PIECE && step == 1 && (self.of.cols() * T::BYTES as u32).is_multiple_of(PIECE)
    }

    /// Where 16 bytes of row `row` lie, from element `first` on, in lines in pieces; `None` where they are zeros.
    #[inline(always)]
    fn piece(&self, row: u32, first: u32) -> Option<*const u8> {
        let (line, inside) = self.of.line((self.place)(row)?);
        (first < inside).then_some(line.wrapping_add(first as usize).cast())
    }

    /// 16 bytes of row `row`, from element `first` on, of any lines.
    #[inline(always)]
    fn elements(&self, row: u32, first: u32) -> [u32; 4] {
        let Some(index) = (self.place)(row) else { return [0; 4] };
        let ((line, inside), step) = (self.of.line(index), self.of.strides[RANK - 1]);
        let mut words = [0; 4];
        let mut i = 0;
        while i < PIECE / T::BYTES as u32 {
            let (per_word, bits) = (4 / T::BYTES as u32, 8 * T::BYTES as u32);
            let at = line.wrapping_add(((first + i) as u64 * step) as usize);
            // SAFETY: only elements inside the tensor are read.
            let x = unsafe { read_if(at, first + i < inside) };
            words[(i / per_word) as usize] |= x << (i % per_word * bits);
            i += 1;
        }
        words
    }
}

/// A tile that a copy is under way to.
#[must_use = "the tile can be read when its copy was waited for"]
pub struct Arriving<'t, P>(PhantomData<&'t mut P>);

impl<P: Collective, T: Element, S: SharedLayout, const R: usize, const C: usize>
    Scratch<P, Shared<T, R, C, S, RowMajor>>
{
    /// Begins to copy rows that lie anywhere to the tile, in the threads that hold fragments.
    ///
    /// As with a copy to the tile, gemms committed before are waited for.
    #[inline(always)]
    pub fn fetch<F: Fn(u32) -> Option<[u32; RANK]>, const RANK: usize, const BOX: usize>(
        &mut self,
        from: Gathered<T, RANK, BOX, F>,
    ) -> Arriving<'_, P> {
        if thread_x() >= P::CONSUMERS {
            return Arriving(PhantomData);
        }
        self.begin_write();
        let (lines, line) = (R as u32, (C * T::BYTES) as u32);
        let across = line / PIECE;
        let to = |piece: u32| self.address() + S::offset(lines, line, piece / across, piece % across * PIECE);
        let first = |piece: u32| piece % across * PIECE / T::BYTES as u32;
        // Bounds that are not known: kernels of few queries wait for every line of code, so loops stay loops.
        let (mut next, pieces) = (thread_x_volatile(), same_number(lines * across));
        if from.in_pieces() {
            while next < pieces {
                let piece = from.piece(next / across, first(next));
                let source = piece.unwrap_or(from.of.pointer.cast_const().cast());
                // SAFETY: the piece lies in the tile; no two threads have the same, and nobody reads before the copy was waited
                // for. In global memory it is inside the tensor, and aligned as its host view says.
                unsafe { cp_async::copy16_if(to(next), source, piece.is_some()) };
                next += P::CONSUMERS;
            }
        } else {
            while next < pieces {
                let words = from.elements(next / across, first(next));
                // SAFETY: as above.
                unsafe { shared::store_u32x4(to(next), words) };
                next += P::CONSUMERS;
            }
        }
        Arriving(PhantomData)
    }
}

impl<P: Collective> Arriving<'_, P> {
    /// Waits until the tile is there.
    #[inline(always)]
    pub fn wait(self) {
        if thread_x() < P::CONSUMERS {
            // SAFETY: each thread waits for its own copies, and then all for each other.
            unsafe { cp_async::wait_all() };
            end_write::<P>();
        }
    }
}

/// Copies gathered rows to a stage by TMA, each a box, completing on `barrier`: one of the equal `parts` of the tile's rows; called by
/// one thread.
///
/// # Safety
/// `to` is a tile of type `Shared<T, R, C, L>` that nobody reads, `barrier` is its stage's full barrier.
#[inline(always)]
pub(crate) unsafe fn gathered_tma<
    T,
    L,
    F,
    const RANK: usize,
    const BOX: usize,
    const R: usize,
    const C: usize,
>(
    from: Gathered<T, RANK, BOX, F>,
    to: u32,
    barrier: u32,
    part: u32,
    parts: u32,
) where
    T: Element,
    L: SharedLayout,
    F: Fn(u32) -> Option<[u32; RANK]>,
    [u32; RANK]: Coords,
{
    const {
        assert!(
            L::SWIZZLE == SWIZZLE_BYTES,
            "TMA boxes are swizzled over 128 bytes: make the tile's depth a multiple of 64"
        );
        assert!(
            BOX == 1,
            "rows that TMA gathers are boxes of one line: make the tensor a `Global<T, RANK, RowMajor, 1>`"
        );
    }
    /// Places that are asked for before the first of their rows is copied: they are read from memory.
    const AHEAD: usize = 4;
    let (lines, line) = (R as u32, (C * T::BYTES) as u32);
    let (mut first, end) = (lines / parts * part, lines / parts * (part + 1));
    // SAFETY: passed on; the boxes tile the part, and the barrier expects all their bytes, which TMA delivers in full also where a box
    // lies outside the tensor.
    unsafe {
        mbarrier::expect_tx(barrier, Shared::<T, R, C, L, RowMajor>::bytes() / parts);
        while first < end {
            let mut places = [[0; RANK]; AHEAD];
            let mut i = 0;
            while i < AHEAD {
                let place = if first + (i as u32) < end { (from.place)(first + i as u32) } else { None };
                // A line that begins behind its end has nothing. The tensor's shape is a place outside of it.
                let inside = place.filter(|place| place[RANK - 1] < from.of.shape[RANK - 1]);
                places[i] = inside.unwrap_or(from.of.shape);
                i += 1;
            }
            let mut i = 0;
            while i < AHEAD {
                let row = first + i as u32;
                let mut along = 0;
                while row < end && along < line / SWIZZLE_BYTES {
                    let mut coords = [0; RANK];
                    let mut dimension = 0;
                    while dimension < RANK {
                        coords[dimension] = places[i][RANK - 1 - dimension];
                        dimension += 1;
                    }
                    coords[0] += along * SWIZZLE_BYTES / T::BYTES as u32;
                    let to = to + (along * lines + row) * SWIZZLE_BYTES;
                    coords.load_hint(to, from.of.map, barrier, from.of.policy);
                    along += 1;
                }
                i += 1;
            }
            first += AHEAD as u32;
        }
    }
}

/// Copies gathered rows to a stage by `cp.async` in pieces of 16 bytes; called by all of `threads` threads. Where not `live`, it fills with
/// zeros.
///
/// # Safety
/// As for `vector_load`; lines begin at multiples of 16 bytes.
#[inline(always)]
pub(crate) unsafe fn gathered_vectors<
    T,
    L,
    F,
    const RANK: usize,
    const BOX: usize,
    const R: usize,
    const C: usize,
>(
    from: Gathered<T, RANK, BOX, F>,
    to: u32,
    threads: u32,
    live: bool,
) where
    T: Element,
    L: SharedLayout,
    F: Fn(u32) -> Option<[u32; RANK]>,
{
    const { assert!(BOX > 0, "a tensor with a BOX of 0 is read to registers alone, not into stages") };
    let (lines, line) = (R as u32, (C * T::BYTES) as u32);
    for_each_piece(lines, line, threads, UNROLLED[0], |row, byte| {
        let piece = if live { from.piece(row, byte / T::BYTES as u32) } else { None };
        let source = piece.unwrap_or(from.of.pointer.cast_const().cast());
        // SAFETY: passed on; only pieces inside the tensor are read.
        unsafe { cp_async::copy16_if(to + L::offset(lines, line, row, byte), source, piece.is_some()) }
    });
}

/// Copies gathered rows to a stage element by element, for any strides and alignment; called by all of `threads` threads. Where not
/// `live`, it fills with zeros.
///
/// # Safety
/// `to` is a tile of type `Shared<T, R, C, L>` that nobody reads.
#[inline(always)]
pub(crate) unsafe fn gathered_elements<
    T,
    L,
    F,
    const RANK: usize,
    const BOX: usize,
    const R: usize,
    const C: usize,
>(
    from: Gathered<T, RANK, BOX, F>,
    to: u32,
    threads: u32,
    live: bool,
) where
    T: Element,
    L: SharedLayout,
    F: Fn(u32) -> Option<[u32; RANK]>,
{
    const { assert!(BOX > 0, "a tensor with a BOX of 0 is read to registers alone, not into stages") };
    let (lines, line) = (R as u32, (C * T::BYTES) as u32);
    for_each_piece(lines, line, threads, UNROLLED[1], |row, byte| {
        let words = if live { from.elements(row, byte / T::BYTES as u32) } else { [0; 4] };
        // SAFETY: passed on.
        unsafe { shared::store_u32x4(to + L::offset(lines, line, row, byte), words) };
    });
}

impl<T, F, L, const RANK: usize, const BOX: usize, const M: usize, const N: usize>
    CopyTo<&mut Fragment<T, M, N, L>> for Gathered<T, RANK, BOX, F>
where
    T: Element,
    F: Fn(u32) -> Option<[u32; RANK]>,
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn copy_to(self, to: &mut Fragment<T, M, N, L>) {
        expect_computing(L::THREADS);
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        let step = const { per_access::<T>(L::RUN) };
        let stride = self.of.strides[RANK - 1];
        let first = L::coord(thread, 0).1;
        // All places before the first element, so that their loads follow each other.
        let mut lines = L::Rows::<(*mut T, u32)>::splat((self.of.pointer, 0));
        let mut r = 0;
        while r < L::Rows::<T>::LEN {
            if let Some(index) = (self.place)(L::coord(thread, L::first(r)).0) {
                lines.set(r, self.of.line(index));
            }
            r += 1;
        }
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let ((line, inside), col) = (lines.get(L::row(i)), first + L::offset(i).1);
            let at = |col: u32| line.wrapping_add((col as u64 * stride) as usize);
            let aligned = stride == 1 && (line as u64).is_multiple_of((step * T::BYTES) as u64);
            if aligned && col + step as u32 <= inside {
                // SAFETY: the access is inside the tensor and aligned.
                scatter(unsafe { load_global(at(col).cast_const(), step) }, &mut to.regs, i, step);
            } else {
                let mut e = 0;
                while e < step {
                    let col = col + e as u32;
                    // SAFETY: only elements inside the tensor are read.
                    to.regs.set(i + e, T::from_bits(unsafe { read_if(at(col).cast_const(), col < inside) }));
                    e += 1;
                }
            }
            i += step;
        }
    }
}
