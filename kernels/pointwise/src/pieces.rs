//! Pieces of tensors: neighbours of a row, which a thread reads and writes in accesses of 16 bytes, or one by one.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::layout::element::pack;
use tilewright_device::tile::{Element, block_x, division::Division};

/// Bytes of a vector.
const VECTOR: usize = 16;

/// Where a tensor's elements lie: an argument of kernels that ask nothing else of it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Strided<const RANK: usize> {
    /// The address of the first element.
    pub address: u64,
    /// Elements between neighbours in each dimension.
    pub strides: [u64; RANK],
}

impl<const RANK: usize> PassedAsIs for Strided<RANK> {}

impl<const RANK: usize> Strided<RANK> {
    /// A tensor that a call does not have.
    pub const NONE: Self = Strided { address: 0, strides: [0; RANK] };

    /// The address of an element.
    #[inline(always)]
    pub(crate) fn at<T: Element>(&self, index: [u32; RANK]) -> u64 {
        self.address_of(index, T::BYTES as u32)
    }
    /// The address of an element of so many bytes.
    #[inline(always)]
    pub(crate) fn address_of(&self, index: [u32; RANK], bytes: u32) -> u64 {
        let (mut elements, mut dim) = (0, 0);
        while dim < RANK {
            elements += index[dim] as u64 * self.strides[dim];
            dim += 1;
        }
        self.address.wrapping_add(elements * bytes as u64)
    }
}

/// The order of pieces in `RANK` dimensions, the last one first: of a batch of matrices along rows, then down, then from matrix to matrix.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PieceOrder<const RANK: usize = 3> {
    total: u32,
    /// By the size of each dimension but the first.
    by: [Division; RANK],
    /// Whole pieces of a row, and the elements of the one behind them.
    short: [u32; 2],
}

impl<const RANK: usize> PieceOrder<RANK> {
    /// Pieces in all are at most this many: numbers of a grid's last threads are below 2^31.
    pub const MOST: u32 = (1 << 31) - (1 << 16);

    /// Of so many in each dimension; `None` for more pieces than are counted.
    pub fn new(sizes: [u32; RANK]) -> Option<Self> {
        let total = sizes.into_iter().try_fold(1u32, |all, size| all.checked_mul(size));
        let total = if sizes.contains(&0) { 0 } else { total.filter(|&total| total <= Self::MOST)? };
        Some(PieceOrder { total, by: sizes.map(Division::by), short: [u32::MAX, 0] })
    }
    /// The same of rows of so many elements, where pieces have `of`: the last one of each row has what is left.
    pub fn ending(self, columns: u32, of: u32) -> Self {
        PieceOrder { short: [columns / of, columns % of], ..self }
    }
    /// The columns of such rows.
    #[inline(always)]
    pub(crate) fn columns(&self, of: usize) -> u32 {
        self.short[0] * of as u32 + self.short[1]
    }
    /// Pieces in all.
    pub const fn total(&self) -> u32 {
        self.total
    }
    /// The place of a piece in each dimension, and whether there is such a piece.
    #[inline(always)]
    pub(crate) fn at(&self, number: u32) -> ([u32; RANK], bool) {
        let (mut index, mut left, mut dim) = ([0; RANK], number, RANK - 1);
        while dim > 0 {
            (left, index[dim]) = self.by[dim].of(left);
            dim -= 1;
        }
        index[0] = left;
        (index, number < self.total)
    }
    /// Whether rows end with a piece that is shorter than the others.
    #[inline(always)]
    pub(crate) fn ends_short(&self) -> bool {
        self.short[1] != 0
    }
    /// The elements of a piece, where most have `of`: 0 if it is not `inside`.
    #[inline(always)]
    pub(crate) fn elements(&self, (index, inside): &([u32; RANK], bool), of: usize) -> u32 {
        let all = if index[RANK - 1] == self.short[0] { self.short[1] } else { of as u32 };
        if *inside { all } else { 0 }
    }
}

impl<const RANK: usize> PassedAsIs for PieceOrder<RANK> {}

/// The number of a thread's `i`-th piece, if CTAs of `threads` threads take `each` pieces a thread: neighbours' pieces are neighbours.
#[inline(always)]
pub(crate) fn number(thread: u32, threads: u32, each: usize, i: usize) -> u32 {
    (block_x() * each as u32 + i as u32) * threads + thread
}

