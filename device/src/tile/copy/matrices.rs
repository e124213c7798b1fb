//! Transposed tiles of shared memory to fragments, in whole matrices.

use crate::arch::special::thread_x;
use crate::arch::{ldmatrix, sync};
use crate::layout::{Element, Registers, SharedLayout};
use crate::tile::cta::barriers::WARPGROUP;
use crate::tile::cta::collective::expect_computing;
use crate::tile::fragment::Fragment;
use crate::tile::fragment::transposed::RowsOfWarps;
use crate::tile::memory::shared::{Shared, Transposed};

impl<T: Element, const M: usize, const N: usize, L: RowsOfWarps<M, N>> Fragment<T, M, N, L> {
    /// The transpose of a tile of 16-bit elements, as `Fragment::load(x_s.at(s).t())` would give it, by `ldmatrix.trans`: four 8 x 8
    /// matrices an instruction.
    #[inline(always)]
    pub fn load_transposed<S: SharedLayout>(from: Transposed<'_, Shared<T, N, M, S>>) -> Self {
        const {
            assert!(T::BYTES == 2, "matrices of 16-bit elements are turned");
            assert!(N.is_multiple_of(16), "matrices are loaded four at a time");
        };
        expect_computing(L::THREADS);
        let mut out = Self::splat(T::ZERO);
        let thread = thread_x();
        if thread >= L::THREADS {
            return out;
        }
        let (lane, warp) = (thread % 32, thread / 32);
        // Matrices 0 and 1 lie side by side along M, 2 and 3 behind them along N.
        let (line, byte) = (lane / 16 * 8 + lane % 8, (warp * 16 + lane / 8 % 2 * 8) * 2);
        let (lines, length) = (N as u32, (M * 2) as u32);
        let first = from.0.address() + S::offset(lines, length, line, byte);
        let mut step = 0;
        while step < N / 16 {
            let at = S::moved(lines, length, first, step as u32 * 16, 0);
            // SAFETY: a `Src` is a full tile, in which the lines of the matrices lie; all lanes execute it.
            let words = unsafe { ldmatrix::x4_trans(at) };
            let mut word = 0;
            while word < 4 {
                out.regs.set(step * 8 + word * 2, T::from_bits(words[word] & 0xffff));
                out.regs.set(step * 8 + word * 2 + 1, T::from_bits(words[word] >> 16));
                word += 1;
            }
            step += 1;
        }
        // One thread says for its warpgroup that a stage has been read: the others must have.
        let unit = thread / 128;
        // SAFETY: the warps that hold the fragment execute it converged, up to four to a barrier.
        unsafe { sync::bar_sync(WARPGROUP.of(unit), (L::THREADS - unit * 128).min(128)) };
        out
    }
}
