//! Rows in shared memory, of which each thread has its own part: read from memory once, however long they are.

use core::marker::PhantomData;

use crate::arch::special::{cluster_rank, same_number, thread_x, trap};
use crate::arch::{cp_async, shared};
use crate::layout::{Element, FragmentLayout, Registers, RowMajor};
use crate::tile::copy::row_part::{RowMut, RowPart, is_contiguous};
use crate::tile::copy::rows::{VECTOR, in_vectors, set_vector, skew};
use crate::tile::cta::Cta;
use crate::tile::cta::collective::{Collective, expect_all};
use crate::tile::fragment::{Fragment, Rows};
use crate::tile::memory::global::{Global, GlobalMut};
use crate::tile::memory::row_tiles::{RowOrder, RowTile};

/// The rows that a CTA takes, one after the other, `N` columns at a time: shared memory has the last `PLACES` parts that were loaded, the
/// current row's first, and behind them what it has room for of the next ones.
///
/// With `CTAS` CTAs in a cluster each has every `CTAS`-th part. Parts are copied asynchronously (PTX ISA, "cp.async"), and each thread
/// copies what it reads: nothing waits for other threads. Of `TENSORS` tensors of one shape a part has the same columns of each.
///
/// `RAGGED` rows may begin anywhere. They are read from the multiple of 16 bytes before their first element on, so that all copies are vectors.
pub struct RowParts<
    T,
    L,
    const N: usize,
    const CTAS: usize,
    const PLACES: usize,
    const RAGGED: bool,
    const TENSORS: usize,
> {
    from: [Global<T, 3, RowMajor, 0>; TENSORS],
    outside: T,
    /// Where this thread's first vector lies.
    address: u32,
    /// Of a row, the number of the first part, and how many parts.
    first: u32,
    count: u32,
    current: RowTile,
    /// Of the current row.
    place: [u32; 3],
    skew: u32,
    ahead: Ahead<T, TENSORS>,
    /// The place of the current row's first part.
    oldest: u32,
    layout: PhantomData<L>,
}

/// The row of which parts are loaded next.
#[derive(Clone, Copy)]
struct Ahead<T, const TENSORS: usize> {
    tile: RowTile,
    /// Parts of it that are loaded.
    loaded: u32,
    /// Its vectors from this thread's first on, and the elements from there to the end of its last vector, or of the tensor, if that cuts it.
    from: [*mut T; TENSORS],
    left: u32,
}

impl<P: Collective> Cta<P> {
    /// Begins to load this CTA's first row in the order of `order`, and what there is room for of the next ones. `outside` is in place of what lies
    /// outside of a row.
    ///
    /// The tensors, as [`Unmapped`](crate::tile::Unmapped) parameters give them, have one shape. Rows are aligned to 16 bytes and multiples of that long, and have at most `N` `CTAS` `PLACES` columns. `RAGGED`
    /// rows are those of contiguous tensors that are aligned to 16 bytes, with 7 columns fewer at most, 3 of f32. The kernel traps at others.
    #[inline(always)]
    pub fn row_parts<
        T,
        L,
        const N: usize,
        const CTAS: usize,
        const PLACES: usize,
        const RAGGED: bool,
        const TENSORS: usize,
    >(
        &mut self,
        from: [Global<T, 3, RowMajor, 0>; TENSORS],
        order: RowOrder,
        outside: T,
    ) -> RowParts<T, L, N, CTAS, PLACES, RAGGED, TENSORS>
    where
        T: Element,
        L: FragmentLayout<1, N>,
    {
        const { expect_all::<P>(L::THREADS) };
        const { assert!(in_vectors::<T>(L::RUN), "a thread copies vectors of 16 bytes") };
        const { assert!(PLACES >= 1 && PLACES <= 16, "1 to 16 places") };
        const { assert!(TENSORS >= 1, "one tensor or more") };
        let address = self.reserve((PLACES * TENSORS * N * T::BYTES) as u32, VECTOR as u32);
        let step = const { VECTOR / T::BYTES } as u32;
        let cols = from[0].cols();
        let mut lies_so = true;
        let mut i = 0;
        while i < TENSORS {
            let aligned = cols.is_multiple_of(step) && from[i].align as usize >= VECTOR;
            lies_so &= if RAGGED { is_contiguous(&from[i]) } else { aligned };
            lies_so &= from[i].shape() == from[0].shape();
            i += 1;
        }
        let count = (cols + if RAGGED { step - 1 } else { 0 }).div_ceil((N * CTAS) as u32);
        if count > PLACES as u32 || !lies_so {
            trap();
        }
        let address = address + thread_x() * VECTOR as u32;
        let (current, first) =
            (RowTile::first(order, CTAS as u32), if CTAS > 1 { cluster_rank() } else { 0 });
        let ahead = Ahead { tile: current, loaded: 0, from: [core::ptr::null_mut(); TENSORS], left: 0 };
        let (place, layout) = ([0; 3], PhantomData);
        let mut parts = RowParts {
            from,
            outside,
            address,
            first,
            count,
            current,
            place,
            skew: 0,
            ahead,
            oldest: 0,
            layout,
        };
        parts.begin();
        parts.begin_ahead();
        let mut place = 0;
        while place < PLACES as u32 {
            parts.load(place);
            place += 1;
        }
        parts
    }
}

