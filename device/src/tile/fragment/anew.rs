//! Elements from which things are computed once more.

use crate::arch::special::same_number;
use crate::layout::{Element, FragmentLayout, Registers};
use crate::tile::fragment::Fragment;
use crate::tile::fragment::cols::Cols;

/// The same registers, of which the compiler does not know that they are.
#[inline(always)]
fn anew<T: Element, R: Registers<T>>(mut regs: R) -> R {
    const { assert!((R::LEN * T::BYTES).is_multiple_of(4), "a thread holds whole words") };
    let words = (&raw mut regs).cast::<u32>();
    let mut i = 0;
    while i < R::LEN * T::BYTES / 4 {
        // SAFETY: the word is among the registers, which are elements one after the other: plain bits.
        unsafe {
            let word = words.add(i);
            word.write_unaligned(same_number(word.read_unaligned()));
        }
        i += 1;
    }
    regs
}

impl<T: Element, const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<T, M, N, L> {
    /// The same fragment, of which the compiler does not know that it is: what is computed from it is computed anew.
    ///
    /// For 16-bit elements that are converted again after a reduction, and not held converted in twice as many registers meanwhile. No
    /// instruction.
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
