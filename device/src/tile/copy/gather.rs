//! Rows that lie anywhere in a tensor: tiles whose rows are gathered from, or scattered to, places that a function names.

use core::marker::PhantomData;

use crate::arch::special::{same_number, thread_x, thread_x_volatile};
use crate::arch::{cp_async, global, shared};
use crate::layout::element::pack;
use crate::layout::{Element, FragmentLayout, Registers, RowMajor, SharedLayout};
use crate::tile::cta::collective::{Collective, expect_computing};
use crate::tile::fragment::{Fragment, Rows};
use crate::tile::memory::copy_to::CopyTo;
use crate::tile::memory::global::{Global, GlobalMut, read_if, write_if};
use crate::tile::memory::scratch::{Scratch, end_write};
use crate::tile::memory::shared::Shared;

/// A tile to be copied from, whose row r lies at `place(r)`.
pub struct Gathered<T, const RANK: usize, const BOX: usize, F> {
    of: Global<T, RANK, RowMajor, BOX>,
    place: F,
}

/// A tile to be copied to, whose row r lies at `place(r)`.
pub struct Scattered<T, const RANK: usize, const BOX: usize, F> {
    of: Global<T, RANK, RowMajor, BOX>,
    place: F,
}

impl<T: Element, const RANK: usize, const BOX: usize> Global<T, RANK, RowMajor, BOX> {
    /// A tile whose row r is the line at `place(r)`: an index in all dimensions, of which the last is where it begins. Rows
    /// without a place in the tensor are zeros, and so is what lies behind a line's end.
    #[inline(always)]
    pub fn gather<F: Fn(u32) -> Option<[u32; RANK]>>(self, place: F) -> Gathered<T, RANK, BOX, F> {
        Gathered { of: self, place }
    }

    /// The line at `index`, and how many of its elements are inside the tensor.
    #[inline(always)]
    fn line(&self, index: [u32; RANK]) -> (*mut T, u32) {
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

impl<T: Element, const RANK: usize, const BOX: usize> GlobalMut<T, RANK, RowMajor, BOX> {
    /// A tile whose row r is the line at `place(r)`: an index in all dimensions, of which the last is where it begins. Rows
    /// without a place in the tensor are not stored, nor is what lies behind a line's end. No two rows have the same place.
    #[inline(always)]
    pub fn scatter<F: Fn(u32) -> Option<[u32; RANK]>>(&mut self, place: F) -> Scattered<T, RANK, BOX, F> {
        Scattered { of: self.0, place }
    }
}

/// Bytes of a piece.
const PIECE: u32 = 16;

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

impl<T, L, const RANK: usize, const BOX: usize, const M: usize, const N: usize, F>
    CopyTo<Scattered<T, RANK, BOX, F>> for Fragment<T, M, N, L>
where
    T: Element,
    L: FragmentLayout<M, N>,
    F: Fn(u32) -> Option<[u32; RANK]>,
{
    #[inline(always)]
    fn copy_to(self, to: Scattered<T, RANK, BOX, F>) {
        expect_computing(L::THREADS);
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        const { assert!(L::RUN >= 2, "registers hold neighbours in pairs") };
        let step = to.of.strides[RANK - 1];
        let together = step == 1 && to.of.align as usize >= 2 * T::BYTES;
        let mut r = 0;
        while r < L::Rows::<T>::LEN {
            let (row, first) = L::coord(thread, L::first(r));
            if let Some(index) = (to.place)(row) {
                let (line, inside) = to.of.line(index);
                // One comparison for the whole line, so that its stores follow each other.
                let (whole, line) =
                    (together && inside >= N as u32, line.wrapping_add((first as u64 * step) as usize));
                let mut i = 0;
                while i < L::Regs::<T>::LEN {
                    if L::row(i) == r {
                        let col = L::offset(i).1;
                        let (a, b) = (self.regs.get(i), self.regs.get(i + 1));
                        if whole {
                            let at = line.wrapping_add(col as usize);
                            // SAFETY: all of the tile's columns are inside the tensor, aligned as its host view says.
                            unsafe {
                                if T::BYTES == 2 {
                                    global::st_global_u32(at.cast(), pack([a, b]))
                                } else {
                                    global::st_global_u32x2(at.cast(), [a.bits(), b.bits()])
                                }
                            }
                        }
                    }
                    i += 2;
                }
                let mut i = 0;
                while i < L::Regs::<T>::LEN {
                    if L::row(i) == r && !whole {
                        let col = L::offset(i).1;
                        let at = line.wrapping_add((col as u64 * step) as usize);
                        // SAFETY: only elements inside the tensor are written.
                        unsafe { write_if(at, self.regs.get(i), first + col < inside) };
                    }
                    i += 1;
                }
            }
            r += 1;
        }
    }
}

/// Each row's value, to the first element of its line.
impl<T, L, const RANK: usize, const BOX: usize, const M: usize, const N: usize, F>
    CopyTo<Scattered<T, RANK, BOX, F>> for Rows<T, M, N, L>
where
    T: Element,
    L: FragmentLayout<M, N>,
    F: Fn(u32) -> Option<[u32; RANK]>,
{
    #[inline(always)]
    fn copy_to(self, to: Scattered<T, RANK, BOX, F>) {
        expect_computing(L::THREADS);
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        let mut r = 0;
        while r < L::Rows::<T>::LEN {
            let (row, col) = L::coord(thread, L::first(r));
            // The lane that holds the row's first column writes.
            if col == 0
                && let Some(index) = (to.place)(row)
            {
                let (line, inside) = to.of.line(index);
                // SAFETY: only elements inside the tensor are written.
                unsafe { write_if(line, self.regs.get(r), inside > 0) }
            }
            r += 1;
        }
    }
}