#[rustfmt::skip]
impl<
    T: Element, L: FragmentLayout<1, N>, const N: usize, const CTAS: usize, const PLACES: usize, const RAGGED: bool, const TENSORS: usize,
> RowParts<T, L, N, CTAS, PLACES, RAGGED, TENSORS>
{
    /// Elements of a vector.
    const STEP: usize = VECTOR / T::BYTES;

    /// The current row: it does not exist behind the last.
    #[inline(always)]
    pub fn row(&self) -> RowTile {
        self.current
    }

    /// The current row of a tensor of the same shape, for results: parts are [stored](RowPart::store) there. Ragged rows begin there as those that
    /// were read; the kernel traps at others.
    #[inline(always)]
    pub fn row_of(&self, to: &mut GlobalMut<T, 3, RowMajor, 0>) -> RowMut<T> {
        RowMut::of(to, self.place, if RAGGED { Some(self.skew) } else { None })
    }

    /// Folds the parts of the current row, of each tensor, from left to right. Warps that have nothing of a part of a ragged row leave it out.
    #[inline(always)]
    pub fn fold<A>(&self, init: A, mut each: impl FnMut(A, [Fragment<T, 1, N, L>; TENSORS], RowPart) -> A) -> A {
        let short = self.wait_for_short();
        let (mut folded, mut i) = (init, 0);
        while i < self.count {
            folded = self.folded(folded, i, short, &mut each);
            i += 1;
        }
        folded
    }

    /// As [`fold`](Self::fold), of rows of which a CTA has at most `PARTS` parts: `each(before, i, tensors, part)` knows when it is compiled which one it
    /// gets. The kernel traps at longer rows.
    #[inline(always)]
    pub fn fold_each<const PARTS: usize, A>(
        &self,
        init: A,
        mut each: impl FnMut(A, usize, [Fragment<T, 1, N, L>; TENSORS], RowPart) -> A,
    ) -> A {
        self.expect_at_most(PARTS);
        let short = self.wait_for_short();
        let (mut folded, mut i) = (init, 0);
        while i < PARTS {
            if i < self.count as usize {
                let each = |before, tensors, part| each(before, i, tensors, part);
                folded = self.folded(folded, same_number(i as u32), short, each);
            }
            i += 1;
        }
        folded
    }

    /// A short ragged row is waited for at once: to ask for how many groups takes as many instructions as some of the work.
    #[inline(always)]
    fn wait_for_short(&self) -> bool {
        let short = RAGGED && self.count <= PLACES as u32 / 2;
        if short {
            wait_for_all_but(PLACES as u32 - self.count);
        }
        short
    }

    #[inline(always)]
    fn folded<A>(
        &self,
        before: A,
        i: u32,
        short: bool,
        mut each: impl FnMut(A, [Fragment<T, 1, N, L>; TENSORS], RowPart) -> A,
    ) -> A {
        let part = self.part(i);
        if !self.reaches(part) {
            return before;
        }
        if !short {
            wait_for_all_but(PLACES as u32 - 1 - i);
        }
        each(before, self.filled(self.read(i), part), part)
    }

    /// Traps at rows of more parts.
    #[inline(always)]
    fn expect_at_most(&self, parts: usize) {
        if self.count as usize > parts {
            trap();
        }
    }

    /// Takes the parts of the current row from left to right for the last time; then the next row is the current one. The place of each is
    /// loaded again as soon as `each` is done. Warps that have nothing of a part of a ragged row leave it out, and what lies outside of the row is anything.
    #[inline(always)]
    pub fn take(&mut self, mut each: impl FnMut([Fragment<T, 1, N, L>; TENSORS], RowPart)) {
        let mut i = 0;
        while i < self.count {
            self.take_part(i, &mut each);
            i += 1;
        }
        self.next();
    }

    /// As [`take`](Self::take), of rows of which a CTA has at most `PARTS` parts: `each(i, tensors, part)` knows when it is compiled which one it
    /// gets, so that registers can hold something for each. The kernel traps at longer rows.
    #[inline(always)]
    pub fn take_each<const PARTS: usize>(
        &mut self,
        mut each: impl FnMut(usize, [Fragment<T, 1, N, L>; TENSORS], RowPart),
    ) {
        self.expect_at_most(PARTS);
        let mut i = 0;
        while i < PARTS {
            if i < self.count as usize {
                // Hidden: registers would hold what follows from it for each part, from row to row.
                self.take_part(same_number(i as u32), |tensors, part| each(i, tensors, part));
            }
            i += 1;
        }
        self.next();
    }

    #[inline(always)]
    fn take_part(&mut self, i: u32, mut each: impl FnMut([Fragment<T, 1, N, L>; TENSORS], RowPart)) {
        let part = self.part(i);
        // Before a place is loaded again its last copy is over, also where nobody reads it.
        wait_for_all_but(PLACES as u32 - 1);
        if self.reaches(part) {
            each(self.read(0), part);
        }
        self.load(self.oldest);
        self.oldest = Self::after(self.oldest, 1);
    }

    /// Goes on to the next row.
    #[inline(always)]
    fn next(&mut self) {
        self.current = self.current.next();
        self.begin();
    }

    /// Whether this thread's warp has something of a part.
    #[inline(always)]
    fn reaches(&self, part: RowPart) -> bool {
        !RAGGED || L::coord(thread_x() / 32 * 32, 0).1 < part.inside[1]
    }

    /// The place so many behind this one.
    #[inline(always)]
    fn after(place: u32, by: u32) -> u32 {
        let place = place + by;
        if place >= PLACES as u32 { place - PLACES as u32 } else { place }
    }

    /// Where this thread's vector of a tensor's registers from `i` on lies.
    #[inline(always)]
    fn vector(&self, place: u32, tensor: usize, i: usize) -> u32 {
        let part = place * (TENSORS * N * T::BYTES) as u32;
        self.address + part + (tensor * N * T::BYTES + i / Self::STEP * VECTOR * L::THREADS as usize) as u32
    }

    /// What is to be known of the current row.
    #[inline(always)]
    fn begin(&mut self) {
        self.place = self.current.at(0);
        if RAGGED {
            self.skew = skew(self.from[0].tile(self.place).window(1, N).pointer);
        }
    }

    /// The same of the row that is loaded next.
    #[inline(always)]
    fn begin_ahead(&mut self) {
        let (first, place) = (L::coord(thread_x(), 0).1, self.ahead.tile.at(0));
        let mut tensor = 0;
        while tensor < TENSORS {
            let row = self.from[tensor].tile(place).window(1, N);
            let skew = if RAGGED { skew(row.pointer) } else { 0 };
            let begin = row.pointer.wrapping_sub(skew as usize);
            let mut end = if row.rows > 0 { row.cols + skew } else { 0 };
            if RAGGED && row.rows > 0 {
                let [batch, rows, cols] = self.from[tensor].shape().map(u64::from);
                let all = self.from[tensor].pointer.wrapping_add((batch * rows * cols) as usize);
                let behind = (all as u64 - begin as u64) / T::BYTES as u64;
                let whole = end.next_multiple_of(Self::STEP as u32);
                end = if u64::from(whole) < behind { whole } else { behind as u32 };
            }
            self.ahead.from[tensor] = begin.wrapping_add(first as usize);
            self.ahead.left = end.saturating_sub(first);
            tensor += 1;
        }
    }

    /// Begins to load the next part, as a group of copies of its own.
    #[inline(always)]
    fn load(&mut self, place: u32) {
        let first = (self.first + self.ahead.loaded * CTAS as u32) * N as u32;
        let mut tensor = 0;
        while tensor < TENSORS {
            let from = self.ahead.from[tensor].wrapping_add(first as usize);
            let mut i = 0;
            while i < L::Regs::<T>::LEN {
                let col = first + L::offset(i).1;
                let (to, from) = (self.vector(place, tensor, i), from.wrapping_add(L::offset(i).1 as usize).cast());
                // SAFETY: the vector in shared memory is this thread's own, and what it last held is in registers. Rows are aligned and whole vectors
                // long, so that one that begins inside ends inside; or what lies before a row is the end of the one before, what lies behind it the
                // beginning of the next, and behind the last row's end nothing is read.
                unsafe {
                    if RAGGED && !self.ahead.left.is_multiple_of(Self::STEP as u32) {
                        let left = self.ahead.left.saturating_sub(col) * T::BYTES as u32;
                        cp_async::copy16(to, from, if left < VECTOR as u32 { left } else { VECTOR as u32 });
                    } else {
                        cp_async::copy16_if(to, from, col < self.ahead.left);
                    }
                }
                i += Self::STEP;
            }
            tensor += 1;
        }
        // SAFETY: closes the group of this thread's copies.
        unsafe { cp_async::commit() };
        let Ahead { tile, loaded, .. } = self.ahead;
        let ends = loaded + 1 == self.count;
        (self.ahead.tile, self.ahead.loaded) = if ends { (tile.next(), 0) } else { (tile, loaded + 1) };
        if ends {
            self.begin_ahead();
        }
    }

    /// The `i`-th part of the current row that this CTA has.
    #[inline(always)]
    pub fn part(&self, i: u32) -> RowPart {
        RowPart::of::<N>(self.first + i * CTAS as u32, (self.from[0].cols(), self.skew), self.place, RAGGED)
    }

    /// The part so many behind the oldest, of each tensor: this thread has waited for its copies.
    #[inline(always)]
    fn read(&self, behind: u32) -> [Fragment<T, 1, N, L>; TENSORS] {
        let place = Self::after(self.oldest, behind);
        let mut all = [Fragment::<T, 1, N, L>::splat(self.outside); TENSORS];
        let mut tensor = 0;
        while tensor < TENSORS {
            let mut i = 0;
            while i < L::Regs::<T>::LEN {
                // SAFETY: this thread's own vector, whose copy it has waited for.
                let words = unsafe { shared::load_u32x4(self.vector(place, tensor, i)) };
                set_vector::<T, _>(&mut all[tensor].regs, i, words);
                i += Self::STEP;
            }
            tensor += 1;
        }
        all
    }

    /// A part with `outside` in place of what is not the row's.
    #[inline(always)]
    fn filled(&self, mut all: [Fragment<T, 1, N, L>; TENSORS], part: RowPart) -> [Fragment<T, 1, N, L>; TENSORS] {
        let [from, to] = part.inside;
        if from == 0 && to == N as u32 {
            return all;
        }
        let mut tensor = 0;
        while tensor < TENSORS {
            all[tensor] = if RAGGED {
                all[tensor].fill_outside(&Rows::splat(from as i32), &Rows::splat(to as i32), self.outside)
            } else {
                all[tensor].fill_from(to, self.outside)
            };
            tensor += 1;
        }
        all
    }
}

/// Waits for all of this thread's groups of copies but the last so many, fewer than 16.
#[inline(always)]
fn wait_for_all_but(groups: u32) {
    macro_rules! wait {
        ($($n:literal)*) => {
            // SAFETY: waits for this thread's groups alone.
            unsafe {
                match groups {
                    $($n => cp_async::wait::<$n>(),)*
                    _ => cp_async::wait::<0>(),
                }
            }
        };
    }
    wait!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
}
