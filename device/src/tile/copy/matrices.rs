//! Between fragments and shared memory in matrices of 8 x 8 (PTX ISA, "ldmatrix", "stmatrix").

use crate::arch::special::{thread_x, thread_x_volatile};
use crate::arch::{ldmatrix, stmatrix, sync};
use crate::kernel::Arch;
use crate::layout::element::{pack, unpack};
use crate::layout::{Element, FragmentLayout, Registers, SharedLayout};
use crate::tile::cta::barriers::WARPGROUP;
use crate::tile::cta::collective::{Collective, expect_computing};
use crate::tile::fragment::Fragment;
use crate::tile::memory::copy_to::copy;
use crate::tile::memory::scratch::Scratch;
use crate::tile::memory::shared::{Shared, Transposed};

/// Whether a layout's registers are matrices, eight of them 16 x 16 elements of a warp.
const fn in_matrices<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>() -> bool {
    T::BYTES == 2
        && L::RUN == 2
        && L::ROW_LANES == 4
        && <L::Regs<u32> as Registers<u32>>::LEN.is_multiple_of(8)
        && N.is_multiple_of(16)
}

impl<T: Element, const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<T, M, N, L> {
    /// As [`load`](Self::load) of a transposed tile of 16-bit elements, where the fragment lies as an accumulator of a gemm: a warp reads
    /// 16 x 16 elements by one instruction, and none of them alone.
    #[inline(always)]
    pub fn load_matrices<S: SharedLayout>(from: Transposed<'_, Shared<T, N, M, S>>) -> Self {
        const {
            assert!(
                in_matrices::<T, L, M, N>(),
                "a warp holds matrices where a fragment of 16-bit elements is an accumulator of a policy of warps or warpgroups"
            );
        }
        expect_computing(L::THREADS);
        let mut out = Self::splat(T::ZERO);
        if thread_x() >= L::THREADS {
            return out;
        }
        let thread = thread_x_volatile();
        let (lane, first) = (thread % 32, thread - thread % 32);
        // Lane l gives line l % 8 of matrix l / 8: those of rows 0 and 8, then the same 8 columns on.
        let (down, along) = (lane / 8 % 2 * 8, lane % 8 + lane / 16 * 8);
        let mut i = 0;
        while i < L::Regs::<u32>::LEN {
            let (row, col) = L::coord(first, i);
            let at = S::offset(N as u32, (M * T::BYTES) as u32, col + along, (row + down) * T::BYTES as u32);
            // SAFETY: a line of 16 bytes of a full tile; all lanes of the warps that hold the fragment execute it.
            let words = unsafe { ldmatrix::x4_trans(from.0.address + at) };
            let mut w = 0;
            while w < 4 {
                let [low, high] = unpack::<T>(words[w]);
                out.regs.set(i + 2 * w, low);
                out.regs.set(i + 2 * w + 1, high);
                w += 1;
            }
            i += 8;
        }
        // One thread says for its warpgroup that a stage has been read: the others must have.
        let unit = thread / 128;
        // SAFETY: the warps that hold the fragment execute it converged, up to four to a barrier.
        unsafe { sync::bar_sync(WARPGROUP.of(unit), (L::THREADS - unit * 128).min(128)) };
        out
    }

    /// As [`copy`] to the tile, where the fragment lies as an accumulator of a gemm: on Hopper a warp writes 16 x 16 elements by one instruction.
    #[inline(always)]
    pub fn copy_matrices<P: Collective, S: SharedLayout>(self, to: &mut Scratch<P, Shared<T, M, N, S>>) {
        const {
            assert!(L::THREADS <= P::CONSUMERS, "the fragment lies over more threads than the schedule has");
            assert!(
                in_matrices::<T, L, M, N>(),
                "a warp holds matrices where a fragment of 16-bit elements is an accumulator of a policy of warps or warpgroups"
            );
        }
        if !matches!(P::ARCH, Arch::Sm90a) {
            return copy(self, to);
        }
        let base = to.address();
        to.replace(
            #[inline(always)]
            || {
                // SAFETY: nobody reads the tile meanwhile.
                unsafe { store_matrices::<T, S, L, M, N>(&self, base) }
            },
        );
    }
}

/// Stores a fragment that lies as an accumulator, a warp's 16 x 16 elements by one instruction.
///
/// # Safety
/// `base` is a tile of type `Shared<T, M, N, S>` that nobody reads; all threads that hold the fragment execute it, on Hopper.
#[inline(always)]
pub(in crate::tile) unsafe fn store_matrices<
    T: Element,
    S: SharedLayout,
    L: FragmentLayout<M, N>,
    const M: usize,
    const N: usize,
>(
    of: &Fragment<T, M, N, L>,
    base: u32,
) {
    const {
        assert!(
            in_matrices::<T, L, M, N>(),
            "a warp holds matrices where a fragment of 16-bit elements is an accumulator of a policy of warps or warpgroups"
        );
    }
    let thread = thread_x_volatile();
    if thread >= L::THREADS {
        return;
    }
    let (lane, first) = (thread % 32, thread - thread % 32);
    // Lane l gives line l % 8 of matrix l / 8: rows 0 and 8, then the same 8 columns on.
    let (down, along) = (lane % 8 + lane / 8 % 2 * 8, lane / 16 * 8);
    let mut i = 0;
    while i < L::Regs::<u32>::LEN {
        let (row, col) = L::coord(first, i);
        let byte = (col + along) * T::BYTES as u32;
        let at = S::offset(M as u32, (N * T::BYTES) as u32, row + down, byte);
        let word = |w: usize| pack([of.regs.get(i + 2 * w), of.regs.get(i + 2 * w + 1)]);
        // SAFETY: a line of 16 bytes of the tile, which nobody reads meanwhile and no other matrix has; all lanes of the warps that
        // hold the fragment execute it.
        unsafe { stmatrix::x4(base + at, [word(0), word(1), word(2), word(3)]) };
        i += 8;
    }
}
