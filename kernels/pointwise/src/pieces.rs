//! Pieces of tensors: neighbours of a row, which a thread reads and writes in accesses of 16 bytes, or one by one.

use tilewright_device::abi::KernelArg;
use tilewright_device::arch::global;
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

impl<const RANK: usize> KernelArg for Strided<RANK> {
    type Abi = Self;
    #[inline(always)]
    unsafe fn load(at: *const Self) -> Self {
        // SAFETY: the caller passes an initialised parameter.
        unsafe { *at }
    }
}

impl<const RANK: usize> Strided<RANK> {
    /// A tensor that a call does not have.
    pub const NONE: Self = Strided { address: 0, strides: [0; RANK] };

    /// The address of an element.
    #[inline(always)]
    pub(crate) fn at<T: Element>(&self, index: [u32; RANK]) -> u64 {
        let (mut elements, mut dim) = (0, 0);
        while dim < RANK {
            elements += index[dim] as u64 * self.strides[dim];
            dim += 1;
        }
        self.address.wrapping_add(elements * T::BYTES as u64)
    }
}

/// The order of the pieces of a batch of matrices: along rows, then down, then from matrix to matrix.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PieceOrder {
    total: u32,
    by_row: Division,
    by_matrix: Division,
}

impl PieceOrder {
    /// Pieces in all are at most this many: numbers of a grid's last threads are below 2^31.
    pub const MOST: u32 = (1 << 31) - (1 << 16);

    /// Of `batch` matrices of `rows` rows of `row` pieces; `None` for more pieces than are counted.
    pub fn new([batch, rows, row]: [u32; 3]) -> Option<Self> {
        let total = batch.checked_mul(rows)?.checked_mul(row).filter(|&total| total <= Self::MOST)?;
        Some(PieceOrder { total, by_row: Division::by(row), by_matrix: Division::by(rows) })
    }
    /// Pieces of the whole batch.
    pub const fn total(&self) -> u32 {
        self.total
    }
    /// Matrix, row and piece of the row, and whether there is such a piece.
    #[inline(always)]
    pub(crate) fn at(&self, number: u32) -> ([u32; 3], bool) {
        let (line, piece) = self.by_row.of(number);
        let (matrix, row) = self.by_matrix.of(line);
        ([matrix, row, piece], number < self.total)
    }
}

impl KernelArg for PieceOrder {
    type Abi = Self;
    #[inline(always)]
    unsafe fn load(at: *const Self) -> Self {
        // SAFETY: the caller passes an initialised parameter.
        unsafe { *at }
    }
}

/// The number of a thread's `i`-th piece, if CTAs of `threads` threads take `each` pieces a thread: neighbours' pieces are neighbours.
#[inline(always)]
pub(crate) fn number(thread: u32, threads: u32, each: usize, i: usize) -> u32 {
    (block_x() * each as u32 + i as u32) * threads + thread
}

/// Whether pieces of `V` elements are whole vectors.
const fn in_vectors<T: Element>(v: usize) -> bool {
    (v * T::BYTES).is_multiple_of(VECTOR)
}

/// The `V` elements from an address on, each `outside` where there are none.
///
/// # Safety
/// If `inside`, the elements are readable, of a tensor of aligned elements; from a multiple of 16 bytes on if they are whole vectors, and
/// contiguous. No other thread writes them meanwhile.
#[inline(always)]
pub(crate) unsafe fn load<T: Element, const V: usize>(from: u64, inside: bool, outside: T) -> [T; V] {
    const { assert!(V == 1 || in_vectors::<T>(V), "pieces are one element, or whole vectors") };
    let mut piece = [outside; V];
    if in_vectors::<T>(V) {
        let both = if T::BYTES == 2 { outside.bits() << 16 | outside.bits() } else { outside.bits() };
        let mut vector = 0;
        while vector < V * T::BYTES / VECTOR {
            let mut words = [both; 4];
            // SAFETY: the caller's.
            unsafe { global::replace_fresh_u32x4(&mut words, 0, from + (vector * VECTOR) as u64, inside) };
            let mut i = 0;
            while i < VECTOR / T::BYTES {
                let word = words[i * T::BYTES / 4];
                let bits = if T::BYTES == 2 { word >> (i % 2 * 16) & 0xffff } else { word };
                piece[vector * (VECTOR / T::BYTES) + i] = T::from_bits(bits);
                i += 1;
            }
            vector += 1;
        }
    } else {
        // SAFETY: the caller's.
        let bits = unsafe {
            if T::BYTES == 2 {
                global::ld_global_u16_if(from as *const u16, inside) as u32
            } else {
                global::ld_global_u32_if(from as *const u32, inside)
            }
        };
        if inside {
            piece[0] = T::from_bits(bits);
        }
    }
    piece
}

/// Stores `V` elements from an address on, if they are `inside`.
///
/// # Safety
/// As for [`load`], with writable for readable; no other thread uses the elements meanwhile.
#[inline(always)]
pub(crate) unsafe fn store<T: Element, const V: usize>(to: u64, piece: [T; V], inside: bool) {
    const { assert!(V == 1 || in_vectors::<T>(V), "pieces are one element, or whole vectors") };
    if in_vectors::<T>(V) {
        let mut vector = 0;
        while vector < V * T::BYTES / VECTOR {
            let mut words = [0; 4];
            let mut i = 0;
            while i < VECTOR / T::BYTES {
                let bits = piece[vector * (VECTOR / T::BYTES) + i].bits();
                words[i * T::BYTES / 4] |= bits << if T::BYTES == 2 { i % 2 * 16 } else { 0 };
                i += 1;
            }
            let at = to + (vector * VECTOR) as u64;
            // SAFETY: the caller's.
            unsafe { global::st_global_u32x4_if(at as *mut [u32; 4], words, inside) };
            vector += 1;
        }
    } else {
        // SAFETY: the caller's.
        unsafe {
            if T::BYTES == 2 {
                global::st_global_u16_if(to as *mut u16, piece[0].bits() as u16, inside)
            } else {
                global::st_global_u32_if(to as *mut u32, piece[0].bits(), inside)
            }
        }
    }
}

/// Values rounded to nearest even.
#[inline(always)]
pub(crate) fn rounded<T: Element, const V: usize>(values: [f32; V]) -> [T; V] {
    let mut piece = [T::ZERO; V];
    let mut i = 0;
    while i < V {
        let [low, high] = T::from_f32x2(values[i], values[if i + 1 < V { i + 1 } else { i }]);
        piece[i] = low;
        if i + 1 < V {
            piece[i + 1] = high;
        }
        i += 2;
    }
    piece
}
