//! Lists of elements, the greatest first, in registers: of a thread, then of neighbouring lanes.

use core::marker::PhantomData;

use tilewright_device::arch::warp;
use tilewright_device::tile::Element;

use crate::fold::rank;

/// The most columns of rows whose elements are ranked.
pub const MAX_SHORT: u32 = 4096;

/// An element of a row: the greater one comes first.
#[derive(Clone, Copy)]
pub(super) struct Ranked<T> {
    /// Greater for one that is to come before: an ordered form of its value as f32. Elements of 2 bytes leave its low bits to the column.
    key: u32,
    /// Greater for one farther left, of elements of 4 bytes.
    behind: u32,
    element: PhantomData<T>,
}

impl<T: Element> Ranked<T> {
    /// Less than any element.
    pub(super) const NONE: Self = Ranked { key: 0, behind: 0, element: PhantomData };
    /// Bits of a key that are zeros in the f32 of every f16 and bf16.
    const LOW: u32 = (1 << 13) - 1;

    /// By [`rank`]. `flip` is a word of ones where the least come first, or else 0.
    #[inline(always)]
    pub(super) fn new(x: f32, flip: u32, column: u32) -> Self {
        const { assert!(MAX_SHORT <= Self::LOW, "a column has room beside a key of 2 bytes") }
        let key = rank(x) ^ flip;
        let (key, behind) = match T::BYTES {
            2 => (key & !Self::LOW | (Self::LOW - column), 0),
            _ => (key, !column),
        };
        Ranked { key, behind, element: PhantomData }
    }

    #[inline(always)]
    pub(super) fn column(self) -> u32 {
        if T::BYTES == 2 { Self::LOW - (self.key & Self::LOW) } else { !self.behind }
    }

    #[inline(always)]
    fn exceeds(self, other: Self) -> bool {
        let wide = |x: Self| (x.key as u64) << 32 | x.behind as u64;
        if T::BYTES == 2 { self.key > other.key } else { wide(self) > wide(other) }
    }

    /// The greater one.
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        if self.exceeds(other) { self } else { other }
    }

    /// That of lane `own ^ mask`.
    ///
    /// # Safety
    /// All lanes of the warp execute it, with the same mask.
    #[inline(always)]
    unsafe fn of_lane(self, mask: u32) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let key = warp::shfl_bfly_u32(self.key, mask);
            let behind = if T::BYTES == 2 { 0 } else { warp::shfl_bfly_u32(self.behind, mask) };
            Ranked { key, behind, element: PhantomData }
        }
    }
}

/// Pairs that are put in order one after the other.
struct Network<const K: usize>;

/// Those of the largest list, and some.
type Pairs = [[u8; 2]; 64];

impl<const K: usize> Network<K> {
    const SORT: (Pairs, usize) = Self::sort();
    const MERGE: [(Pairs, usize); 6] =
        [Self::merge(1), Self::merge(2), Self::merge(4), Self::merge(8), Self::merge(16), Self::merge(32)];

    /// Merges of odd and even places (Batcher 1968; Knuth, The Art of Computer Programming 3, algorithm 5.2.2M).
    const fn sort() -> (Pairs, usize) {
        let (mut pairs, mut count, mut run) = ([[0; 2]; 64], 0, 1);
        while run < K {
            let mut distance = run;
            while distance > 0 {
                let mut i = distance % run;
                while i + distance < K {
                    // Blocks of `distance` places change with others.
                    let other = i + distance;
                    if (i - distance % run) / distance % 2 == 0 && i / (2 * run) == other / (2 * run) {
                        pairs[count] = [i as u8, other as u8];
                        count += 1;
                    }
                    i += 1;
                }
                distance /= 2;
            }
            run *= 2;
        }
        (pairs, count)
    }

    /// Of `size` places that rise and fall once, as if in a circle.
    const fn merge(size: usize) -> (Pairs, usize) {
        let (mut pairs, mut count, mut distance) = ([[0; 2]; 64], 0, size / 2);
        while distance > 0 {
            let mut i = 0;
            while i < size {
                if i & distance == 0 && size <= K {
                    pairs[count] = [i as u8, (i + distance) as u8];
                    count += 1;
                }
                i += 1;
            }
            distance /= 2;
        }
        (pairs, count)
    }
}

