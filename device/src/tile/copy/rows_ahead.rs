//! From images to shared memory through registers: rows that begin at any element.

use core::marker::PhantomData;

use crate::arch::special::thread_x;
use crate::arch::{global, shared};
use crate::layout::{Element, Linear};
use crate::tile::copy::load::PIECE;
use crate::tile::cta::collective::Collective;
use crate::tile::memory::patches::{Patches, Tap};
use crate::tile::memory::rows_ahead::RowsAhead;
use crate::tile::memory::shared::{Ring, Shared};
use crate::tile::memory::window::read_if;

/// Elements of a piece: rows are of 16 bits.
const EACH: u32 = PIECE / 2;

impl<T: Element, const LINE: usize, const N: usize> RowsAhead<T, LINE, N> {
    /// Pieces of a row: those of `LINE` elements that begin inside the first.
    const ACROSS: u32 = LINE as u32 / EACH + 1;

    /// Row and piece of this thread's `i`-th.
    #[inline(always)]
    fn place<P: Collective>(i: usize) -> (u32, u32) {
        let number = thread_x() + i as u32 * P::CONSUMERS;
        (number / Self::ACROSS, number % Self::ACROSS)
    }

    /// Stores the rows, each a tile of a ring: its `COPIES` lines have them, each line an element further to the right than the one before.
    ///
    /// # Safety
    /// All threads that compute call it; between two barriers of theirs nobody else uses the ring.
    #[inline(always)]
    pub unsafe fn store<P: Collective, const COPIES: usize, const ROWS: usize>(
        self,
        to: &Ring<Shared<T, COPIES, LINE, Linear>, ROWS>,
    ) {
        const {
            assert!(T::BYTES == 2 && LINE.is_multiple_of(EACH as usize), "lines of 16 bits, in whole pieces");
            assert!(
                ROWS as u32 * Self::ACROSS <= N as u32 * P::CONSUMERS,
                "the threads hold all pieces of the rows"
            );
        }
        let mut i = 0;
        while i < N {
            let ((row, piece), words) = (Self::place::<P>(i), self.pieces[i]);
            let mut copy = 0;
            while copy < COPIES as u32 && row < ROWS as u32 {
                let line = to.address() + (row * COPIES as u32 + copy) * LINE as u32 * 2;
                // Where its first element goes: before the line it has wrapped.
                let first = (piece * EACH + copy).wrapping_sub(self.before);
                let odd = first % 2;
                let put = |at: u32, bits: u32| {
                    if at < LINE as u32 {
                        // SAFETY: in the line, which is this thread's at this element: no two threads have the same piece.
                        unsafe { shared::store_u16(line + at * 2, bits as u16) }
                    }
                };
                // Elements before the first pair and behind the last one; pairs begin at even elements.
                if odd == 1 {
                    put(first, words[0]);
                    put(first.wrapping_add(EACH - 1), words[3] >> 16);
                }
                let mut pair = 0;
                while pair < 4 {
                    let at = first.wrapping_add(odd + 2 * pair);
                    let next = if pair < 3 { words[pair as usize + 1] } else { 0 };
                    let word = words[pair as usize];
                    let bits = if odd == 1 { word >> 16 | next << 16 } else { word };
                    if at < LINE as u32 && (pair < 3 || odd == 0) {
                        // SAFETY: as above; lines have an even number of elements.
                        unsafe { shared::store_u32(line + at * 2, bits) }
                    }
                    pair += 1;
                }
                copy += 1;
            }
            i += 1;
        }
    }
}

impl<T: Element> Patches<T> {
    /// Begins to read what outputs from number `m` on see of `rows` rows of images: the rows under the filter's, `LINE` elements of each from the
    /// first output's window on. For images whose pixels are [joined](crate::tile::PatchOrder::joined). What lies outside is zeros.
    #[inline(always)]
    pub fn read_rows<P: Collective, const LINE: usize, const N: usize>(
        &self,
        m: u32,
        rows: u32,
    ) -> RowsAhead<T, LINE, N> {
        let (images, order) = (&self.images, &self.order);
        let ([n, h, ..], [_, height, width, ..]) = (images.strides, images.shape);
        let (image, [_, y, x]) = order.output(m);
        let elements = width * order.joined;
        let first = x * order.joined as i32;
        let before = first as u32 % EACH;
        // Rows that begin at multiples of 16 bytes, and end there.
        let whole = (images.pointer as u64 | (n * 2) | (h * 2)).is_multiple_of(PIECE as u64)
            && elements.is_multiple_of(EACH);
        let mut pieces = [[0; 4]; N];
        let mut i = 0;
        while i < N {
            let (row, piece) = RowsAhead::<T, LINE, N>::place::<P>(i);
            let [_, down, _] = order.offsets(Tap { slice: 0, row, column: 0, block: 0 });
            let y = (y as u32).wrapping_add(down);
            let inside = row < rows && m < order.outputs && y < height;
            let elements = if inside { elements } else { 0 };
            let line = images.pointer.wrapping_add((image as u64 * n + y as u64 * h) as usize).cast_const();
            // Before the row's first it has wrapped.
            let at = (first as u32).wrapping_sub(before).wrapping_add(piece * EACH);
            if whole {
                // SAFETY: rows are whole pieces, aligned to them; only pieces inside are read.
                unsafe {
                    let from = line.wrapping_offset(at as i32 as isize);
                    global::replace_cached_u32x4(&mut pieces[i], 0, from as u64, at < elements)
                }
            } else {
                let mut e = 0;
                while e < EACH {
                    let at = at.wrapping_add(e);
                    // SAFETY: only elements inside the row are read.
                    let bits = unsafe { read_if(line.wrapping_offset(at as i32 as isize), at < elements) };
                    pieces[i][e as usize / 2] |= bits << (e % 2 * 16);
                    e += 1;
                }
            }
            i += 1;
        }
        RowsAhead { pieces, before, element: PhantomData }
    }
}