/// The first column of a piece of a row of so many, and how many it has: pieces have `v`, but begin where vectors do of a tensor whose row
/// begins `skew` columns behind one.
#[inline(always)]
pub(crate) fn span(piece: u32, v: usize, skew: u32, columns: u32) -> (u32, u32) {
    let first = (piece * v as u32).saturating_sub(skew);
    let room = if piece == 0 { v as u32 - skew } else { v as u32 };
    let left = columns.saturating_sub(first);
    (first, if left < room { left } else { room })
}

/// Whether there is room for a whole piece on either side of the one from this column on.
#[inline(always)]
pub(crate) fn is_inner(first: u32, v: usize, columns: u32) -> bool {
    first >= v as u32 && columns.saturating_sub(first) >= 2 * v as u32
}

/// `BYTES` bytes from an address on, 1 to 16, low ones first; those of `outside` where there are none.
///
/// # Safety
/// If `inside`, the bytes are readable, from a multiple of their number on; no other thread writes them meanwhile.
#[inline(always)]
pub(crate) unsafe fn load_bits<const BYTES: usize>(from: u64, inside: bool, outside: u32) -> [u32; 4] {
    let mut words = [outside; 4];
    // SAFETY: the caller's.
    unsafe {
        match BYTES {
            16 => global::replace_cached_u32x4(&mut words, 0, from, inside),
            8 if inside => [words[0], words[1]] = global::ld_global_u32x2(from as *const [u32; 2]),
            4 => {
                let word = global::ld_global_u32_if(from as *const u32, inside);
                words[0] = if inside { word } else { outside };
            }
            2 => {
                let bits = global::ld_global_u16_if(from as *const u16, inside) as u32;
                words[0] = if inside { bits } else { outside };
            }
            1 if inside => words[0] = global::ld_global_u8(from as *const u8) as u32,
            _ => {}
        }
    }
    words
}

/// Stores `BYTES` bytes from an address on, 1 to 16, low ones first, if they are `inside`.
///
/// # Safety
/// As for [`load_bits`], with writable for readable; no other thread uses the bytes meanwhile.
#[inline(always)]
pub(crate) unsafe fn store_bits<const BYTES: usize>(to: u64, words: [u32; 4], inside: bool) {
    // SAFETY: the caller's.
    unsafe {
        match BYTES {
            16 => global::st_global_u32x4_if(to as *mut [u32; 4], words, inside),
            8 if inside => global::st_global_u32x2(to as *mut [u32; 2], [words[0], words[1]]),
            4 => global::st_global_u32_if(to as *mut u32, words[0], inside),
            2 => global::st_global_u16_if(to as *mut u16, words[0] as u16, inside),
            1 if inside => global::st_global_u8(to as *mut u8, words[0] as u8),
            _ => {}
        }
    }
}

/// As [`load_bits`], where how many bytes is no constant, but folds to one.
///
/// # Safety
/// As for [`load_bits`].
#[inline(always)]
pub(crate) unsafe fn load_bytes(bytes: usize, from: u64, inside: bool) -> [u32; 4] {
    // SAFETY: the caller's.
    unsafe {
        match bytes {
            16 => load_bits::<16>(from, inside, 0),
            8 => load_bits::<8>(from, inside, 0),
            4 => load_bits::<4>(from, inside, 0),
            2 => load_bits::<2>(from, inside, 0),
            _ => load_bits::<1>(from, inside, 0),
        }
    }
}

/// The first `count` elements, of `bytes` bytes, of a piece of `of` elements, one by one; zeros for the others.
///
/// # Safety
/// These elements are readable, and aligned. No other thread writes them meanwhile.
#[inline(always)]
pub(crate) unsafe fn load_short(from: u64, count: u32, bytes: usize, of: usize) -> [u32; 4] {
    let (mut words, mut e) = ([0; 4], 0);
    while e < of {
        // SAFETY: the caller's.
        let element = unsafe { load_bytes(bytes, from + (e * bytes) as u64, (e as u32) < count)[0] };
        words[e * bytes / 4] |= element << (e * bytes % 4 * 8);
        e += 1;
    }
    words
}

/// A piece of 16 bytes that begins anywhere, of the two vectors in which it lies; zeros where it is not `inside`.
///
/// # Safety
/// If `inside`, these vectors are readable: they are among the piece and its neighbours. No other thread writes them meanwhile.
#[inline(always)]
pub(crate) unsafe fn load_skewed(from: u64, inside: bool) -> [u32; 4] {
    let skew = from as u32 % VECTOR as u32;
    let (vector, mut words) = (from - skew as u64, [0; 8]);
    // SAFETY: the caller's; a piece that begins with a vector does not reach into the next one.
    unsafe {
        global::replace_cached_u32x4(&mut words, 0, vector, inside);
        global::replace_cached_u32x4(&mut words, 4, vector + VECTOR as u64, inside && skew != 0);
    }
    let mut by = 2;
    while by > 0 {
        let mut i = 0;
        while i + by < 8 {
            words[i] = if skew & (4 * by as u32) != 0 { words[i + by] } else { words[i] };
            i += 1;
        }
        by -= 1;
    }
    let (mut piece, mut i) = ([0; 4], 0);
    while i < 4 {
        let pair = words[i] as u64 | (words[i + 1] as u64) << 32;
        piece[i] = (pair >> (skew % 4 * 8)) as u32;
        i += 1;
    }
    piece
}

