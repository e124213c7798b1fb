//! Functions of single elements, over whole tensors of any shape and strides.

use crate::arch::declare::computing_threads;
use crate::arch::global;
use crate::arch::special::{block_x, grid_x, thread_x, trap};
use crate::layout::{Element, RowMajor};
use crate::tile::memory::global::{Global, GlobalMut};
use crate::tile::memory::window::{read_if, write_if};

/// Bytes of a piece.
const PIECE: usize = 16;
/// Most elements of a piece.
const MOST: usize = PIECE / 2;
/// Pieces that a thread loads of each tensor before it computes.
const EACH: usize = 2;

/// Most pieces of a tensor.
const PIECES: u64 = 1 << 31;

/// Elements of a piece of the narrower of two types: of the wider one it is several accesses.
const fn elements<T: Element, U: Element>() -> usize {
    PIECE / if T::BYTES < U::BYTES { T::BYTES } else { U::BYTES }
}

/// A place in a tensor of `RANK` dimensions whose last one is counted in pieces.
#[derive(Clone, Copy)]
struct Place<const RANK: usize>([u32; RANK]);

impl<const RANK: usize> Place<RANK> {
    /// That of a number.
    #[inline(always)]
    fn of(number: u32, sizes: [u32; RANK]) -> Self {
        let (mut index, mut left, mut dim) = ([0; RANK], number, RANK - 1);
        while dim > 0 {
            // Tensors without elements have no places, and are asked for none.
            let size = if sizes[dim] == 0 { 1 } else { sizes[dim] };
            (left, index[dim]) = (left / size, left % size);
            dim -= 1;
        }
        index[0] = left;
        Place(index)
    }
    /// So far behind this one: what a dimension has too many carries to the one before.
    #[inline(always)]
    fn behind(self, distance: Self, sizes: [u32; RANK]) -> Self {
        let (mut index, mut carry, mut dim) = ([0; RANK], 0, RANK - 1);
        while dim > 0 {
            let sum = self.0[dim] + distance.0[dim] + carry;
            carry = (sum >= sizes[dim]) as u32;
            index[dim] = if carry == 1 { sum - sizes[dim] } else { sum };
            dim -= 1;
        }
        index[0] = self.0[0] + distance.0[0] + carry;
        Place(index)
    }
}

impl<T: Element, const RANK: usize, const BOX: usize> Global<T, RANK, RowMajor, BOX> {
    /// The element that begins the piece at a place.
    #[inline(always)]
    fn piece(&self, place: Place<RANK>, elements: usize) -> *mut T {
        let mut offset = place.0[RANK - 1] as u64 * elements as u64 * self.strides[RANK - 1];
        let mut dim = 0;
        while dim < RANK - 1 {
            offset += place.0[dim] as u64 * self.strides[dim];
            dim += 1;
        }
        self.pointer.wrapping_add(offset as usize)
    }

    /// Elements of the piece at a place that are inside.
    #[inline(always)]
    fn inside(&self, place: Place<RANK>, elements: usize) -> u32 {
        if RANK == 1 || place.0[0] < self.shape[0] {
            // In 64 bits: places behind the last of one dimension may lie beyond 2^32 elements.
            let first = place.0[RANK - 1] as u64 * elements as u64;
            let left = (self.shape[RANK - 1] as u64).saturating_sub(first);
            if left < elements as u64 { left as u32 } else { elements as u32 }
        } else {
            0
        }
    }

    /// The bits of `count` elements from a piece's first on, of which so many are `inside`.
    #[inline(always)]
    fn read_piece(&self, at: *const T, count: usize, inside: u32) -> [[u32; 4]; 2] {
        let mut words = [[0; 4]; 2];
        if self.align as usize >= PIECE && inside >= count as u32 {
            let mut vector = 0;
            while vector < count * T::BYTES / PIECE {
                let from = at as u64 + (vector * PIECE) as u64;
                // SAFETY: a vector of the tensor, aligned as the host says; what is written is another tensor.
                unsafe { global::replace_cached_u32x4(&mut words[vector], 0, from, true) };
                vector += 1;
            }
        } else {
            let mut i = 0;
            while i < count {
                let from = at.wrapping_add((i as u64 * self.strides[RANK - 1]) as usize);
                // SAFETY: an element of the tensor.
                let bits = unsafe { read_if(from, (i as u32) < inside) };
                let byte = i * T::BYTES;
                words[byte / PIECE][byte % PIECE / 4] |= bits << (byte % 4 * 8);
                i += 1;
            }
        }
        words
    }

