//! Fragments whose rows and columns change places in registers.

use crate::arch::special::thread_x;
use crate::arch::warp::movmatrix_trans;
use crate::layout::element::pack;
use crate::layout::registers::{ColumnBlocks, ColumnsOf};
use crate::layout::{Element, FragmentLayout, Registers, Warpgroups, Warps};
use crate::tile::fragment::Fragment;

/// A layout in which warp w holds rows 16 w to 16 w + 15 whole, as `mma.sync` and `wgmma` leave them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not give each warp 16 whole rows of a fragment of {M} x {N}",
    note = "`FullRow<1>` of 64 rows, `FullRow<2>` of 128, `warp::FullRow<4>` of 64, `warp::FullRow<8>` of 128"
)]
pub trait RowsOfWarps<const M: usize, const N: usize>: FragmentLayout<M, N> {
    /// The layout in which warp w holds columns 16 w to 16 w + 15 whole.
    type Transposed: FragmentLayout<N, M>;
}

macro_rules! rows_of_warps {
    ($($layout:ty, $m:literal, $warps:literal;)*) => { $(
        impl<const N: usize> RowsOfWarps<$m, N> for $layout
        where
            $layout: FragmentLayout<$m, N>,
            Warps<1, $warps>: FragmentLayout<N, $m>,
            ColumnsOf: ColumnBlocks<$m, $warps>,
        {
            type Transposed = Warps<1, $warps>;
        }
    )* };
}
rows_of_warps! {
    Warpgroups<1, 1>, 64, 4;
    Warpgroups<2, 1>, 128, 8;
    Warps<4, 1>, 64, 4;
    Warps<8, 1>, 128, 8;
}

impl<T: Element, const M: usize, const N: usize, L: RowsOfWarps<M, N>> Fragment<T, M, N, L> {
    /// The transposed fragment, of 16-bit elements: each warp turns its own 8 x 8 matrices, and no memory is used.
    #[inline(always)]
    pub fn transposed(self) -> Fragment<T, N, M, L::Transposed> {
        const {
            assert!(T::BYTES == 2, "matrices of 16-bit elements are turned");
            assert!(L::Regs::<u32>::LEN * 2 == N, "a warp holds 16 rows");
        };
        let mut out = Fragment::<T, N, M, L::Transposed>::splat(T::ZERO);
        if thread_x() >= L::THREADS {
            return out;
        }
        // Matrix (i, j) of the warp's 2 x N / 8 is the registers 4 j + 2 i and the next; that of the result likewise, in blocks of 16 rows.
        let mut matrix = 0;
        while matrix < N / 4 {
            let (i, j) = (matrix % 2, matrix / 2);
            let from = 4 * j + 2 * i;
            // SAFETY: all lanes of the warps that hold the fragment execute it.
            let turned = unsafe { movmatrix_trans(pack([self.regs.get(from), self.regs.get(from + 1)])) };
            let to = j / 2 * 8 + 4 * i + j % 2 * 2;
            out.regs.set(to, T::from_bits(turned & 0xffff));
            out.regs.set(to + 1, T::from_bits(turned >> 16));
            matrix += 1;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where `transposed` puts the elements of a layout is where the other layout has them.
    fn turns<const M: usize, const N: usize, L: RowsOfWarps<M, N>>() {
        for thread in 0..L::THREADS {
            for register in 0..N / 2 {
                let (row, col) = L::coord(thread, register);
                // Within a matrix, lane 4 r + c / 2 holds (r, c).
                let (matrix, lane, warp) = (register / 2, thread % 32, thread / 32);
                let (i, j) = (matrix % 2, matrix / 2);
                let (r, c) = (lane / 4, lane % 4 * 2 + register as u32 % 2);
                let to = j / 2 * 8 + 4 * i + j % 2 * 2 + r as usize % 2;
                let other = warp * 32 + c * 4 + r / 2;
                assert_eq!(L::Transposed::coord(other, to), (col, row));
            }
        }
    }

    #[test]
    fn every_element_changes_places() {
        turns::<64, 64, Warpgroups<1, 1>>();
        turns::<128, 64, Warpgroups<2, 1>>();
        turns::<64, 32, Warps<4, 1>>();
        turns::<128, 16, Warps<8, 1>>();
    }
}
