//! Accumulators as left operands of 8-bit floats.

use crate::arch::cvt;
use crate::arch::mma::E4M3x2;
use crate::layout::{FragmentLayout, Registers};
use crate::tile::fragment::held::{Held, Packed};
use crate::tile::fragment::{Fragment, Operand};
use crate::tile::mma::accumulates::Accumulates;

/// Which of 16 registers of an accumulator each word of the operand is made of: of 16 columns two of the first 8 and two of the last, in the upper row, then in the lower.
const WORDS: [[usize; 4]; 4] = [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]];

/// Where column `col` of a fragment lies among the columns of its [operand of bytes](Fragment::e4m3_operand): where a right operand must have the line that
/// this column is multiplied by.
#[inline(always)]
pub const fn byte_column(col: u32) -> u32 {
    let (sixteen, within) = (col & !15, col & 15);
    sixteen + within % 8 / 2 * 4 + within / 8 * 2 + within % 2
}

impl<const M: usize, const N: usize, L: Accumulates<M, N>> Fragment<f32, M, N, L> {
    /// An accumulator of `wgmma` as a left operand of e4m3, each element rounded to nearest even and saturated, in pairs: `PAIRS` is N / 2.
    ///
    /// Nothing moves between threads, which hold four neighbouring bytes of such an operand and twice two columns of an accumulator (PTX ISA, "Register
    /// Fragments for wgmma"): column c of the accumulator is column [`byte_column`]`(c)` of the operand. A product is the same if the lines of
    /// the right operand lie so too.
    #[inline(always)]
    pub fn e4m3_operand<const PAIRS: usize>(self) -> Operand<E4M3x2, M, PAIRS, L>
    where
        L: FragmentLayout<M, PAIRS>,
    {
        const {
            assert!(
                N.is_multiple_of(16) && PAIRS * 2 == N,
                "pairs of columns, of which a thread holds two of 16"
            );
            assert!(<L as Accumulates<M, N>>::ASYNCHRONOUS, "an accumulator of wgmma");
        }
        let mut packed = Packed::<<L as FragmentLayout<M, PAIRS>>::Regs<[u32; 4]>>::none();
        let mut i = 0;
        while i < <L as FragmentLayout<M, PAIRS>>::Regs::<u16>::LEN / 8 {
            let word = |w: usize| cvt::e4m3x4(WORDS[w].map(|of| self.regs.get(16 * i + of)));
            packed.0.set(i, [word(0), word(1), word(2), word(3)]);
            i += 1;
        }
        Operand::new(packed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::FullRow;

    /// The registers that `e4m3_operand` takes for a pair hold the columns that it says.
    fn agrees<
        const M: usize,
        const N: usize,
        const PAIRS: usize,
        L: FragmentLayout<M, N> + FragmentLayout<M, PAIRS>,
    >() {
        for thread in 0..<L as FragmentLayout<M, N>>::THREADS {
            for i in 0..<L as FragmentLayout<M, PAIRS>>::Regs::<u16>::LEN {
                let (row, pair) = <L as FragmentLayout<M, PAIRS>>::coord(thread, i);
                for e in 0..2 {
                    let from = i / 8 * 16 + WORDS[i % 8 / 2][i % 2 * 2 + e];
                    let (from_row, col) = <L as FragmentLayout<M, N>>::coord(thread, from);
                    assert_eq!((from_row, byte_column(col)), (row, 2 * pair + e as u32));
                }
            }
        }
    }

    #[test]
    fn operands_of_bytes_have_the_columns_that_they_say() {
        agrees::<64, 16, 8, FullRow<1>>();
        agrees::<128, 224, 112, FullRow<2>>();
        agrees::<256, 64, 32, FullRow<2>>();
    }

    #[test]
    fn byte_columns_are_a_permutation_of_sixteen() {
        let mut seen = [false; 16];
        (32..48).for_each(|col| seen[byte_column(col) as usize - 32] = true);
        assert_eq!(seen, [true; 16]);
    }
}
