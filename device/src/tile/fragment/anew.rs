//! Elements from which things are computed once more.

use crate::arch::special::{dynamic_shared_bytes, same_number};
use crate::layout::{Element, FragmentLayout, Registers, SharedLayout};
use crate::tile::fragment::Fragment;
use crate::tile::fragment::cols::Cols;
use crate::tile::memory::shared::{Shared, Src};

/// Elements of a thread that registers do not hold converted.
const MANY: usize = 32;

/// The same registers, of which the compiler does not know that they are.
#[inline(always)]
fn anew<T: Element, R: Registers<T>>(mut regs: R) -> R {
    const { assert!((R::LEN * T::BYTES).is_multiple_of(4), "a thread holds whole words") };
    let words = (&raw mut regs).cast::<u32>();
    // No launch has so much shared memory, which ptxas does not know: it too would hold converted what it takes for the same.
    let zero = if const { R::LEN > MANY } { 0u32.wrapping_sub(dynamic_shared_bytes() >> 31) } else { 0 };
    let mut i = 0;
    while i < R::LEN * T::BYTES / 4 {
        // SAFETY: the word is among the registers, which are elements one after the other: plain bits.
        unsafe {
            let word = words.add(i);
            word.write_unaligned(same_number(word.read_unaligned()) ^ zero);
        }
        i += 1;
    }
    regs
}

impl<T: Element, const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<T, M, N, L> {
    /// The same fragment, of which the compiler does not know that it is: what is computed from it is computed anew.
    ///
    /// For 16-bit elements that are converted again after a reduction, and not held converted in twice as many registers meanwhile. No
    /// instruction, or of more than 32 elements one for each two.
    #[inline(always)]
    pub fn anew(self) -> Self {
        Fragment { regs: anew(self.regs) }
    }
}

impl<T: Element, const M: usize, const N: usize, L: FragmentLayout<M, N>> Cols<T, M, N, L> {
    /// The same values, of which the compiler does not know that they are: as [`Fragment::anew`], for what is converted for each tile.
    #[inline(always)]
    pub fn anew(self) -> Self {
        Cols { regs: anew(self.regs) }
    }
}

impl<T: Element, L: SharedLayout, const R: usize, const C: usize> Src<'_, Shared<T, R, C, L>> {
    /// The same tile, of which the compiler does not know that it is: addresses of its elements are computed anew, and held in no register
    /// over a loop in which the tile stays where it is.
    #[inline(always)]
    pub fn anew(self) -> Self {
        // SAFETY: the same address, for as long.
        unsafe { Src::from_address(same_number(self.address())) }
    }
}
