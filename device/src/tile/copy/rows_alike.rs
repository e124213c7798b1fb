//! Rows that lie one behind the other and begin anywhere, of which each CTA takes such as begin alike.

use core::marker::PhantomData;

use crate::arch::special::{block_x, cluster_rank, grid_x, same_number, thread_x, trap};
use crate::arch::{cp_async, global, shared};
use crate::layout::{Element, FragmentLayout, Registers, RowMajor};
use crate::tile::copy::row_part::is_contiguous;
use crate::tile::copy::rows::{VECTOR, set_vector, vector};
use crate::tile::cta::Cta;
use crate::tile::cta::collective::{Collective, expect_all};
use crate::tile::fragment::Fragment;
use crate::tile::memory::global::{Global, GlobalMut};
use crate::tile::memory::row_tiles::RowOrder;
use crate::tile::memory::window::{read_if, write_if};

/// The rows that a CTA takes of `TENSORS` tensors, one after the other: shared memory has the current row and the next `AHEAD` ones, `PARTS` parts of `N`
/// columns of each. With `CTAS` CTAs in a cluster each has every `CTAS`-th part.
///
/// Rows may begin anywhere, but all of a cluster begin alike behind a multiple of 16 bytes. So each thread has the same vectors of 16 bytes of each row, one
/// of each part, of which the row's first and last ones are not wholly the row's; all that differs from row to row is where it lies. Threads copy what they read
/// (PTX ISA, "cp.async"), and wait for no other threads.
pub struct RowsAlike<
    T,
    L,
    const N: usize,
    const CTAS: usize,
    const PARTS: usize,
    const AHEAD: u32,
    const TENSORS: usize,
> {
    from: [*mut T; TENSORS],
    shape: [u32; 3],
    /// Elements from the multiple of 16 bytes before a row to its first one.
    begin: u32,
    /// Which elements of this thread's vectors are the row's, a bit for each.
    inside: u32,
    /// The current row, how many come before the next one, how many there are, and of how many all vectors end inside of the tensor.
    row: u32,
    step: u32,
    count: u32,
    whole: u32,
    /// Elements of a tensor before this thread's first vector of the current row, and from there to that of the next one.
    at: u64,
    stride: u64,
    /// Where the first of rows lies in shared memory, and the current one.
    rooms: u32,
    room: u32,
    layout: PhantomData<L>,
}

/// What a thread has of a part of the current row: a vector.
#[derive(Clone, Copy)]
pub struct PartAlike<'r> {
    number: usize,
    inside: u32,
    row: PhantomData<&'r ()>,
}

impl PartAlike<'_> {
    /// The part's number, of those that the CTA has.
    #[inline(always)]
    pub fn number(&self) -> usize {
        self.number
    }
    /// Whether the vector's element `e` is the row's.
    #[inline(always)]
    fn has(&self, e: usize) -> bool {
        self.inside >> e & 1 != 0
    }
}

/// A tensor of the same rows: [`RowsAlike::beside`].
#[derive(Clone, Copy)]
pub struct Beside<T>(*mut T);

/// The same, for results.
pub struct BesideMut<T>(*mut T);

impl<P: Collective> Cta<P> {
    /// Begins to load this CTA's first rows, of all that `order` counts one by one.
    ///
    /// The tensors have one shape, are contiguous, and aligned to 16 bytes. Rows have at most `N` `CTAS` `PARTS` columns, less 7, or 3 of f32. The clusters
    /// of a grid are as many as have rows, or so many that rows of as many fill whole vectors of 16 bytes. The kernel traps at others.
    #[inline(always)]
    pub fn rows_alike<
        T: Element,
        L: FragmentLayout<1, N>,
        const N: usize,
        const CTAS: usize,
        const PARTS: usize,
        const AHEAD: u32,
        const TENSORS: usize,
    >(
        &mut self,
        from: [Global<T, 3, RowMajor, 0>; TENSORS],
        order: RowOrder,
    ) -> RowsAlike<T, L, N, CTAS, PARTS, AHEAD, TENSORS> {
        const { expect_all::<P>(L::THREADS) };
        let step = const {
            assert!(L::Regs::<T>::LEN * T::BYTES == VECTOR, "a thread has a vector of 16 bytes of a part");
            assert!(L::Regs::<T>::LEN * PARTS <= 32, "a thread has 32 elements of a row at most");
            (VECTOR / T::BYTES) as u32
        };
        let room = RowsAlike::<T, L, N, CTAS, PARTS, AHEAD, TENSORS>::ROOM;
        let rooms = self.reserve((AHEAD + 1) * room, VECTOR as u32) + thread_x() * VECTOR as u32;
        let (shape, cols) = (from[0].shape(), from[0].cols());
        let (row, clusters) = (block_x() / CTAS as u32, grid_x() / CTAS as u32);
        let part = if CTAS > 1 { cluster_rank() } else { 0 };
        // Counted from the multiple of 16 bytes before the row.
        let (first, begin) = (part * N as u32 + L::coord(thread_x(), 0).1, row.wrapping_mul(cols) % step);
        let (mut inside, mut i) = (0, 0);
        while i < PARTS as u32 * step {
            let col = first + i / step * (N * CTAS) as u32 + i % step;
            inside |= u32::from(col >= begin && col < begin + cols) << i;
            i += 1;
        }
        let count = order.total();
        let whole = count.saturating_sub((step - 1).div_ceil(if cols == 0 { 1 } else { cols }));
        let stride = u64::from(clusters) * u64::from(cols);
        let alike = clusters >= count || stride.is_multiple_of(u64::from(step));
        if !alike || cols + step - 1 > (N * CTAS * PARTS) as u32 {
            trap();
        }
        let rows = RowsAlike {
            from: from.map(|from| from.pointer().cast_mut()),
            shape,
            begin,
            inside,
            row,
            step: clusters,
            count,
            whole,
            at: (u64::from(row) * u64::from(cols) - u64::from(begin)) + u64::from(first),
            stride,
            rooms,
            room: rooms,
            layout: PhantomData,
        };
        let mut i = 0;
        while i < TENSORS {
            rows.beside(from[i]);
            i += 1;
        }
        let mut i = 0;
        while i <= AHEAD {
            rows.load(i, rooms + i * room);
            i += 1;
        }
        rows
    }
}

