//! The gemm of threads: outer products of f32 by ordinary instructions.

use crate::arch::math::fma;
use crate::arch::shared;
use crate::arch::special::thread_x;
use crate::layout::threads::{Each, SharedOut};
use crate::layout::{FragmentLayout, Linear, Major, Registers, Sum, Threads};
use crate::tile::mma::accumulates::Accumulates;
use crate::tile::mma::gemm::Gemm;

/// `RUN` neighbours in shared memory from `at` on, by one access.
///
/// # Safety
/// They are initialised and nobody writes them meanwhile; `at` is a multiple of their size together.
#[inline(always)]
unsafe fn load<const RUN: usize>(at: u32) -> [f32; 4] {
    const { assert!(RUN == 1 || RUN == 2 || RUN == 4, "one access moves 1, 2 or 4 neighbours") };
    // SAFETY: the caller's.
    unsafe {
        match RUN {
            4 => shared::load_f32x4(at),
            2 => {
                let [x, y] = shared::load_f32x2(at);
                [x, y, 0.0, 0.0]
            }
            _ => [shared::load_f32(at), 0.0, 0.0, 0.0],
        }
    }
}

impl<const M: usize, const N: usize, const TY: usize, const TX: usize, const RUN: usize> Accumulates<M, N>
    for Threads<TY, TX, RUN>
where
    Each: SharedOut<M, TY> + SharedOut<N, TX>,
{
    const ASYNCHRONOUS: bool = false;
    #[inline(always)]
    unsafe fn settle<S: Sum>(_regs: &mut Self::Regs<S>) {}
    #[inline(always)]
    unsafe fn touch<S: Sum>(_regs: &mut Self::Regs<S>) {}
}

/// Along K a thread reads `RUN` of A at a time, and for each of them its columns of B, `RUN` at a time. Threads of a row read
/// the same of A, so that shared memory gives it once; what neighbours read of B are neighbours: nothing conflicts.
#[diagnostic::do_not_recommend]
impl<const M: usize, const N: usize, const K: usize, const TY: usize, const TX: usize, const RUN: usize>
    Gemm<f32, M, N, K> for Threads<TY, TX, RUN>
where
    Each: SharedOut<M, TY> + SharedOut<N, TX>,
{
    type A = Linear;
    type B = Linear;
    type D = Self;

    #[inline(always)]
    unsafe fn issue<OA: Major, OB: Major>(
        a: u32,
        b: u32,
        _add: bool,
        d: &mut <Self as FragmentLayout<M, N>>::Regs<f32>,
    ) {
        const {
            assert!(
                OA::ROW_MAJOR && OB::ROW_MAJOR,
                "products by threads take A and B row-major: neighbours of A lie along K, those of B along N"
            );
            assert!(K.is_multiple_of(RUN), "the depth is whole runs");
        }
        let (y, x) = Self::place(thread_x());
        let (a, b) = (a + y * (K * 4) as u32, b + Self::column(x, 0) * 4);
        let mut k = 0;
        while k < K {
            let mut left = <<Each as SharedOut<M, TY>>::Of<[f32; 4]>>::splat([0.0; 4]);
            let mut r = 0;
            while r < M / TY {
                // SAFETY: the tile is full, and lines of whole runs are aligned.
                left.set(r, unsafe { load::<RUN>(a + ((r * TY * K + k) * 4) as u32) });
                r += 1;
            }
            let mut along = 0;
            while along < RUN {
                let mut right = <<Each as SharedOut<N, TX>>::Of<f32>>::splat(0.0);
                let mut c = 0;
                while c < N / TX {
                    // SAFETY: as above.
                    let run = unsafe { load::<RUN>(b + (((k + along) * N + c * TX) * 4) as u32) };
                    let mut e = 0;
                    while e < RUN {
                        right.set(c + e, run[e]);
                        e += 1;
                    }
                    c += RUN;
                }
                let mut r = 0;
                while r < M / TY {
                    let mut c = 0;
                    while c < N / TX {
                        let at = r * (N / TX) + c;
                        d.set(at, fma(left.get(r)[along], right.get(c), d.get(at)));
                        c += 1;
                    }
                    r += 1;
                }
                along += 1;
            }
            k += RUN;
        }
    }
}