/// Stores the first `count` elements, of `bytes` bytes, of a piece of `of` elements, one by one if they are not `aligned` to their number.
///
/// # Safety
/// As for [`load_short`], with writable for readable; no other thread uses the elements meanwhile.
#[inline(always)]
pub(crate) unsafe fn store_part(
    to: u64,
    words: [u32; 4],
    count: u32,
    (bytes, of): (usize, usize),
    aligned: bool,
) {
    let whole = count == of as u32 && aligned;
    let store = |bytes, to, words, inside| {
        // SAFETY: the caller's.
        unsafe {
            match bytes {
                16 => store_bits::<16>(to, words, inside),
                8 => store_bits::<8>(to, words, inside),
                4 => store_bits::<4>(to, words, inside),
                2 => store_bits::<2>(to, words, inside),
                _ => store_bits::<1>(to, words, inside),
            }
        }
    };
    store(bytes * of, to, words, whole);
    if of > 1 && count != 0 && !whole {
        let mut e = 0;
        while e < of {
            let element = words[e * bytes / 4] >> (e * bytes % 4 * 8);
            store(bytes, to + (e * bytes) as u64, [element; 4], (e as u32) < count);
            e += 1;
        }
    }
}

/// The bits of a piece of `V` elements from an address on, at most 16 bytes; those of `outside` where there are none.
///
/// # Safety
/// If `inside`, the elements are readable, of a tensor of aligned elements; from a multiple of 16 bytes on if they are a whole vector, and
/// contiguous. No other thread writes them meanwhile.
#[inline(always)]
pub(crate) unsafe fn load<T: Element, const V: usize>(from: u64, inside: bool, outside: u32) -> [u32; 4] {
    const { assert!(V == 1 || V * T::BYTES == VECTOR, "pieces are one element, or a vector") };
    // SAFETY: the caller's.
    unsafe {
        match V * T::BYTES {
            2 => load_bits::<2>(from, inside, outside),
            4 => load_bits::<4>(from, inside, outside),
            _ => load_bits::<VECTOR>(from, inside, outside),
        }
    }
}

/// Stores the bits of a piece of `V` elements from an address on, if they are `inside`.
///
/// # Safety
/// As for [`load`], with writable for readable; no other thread uses the elements meanwhile.
#[inline(always)]
pub(crate) unsafe fn store<T: Element, const V: usize>(to: u64, piece: [u32; 4], inside: bool) {
    const { assert!(V == 1 || V * T::BYTES == VECTOR, "pieces are one element, or a vector") };
    // SAFETY: the caller's.
    unsafe {
        match V * T::BYTES {
            2 => store_bits::<2>(to, piece, inside),
            4 => store_bits::<4>(to, piece, inside),
            _ => store_bits::<VECTOR>(to, piece, inside),
        }
    }
}

/// The values of a piece.
#[inline(always)]
pub(crate) fn wide<T: Element, const V: usize>(piece: [u32; 4]) -> [f32; V] {
    let mut values = [0.0; V];
    let mut i = 0;
    while i < V {
        if T::BYTES == 2 {
            let [low, high] = T::pair_to_f32(piece[i / 2]);
            values[i] = low;
            if i + 1 < V {
                values[i + 1] = high;
            }
            i += 2;
        } else {
            values[i] = T::from_bits(piece[i]).to_f32();
            i += 1;
        }
    }
    values
}

/// A piece of values rounded to nearest even.
#[inline(always)]
pub(crate) fn rounded<T: Element, const V: usize>(values: [f32; V]) -> [u32; 4] {
    let mut piece = [0; 4];
    let mut i = 0;
    while i < V {
        let [low, high] = T::from_f32x2(values[i], values[if i + 1 < V { i + 1 } else { i }]);
        if T::BYTES == 2 {
            piece[i / 2] = pack([low, high]);
        } else {
            piece[i] = low.bits();
            if i + 1 < V {
                piece[i + 1] = high.bits();
            }
        }
        i += 2;
    }
    piece
}
