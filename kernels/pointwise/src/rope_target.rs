//! Where rotated heads go: tensors, or rows of a cache, there as codes of 8 bits too.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::kernel::Arch;
use tilewright_device::tile::{Element, Overlaps, division::Division};

use crate::number::Number;
use crate::pieces::{Strided, store_bits, wide};

/// The pieces of a thread: of neighbouring heads of q or of k.
#[derive(Clone, Copy)]
pub(crate) struct Pieces {
    /// The address of the first head's first column.
    first: u64,
    /// Bytes from a head to the next, and from a column.
    steps: [u64; 2],
}

impl Pieces {
    /// From `head` on, of a token.
    #[inline(always)]
    pub(crate) fn of<T: Element>(tensor: Strided<4>, at: [u32; 3]) -> Self {
        Self::of_bytes(tensor, at, T::BYTES as u32)
    }
    /// The same of elements of so many bytes.
    #[inline(always)]
    pub(crate) fn of_bytes(tensor: Strided<4>, [batch, place, head]: [u32; 3], bytes: u32) -> Self {
        let [.., by_head, by_col] = tensor.strides;
        let first = tensor.address_of([batch, place, head, 0], bytes);
        Pieces { first, steps: [by_head * bytes as u64, by_col * bytes as u64] }
    }
    /// The address of the `i`-th head's column.
    #[inline(always)]
    pub(crate) fn at(&self, i: usize, col: u32) -> u64 {
        self.first.wrapping_add(i as u64 * self.steps[0]).wrapping_add(col as u64 * self.steps[1])
    }
}

/// Where an appended token's keys and values go: caches \[pages, rows of a page, heads, columns\] and for each token its row among those of all pages.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RopeCaches {
    /// Of keys.
    pub keys: Strided<4>,
    /// Of values.
    pub values: Strided<4>,
    /// Rows, \[batch, sequence\] of i32.
    pub slots: Strided<2>,
    /// By the rows of a page.
    pub by_page: Division,
    /// Rows of all pages.
    pub rows: u32,
    /// What the caches hold: 0 for elements as they are appended, 1 for e4m3, 2 for int8.
    pub codes: u32,
    /// Addresses of the scales of codes of keys and of values, f32; 0 where they are 1.
    pub scales: [u64; 2],
    /// Bytes from a head's scale to the next one's.
    pub steps: [u32; 2],
}

/// Where pieces go, and as what.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) pieces: Pieces,
    /// False where they go nowhere.
    pub(crate) somewhere: bool,
    /// As [`RopeCaches::codes`] has it.
    pub(crate) codes: u32,
    /// The address of the first head's scale; 0 for none.
    pub(crate) scale: u64,
    /// Bytes from a head's scale to the next one's.
    pub(crate) step: u32,
}

impl Target {
    /// Elements as they are.
    #[inline(always)]
    pub(crate) fn plain(pieces: Pieces, somewhere: bool) -> Self {
        Target { pieces, somewhere, codes: 0, scale: 0, step: 0 }
    }

    /// Stores a piece of the `i`-th head as codes, if it is `inside`.
    ///
    /// # Safety
    /// If so, the elements are writable, and no other thread uses them; the head has a scale, if there are some.
    #[inline(always)]
    pub(crate) unsafe fn store_codes<P: Overlaps, T: Element, const V: usize>(
        &self,
        i: usize,
        col: u32,
        piece: [u32; 4],
        inside: bool,
    ) {
        let mut inverse = 1.0;
        if self.scale != 0 && inside {
            let scale = self.scale + i as u64 * self.step as u64;
            // SAFETY: the caller's.
            inverse = 1.0 / f32::from_bits(unsafe { global::ld_global_u32(scale as *const u32) });
        }
        let (values, hopper) = (wide::<T, V>(piece), matches!(P::ARCH, Arch::Sm90a));
        let (mut words, mut e) = ([0; 4], 0);
        while e < V {
            let x = values[e] * inverse;
            let bits =
                if self.codes == 1 { Number::E4m3.bits_of(x, hopper) } else { Number::I8.bits_of(x, hopper) };
            words[e / 4] |= (bits & 0xff) << (e % 4 * 8);
            e += 1;
        }
        // SAFETY: the caller's.
        unsafe { store_bits::<V>(self.pieces.at(i, col), words, inside) }
    }
}

impl PassedAsIs for RopeCaches {}
