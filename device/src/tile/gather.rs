//! Rows that lie anywhere in a tensor: tiles whose rows are gathered from, or scattered to, places that a function names.

use super::global::{read_if, write_if};
use super::{CopyTo, Fragment, Global, GlobalMut, Rows, Schedule, Scratch, Shared};
use crate::arch::special::{same_number, thread_x_volatile};
use crate::arch::{global, shared};
use crate::layout::element::pack;
use crate::layout::{Element, FragmentLayout, Registers, RowMajor, SharedLayout};

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

/// Pieces of 16 bytes that a thread has on their way at a time.
const AHEAD: usize = 4;
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

    /// 16 bytes of row `row`, from element `first` on, of lines in pieces.
    #[inline(always)]
    fn piece(&self, row: u32, first: u32) -> [u32; 4] {
        let Some(index) = (self.place)(row) else { return [0; 4] };
        let (line, inside) = self.of.line(index);
        if first >= inside {
            return [0; 4];
        }
        // SAFETY: the piece is inside the tensor, and aligned as its host view says.
        unsafe { global::ld_global_u32x4(line.wrapping_add(first as usize).cast()) }
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

impl<T, S, P, const RANK: usize, const BOX: usize, const R: usize, const C: usize, F>
    CopyTo<&mut Scratch<P, Shared<T, R, C, S, RowMajor>>> for Gathered<T, RANK, BOX, F>
where
    T: Element,
    S: SharedLayout,
    P: Schedule,
    F: Fn(u32) -> Option<[u32; RANK]>,
{
    #[inline(always)]
    fn copy_to(self, to: &mut Scratch<P, Shared<T, R, C, S, RowMajor>>) {
        let base = to.address();
        let (lines, line) = (R as u32, (C * T::BYTES) as u32);
        let across = line / PIECE;
        let store = |piece: u32, words: [u32; 4]| {
            let at = base + S::offset(lines, line, piece / across, piece % across * PIECE);
            // SAFETY: the piece lies in the tile; no two threads have the same, and nobody reads meanwhile.
            unsafe { shared::store_u32x4(at, words) };
        };
        let first = |piece: u32| piece % across * PIECE / T::BYTES as u32;
        to.replace(
            #[inline(always)]
            || {
                // Bounds that are not known: kernels of few queries wait for every line of code, so loops stay loops.
                let pieces = same_number(lines * across);
                let mut next = thread_x_volatile();
                if self.in_pieces() {
                    while next < pieces {
                        let mut loaded = [[0; 4]; AHEAD];
                        let mut i = 0;
                        while i < AHEAD {
                            let piece = next + i as u32 * P::CONSUMERS;
                            loaded[i] = self.piece(piece / across, first(piece));
                            i += 1;
                        }
                        let mut i = 0;
                        while i < AHEAD {
                            let piece = next + i as u32 * P::CONSUMERS;
                            if piece < pieces {
                                store(piece, loaded[i]);
                            }
                            i += 1;
                        }
                        next += AHEAD as u32 * P::CONSUMERS;
                    }
                } else {
                    while next < pieces {
                        store(next, self.elements(next / across, first(next)));
                        next += P::CONSUMERS;
                    }
                }
            },
        );
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
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        const { assert!(L::RUN >= 2, "registers hold neighbours in pairs") };
        let step = to.of.strides[RANK - 1];
        let together = step == 1 && to.of.align as usize >= 2 * T::BYTES;
        let mut r = 0;
        while r < L::Rows::<T>::LEN {
            let (row, first) = L::coord(thread, first_of::<L, M, N>(r));
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
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        let mut r = 0;
        while r < L::Rows::<T>::LEN {
            let (row, col) = L::coord(thread, first_of::<L, M, N>(r));
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

/// The first register of a thread's `r`th row.
#[inline(always)]
fn first_of<L: FragmentLayout<M, N>, const M: usize, const N: usize>(r: usize) -> usize {
    let mut i = 0;
    while L::row(i) != r {
        i += 1;
    }
    i
}