    /// The inverse of [`read_piece`](Self::read_piece).
    #[inline(always)]
    fn write_piece(&self, at: *mut T, values: &[f32; MOST], count: usize, inside: u32) {
        let mut words = [[0; 4]; 2];
        let mut i = 0;
        while i < count {
            let [low, high] = T::from_f32x2(values[i], values[i + 1]);
            let byte = i * T::BYTES;
            words[byte / PIECE][byte % PIECE / 4] |= low.bits();
            let byte = byte + T::BYTES;
            words[byte / PIECE][byte % PIECE / 4] |= high.bits() << (byte % 4 * 8);
            i += 2;
        }
        if self.align as usize >= PIECE && inside >= count as u32 {
            let mut vector = 0;
            while vector < count * T::BYTES / PIECE {
                let to = (at as u64 + (vector * PIECE) as u64) as *mut [u32; 4];
                // SAFETY: a vector of the tensor, aligned as the host says, which no other thread has.
                unsafe { global::st_global_u32x4(to, words[vector]) };
                vector += 1;
            }
        } else {
            let mut i = 0;
            while i < count {
                let (byte, to) =
                    (i * T::BYTES, at.wrapping_add((i as u64 * self.strides[RANK - 1]) as usize));
                let word = words[byte / PIECE][byte % PIECE / 4] >> (byte % 4 * 8);
                let bits = if T::BYTES == 2 { word & 0xffff } else { word };
                // SAFETY: an element of the tensor, which no other thread has.
                unsafe { write_if(to, T::from_bits(bits), (i as u32) < inside) };
                i += 1;
            }
        }
    }
}

/// y = f(inputs), element by element, in f32: by all CTAs of the grid together, whose number may be any.
///
/// The inputs and y have one shape, of up to 2^31 pieces of 16 bytes of the narrower type, and any strides; else the kernel traps. An input that
/// is stretched to y's shape, by `TensorView::broadcast`, has strides of 0. Tensors that are aligned to 16 bytes and contiguous along the
/// last dimension are moved in pieces of that, all others element by element.
///
/// Each thread takes two pieces of each tensor at a time, and the next ones behind those of the whole grid. Where Rust's core has no function, `f` may
/// have it of [`math`](crate::arch::math).
///
/// ```
/// use tilewright_device::kernel;
/// use tilewright_device::tile::{Element, Global, GlobalMut, elementwise};
///
/// /// y = a x + b.
/// #[kernel(threads = 256, expects(x.shape() == y.shape(), b.shape() == y.shape()))]
/// pub fn scaled<T: Element>(a: f32, x: Global<T, 2>, b: Global<T, 2>, mut y: GlobalMut<T, 2>) {
///     elementwise([x, b], &mut y, |[x, b]| a * x + b);
/// }
/// # fn main() {}
/// ```
#[inline(always)]
pub fn elementwise<T, U, const N: usize, const RANK: usize, const BOX: usize, const TO_BOX: usize>(
    inputs: [Global<T, RANK, RowMajor, BOX>; N],
    y: &mut GlobalMut<U, RANK, RowMajor, TO_BOX>,
    f: impl Fn([f32; N]) -> f32,
) where
    T: Element,
    U: Element,
{
    let (y, count) = (y.0, const { elements::<T, U>() });
    let mut sizes = y.shape;
    sizes[RANK - 1] = sizes[RANK - 1].div_ceil(count as u32);
    let (mut total, mut same, mut dim) = (1u64, true, 0);
    while dim < RANK {
        let mut k = 0;
        while k < N {
            same &= inputs[k].shape[dim] == y.shape[dim];
            k += 1;
        }
        // Up to the most it does not wrap around; without elements there are no pieces, however many there would be.
        total = if total > PIECES && sizes[dim] > 0 { total } else { total * sizes[dim] as u64 };
        dim += 1;
    }
    if !same || total > PIECES {
        trap();
    }
    let threads = computing_threads();
    let step = Place::of(threads, sizes);
    let mut number = block_x() as u64 * (threads * EACH as u32) as u64 + thread_x() as u64;
    while number < total {
        let mut places = [Place::of(number as u32, sizes); EACH];
        let mut i = 1;
        while i < EACH {
            places[i] = places[i - 1].behind(step, sizes);
            i += 1;
        }
        let mut read = [[[[0; 4]; 2]; N]; EACH];
        let mut i = 0;
        while i < EACH {
            let inside = y.inside(places[i], count);
            let mut k = 0;
            while k < N {
                read[i][k] = inputs[k].read_piece(inputs[k].piece(places[i], count), count, inside);
                k += 1;
            }
            i += 1;
        }
        let mut i = 0;
        while i < EACH {
            let mut values = [0.0; MOST];
            let mut e = 0;
            while e < count {
                let mut x = [0.0; N];
                let mut k = 0;
                while k < N {
                    let byte = e * T::BYTES;
                    let word = read[i][k][byte / PIECE][byte % PIECE / 4] >> (byte % 4 * 8);
                    x[k] = T::from_bits(if T::BYTES == 2 { word & 0xffff } else { word }).to_f32();
                    k += 1;
                }
                values[e] = f(x);
                e += 1;
            }
            y.write_piece(y.piece(places[i], count), &values, count, y.inside(places[i], count));
            i += 1;
        }
        number += grid_x() as u64 * (threads * EACH as u32) as u64;
    }
}