#[rustfmt::skip]
impl<
    T: Element, L: FragmentLayout<1, N>, const N: usize, const CTAS: usize, const PARTS: usize, const AHEAD: u32, const TENSORS: usize,
> RowsAlike<T, L, N, CTAS, PARTS, AHEAD, TENSORS>
{
    /// Elements of a vector.
    const STEP: usize = VECTOR / T::BYTES;
    /// Of a vector that is the row's.
    const WHOLE: u32 = (1 << Self::STEP) - 1;
    /// Bytes that a row has room for.
    const ROOM: u32 = (PARTS * TENSORS * N * T::BYTES) as u32;

    /// Whether there is a current row: not behind the last.
    #[inline(always)]
    pub fn exist(&self) -> bool {
        self.row < self.count
    }

    /// Goes on to the next row: in the place of the current one the last one ahead is loaded.
    #[inline(always)]
    pub fn next(&mut self) {
        self.load(AHEAD + 1, self.room);
        self.row += self.step;
        self.at += self.stride;
        self.room += Self::ROOM;
        if self.room == self.rooms + (AHEAD + 1) * Self::ROOM {
            self.room = self.rooms;
        }
    }

    /// The first column of the `i`-th part. Before the row's first one it has wrapped.
    #[inline(always)]
    pub fn first_of(&self, i: usize) -> u32 {
        let part = if CTAS > 1 { cluster_rank() } else { 0 };
        ((part as usize + i * CTAS) * N) as u32 - self.begin
    }

    /// Folds the parts of the current row that this thread has something of, from left to right: `each(before, part, tensors)`. There are none behind the
    /// last row.
    #[inline(always)]
    pub fn fold<A>(
        &self,
        init: A,
        mut each: impl FnMut(A, PartAlike<'_>, [Fragment<T, 1, N, L>; TENSORS]) -> A,
    ) -> A {
        if !self.exist() {
            return init;
        }
        // SAFETY: waits for this thread's copies alone, of the current row and before.
        unsafe { cp_async::wait::<AHEAD>() };
        // Hidden: registers would hold what follows from it over all rows.
        let (inside, mut folded, mut i) = (same_number(self.inside), init, 0);
        while i < PARTS {
            let part = PartAlike { number: i, inside: inside >> (i * Self::STEP) & Self::WHOLE, row: PhantomData };
            if part.inside != 0 {
                folded = each(folded, part, self.part(i));
            }
            i += 1;
        }
        folded
    }

    /// Folds those elements that are the row's.
    #[inline(always)]
    pub fn fold_inside<U: Copy, A: Copy>(
        &self,
        part: PartAlike<'_>,
        x: &Fragment<U, 1, N, L>,
        init: A,
        f: impl Fn(A, U) -> A,
    ) -> A {
        let (mut all, mut e) = (init, 0);
        if part.inside == Self::WHOLE {
            while e < Self::STEP {
                all = f(all, x.regs.get(e));
                e += 1;
            }
        } else {
            while e < Self::STEP {
                if part.has(e) {
                    all = f(all, x.regs.get(e));
                }
                e += 1;
            }
        }
        all
    }

    /// A contiguous tensor of the same shape, aligned to 16 bytes: the kernel traps at others.
    #[inline(always)]
    pub fn beside(&self, other: Global<T, 3, RowMajor, 0>) -> Beside<T> {
        if other.shape() != self.shape || !is_contiguous(&other) {
            trap();
        }
        Beside(other.pointer().cast_mut())
    }

    /// As [`beside`](Self::beside), for results.
    #[inline(always)]
    pub fn beside_mut(&self, other: GlobalMut<T, 3, RowMajor, 0>) -> BesideMut<T> {
        BesideMut(self.beside(other.0).0)
    }

    /// A part of the current row of another tensor. What is not the row's is anything.
    #[inline(always)]
    pub fn read(&self, part: PartAlike<'_>, from: Beside<T>) -> Fragment<T, 1, N, L> {
        let (mut x, mut words, at) = (Fragment::splat(T::ZERO), [0; 4], self.address(part.number, from.0));
        let whole = part.inside == Self::WHOLE;
        // SAFETY: elements of the row, which whole vectors of it are aligned.
        unsafe {
            global::replace_cached_u32x4(&mut words, 0, at as u64, whole);
            if !whole {
                let mut e = 0;
                while e < Self::STEP {
                    let bits = read_if(at.wrapping_add(e), part.has(e));
                    words[e * T::BYTES / 4] |= bits << (e * T::BYTES * 8 % 32);
                    e += 1;
                }
            }
        }
        set_vector::<T, _>(&mut x.regs, 0, words);
        x
    }

    /// Stores a part of the current row of another tensor.
    #[inline(always)]
    pub fn store(&self, part: PartAlike<'_>, x: &Fragment<T, 1, N, L>, to: &mut BesideMut<T>) {
        let (at, whole) = (self.address(part.number, to.0), part.inside == Self::WHOLE);
        // SAFETY: elements of the row, which nobody else has; whole vectors of it are aligned.
        unsafe {
            global::st_global_u32x4_if(at.cast(), vector::<T, _>(&x.regs, 0), whole);
            if !whole {
                let mut e = 0;
                while e < Self::STEP {
                    write_if(at.wrapping_add(e), x.regs.get(e), part.has(e));
                    e += 1;
                }
            }
        }
    }

    #[inline(always)]
    fn address(&self, i: usize, of: *mut T) -> *mut T {
        of.wrapping_add(self.at as usize).wrapping_add(i * N * CTAS)
    }

    /// The `i`-th part of the current row, which this thread has waited for.
    #[inline(always)]
    fn part(&self, i: usize) -> [Fragment<T, 1, N, L>; TENSORS] {
        let mut all = [Fragment::<T, 1, N, L>::splat(T::ZERO); TENSORS];
        let mut tensor = 0;
        while tensor < TENSORS {
            // SAFETY: this thread's own vector.
            let words = unsafe { shared::load_u32x4(self.room + Self::vector(i, tensor)) };
            set_vector::<T, _>(&mut all[tensor].regs, 0, words);
            tensor += 1;
        }
        all
    }

    /// Where the `i`-th part's vectors lie in a row's room.
    #[inline(always)]
    fn vector(i: usize, tensor: usize) -> u32 {
        ((i * TENSORS + tensor) * N * T::BYTES) as u32
    }

    /// Begins to load the row so many behind the current one.
    #[inline(always)]
    fn load(&self, behind: u32, room: u32) {
        let (row, at) = (self.row + behind * self.step, self.at + u64::from(behind) * self.stride);
        // SAFETY: the vectors in shared memory are this thread's own, and what they last held is in registers. Those in global memory are aligned, and end
        // inside of the tensor, or are read to its end: what is not the row's belongs to its neighbours.
        unsafe {
            if row < self.whole {
                self.each_copy(at, room, |to, from, i| {
                    cp_async::copy16_if(to, from, self.inside >> (i * Self::STEP) & Self::WHOLE != 0);
                });
            } else if row < self.count {
                let left = u64::from(self.count) * u64::from(self.shape[2]) - at;
                self.each_copy(at, room, |to, from, i| {
                    let left = left.saturating_sub((i * N * CTAS) as u64) * T::BYTES as u64;
                    let bytes = if left < VECTOR as u64 { left as u32 } else { VECTOR as u32 };
                    cp_async::copy16(to, from, if self.inside >> (i * Self::STEP) & Self::WHOLE != 0 { bytes } else { 0 });
                });
            }
            cp_async::commit();
        }
    }

    /// `copy(to, from, i)` of this thread's vectors of each part and tensor, of which the first ones are elements `at` of their tensors.
    #[inline(always)]
    fn each_copy(&self, at: u64, room: u32, copy: impl Fn(u32, *const u8, usize)) {
        let mut tensor = 0;
        while tensor < TENSORS {
            let (from, mut i) = (self.from[tensor].wrapping_add(at as usize), 0);
            while i < PARTS {
                copy(room + Self::vector(i, tensor), from.wrapping_add(i * N * CTAS) as *const u8, i);
                i += 1;
            }
            tensor += 1;
        }
    }
}