/// Up to `K` elements, the greatest first.
#[derive(Clone, Copy)]
pub(super) struct List<T, const K: usize>(pub(super) [Ranked<T>; K]);

impl<T: Element, const K: usize> List<T, K> {
    #[inline(always)]
    fn put_in_order(&mut self, pairs: &Pairs, count: usize) {
        let mut i = 0;
        while i < count {
            let [a, b] = pairs[i];
            let (x, y) = (self.0[a as usize], self.0[b as usize]);
            let ordered = x.exceeds(y);
            (self.0[a as usize], self.0[b as usize]) = if ordered { (x, y) } else { (y, x) };
            i += 1;
        }
    }

    /// Of elements in any order.
    #[inline(always)]
    pub(super) fn sorted(elements: [Ranked<T>; K]) -> Self {
        let mut list = List(elements);
        let (pairs, count) = const { Network::<K>::SORT };
        list.put_in_order(&pairs, count);
        list
    }

    /// The greatest of both.
    #[inline(always)]
    pub(super) fn with(mut self, other: Self) -> Self {
        let mut i = 0;
        while i < K {
            self.0[i] = self.0[i].or(other.0[K - 1 - i]);
            i += 1;
        }
        self.merge(K);
        self
    }

    /// Sorts the first `size`.
    #[inline(always)]
    fn merge(&mut self, size: usize) {
        let (pairs, count) = const { Network::<K>::MERGE }[size.ilog2() as usize];
        self.put_in_order(&pairs, count);
    }

    /// Keeps the greater or the lesser of each of the first `count` and one of lane `own ^ mask`: the one at the same place, or in
    /// `reverse` order.
    ///
    /// # Safety
    /// All lanes of the warp execute it, with the same numbers.
    #[inline(always)]
    unsafe fn keep(&mut self, greater: bool, count: usize, mask: u32, reverse: bool) {
        let mut others = [Ranked::NONE; K];
        let mut i = 0;
        while i < count {
            let from = if reverse { count - 1 - i } else { i };
            // SAFETY: the caller's.
            others[i] = unsafe { self.0[from].of_lane(mask) };
            i += 1;
        }
        let mut i = 0;
        while i < count {
            // No two elements are equal, but a lane without any may meet another: both then keep the same.
            self.0[i] = if self.0[i].exceeds(others[i]) == greater { self.0[i] } else { others[i] };
            i += 1;
        }
    }

    /// The greatest of the lists of each `lanes` neighbouring lanes, a power of two up to 32: each lane has `K / lanes` of them or,
    /// where there are more lanes than that, one; the first is number [`first_of`](Self::first_of).
    ///
    /// Two groups of lanes that have a list each make one of it: every place meets the one that is as far from the other list's end, so
    /// that the greatest of both are left (Batcher 1968). Each lane of a pair does that for one half of its places. What is left rises and
    /// falls once; it is merged over lanes first, then within each. Where lanes have one place each both groups do the same.
    ///
    /// # Safety
    /// All lanes of the warp execute it, with the same number.
    #[inline(always)]
    pub(super) unsafe fn shared(mut self, lane: u32, lanes: u32) -> Self {
        let (mut step, mut places) = (0, K);
        while step < 5 {
            let half = if places > 1 { places / 2 } else { 1 };
            if lanes > 1 << step {
                let bits = if places > 1 { step } else { K.ilog2() };
                let others = ((1 << bits) - 1) | (1 << step);
                // SAFETY: the caller's.
                unsafe {
                    let mut met = [Ranked::NONE; K];
                    let mut i = 0;
                    while i < half {
                        met[i] = self.0[places - 1 - i].of_lane(others);
                        i += 1;
                    }
                    let mut i = 0;
                    while i < half {
                        self.0[i] = self.0[i].or(met[i]);
                        i += 1;
                    }
                    let mut bit = 0;
                    while bit < bits {
                        self.keep(lane >> bit & 1 == 0, half, 1 << bit, false);
                        bit += 1;
                    }
                    if places > 1 {
                        self.keep(lane >> step & 1 == 0, half, 1 << step, true);
                        self.merge(half);
                    }
                }
            }
            places = half;
            step += 1;
        }
        self
    }

    /// The number of a lane's first place, of those of a group: lanes behind the `K`-th have what others have.
    #[inline(always)]
    pub(super) fn first_of(own: u32) -> u32 {
        own.reverse_bits() >> (u32::BITS - K.ilog2())
    }
}
