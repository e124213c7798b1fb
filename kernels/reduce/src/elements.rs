//! Elements from global memory: vectors of 16 bytes, or single ones.

use tilewright_device::arch::global;
use tilewright_device::tile::Element;

/// Bytes of a vector.
pub const VECTOR: usize = 16;

/// Vectors, or single elements, that a thread has in flight.
pub const AHEAD: usize = 4;

/// The bits of a word whose elements are all `x`.
#[inline(always)]
pub(crate) fn word_of<T: Element>(x: f32) -> u32 {
    let bits = T::from_f32x2(x, x)[0].bits();
    if T::BYTES == 2 { bits << 16 | bits } else { bits }
}

/// The words of a vector, each `outside` where there is none.
///
/// # Safety
/// If `inside`, 16 bytes from `from` on, a multiple of that, are readable, and no thread writes them meanwhile.
#[inline(always)]
pub(crate) unsafe fn vector(from: u64, inside: bool, outside: u32) -> [u32; 4] {
    let mut words = [outside; 4];
    // SAFETY: the caller's.
    unsafe { global::replace_fresh_u32x4(&mut words, 0, from, inside) };
    words
}

/// The elements of a vector whose words' `signs` change, or the single one of the first word.
#[inline(always)]
pub(crate) fn values<T: Element, const V: usize>(words: [u32; 4], signs: u32) -> [f32; V] {
    const { assert!(V == 1 || V * T::BYTES == VECTOR, "a vector has 16 bytes") };
    let mut values = [0.0; V];
    let mut i = 0;
    while i < V {
        let word = words[i * T::BYTES / 4] ^ signs;
        let bits = match T::BYTES {
            2 if i % 2 == 1 => word >> 16,
            2 => word & 0xffff,
            _ => word,
        };
        values[i] = T::from_bits(bits).to_f32();
        i += 1;
    }
    values
}

/// The bits of an element, 0 where there is none.
///
/// # Safety
/// If `inside`, it is readable, and no thread writes it meanwhile.
#[inline(always)]
pub(crate) unsafe fn element<T: Element>(from: u64, inside: bool) -> u32 {
    // SAFETY: the caller's.
    unsafe {
        if T::BYTES == 2 {
            global::ld_global_u16_if(from as *const u16, inside) as u32
        } else {
            global::ld_global_u32_if(from as *const u32, inside)
        }
    }
}

/// The value of an element whose sign changes as those of a word's elements do.
#[inline(always)]
pub(crate) fn value<T: Element>(bits: u32, signs: u32) -> f32 {
    T::from_bits((bits ^ signs) & if T::BYTES == 2 { 0xffff } else { u32::MAX }).to_f32()
}
