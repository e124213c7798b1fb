//! The gemms of threads: products of f32 by ordinary instructions.

use core::marker::PhantomData;

use crate::arch::math::fma;
use crate::arch::shared;
use crate::arch::special::thread_x;
use crate::layout::threads::{Each, SharedOut};
use crate::layout::{FragmentLayout, Linear, Major, Registers, SharedLayout, Sum, Threads};
use crate::tile::mma::accumulates::Accumulates;
use crate::tile::mma::gemm::{Gemm, OperandLayout};

/// Neighbours along K that one access moves.
const DEPTH: usize = 4;
/// Bytes of an element.
const WIDTH: usize = size_of::<f32>();

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

/// An operand tile of f32 in shared memory, of `extent` along M or N, of which a thread reads every `apart`-th from `first` on.
struct Side<L> {
    address: u32,
    /// Lines of the tile, and bytes of each.
    lines: u32,
    line: u32,
    first: u32,
    apart: u32,
    layout: PhantomData<L>,
}

impl<L: SharedLayout> Side<L> {
    #[inline(always)]
    fn new(address: u32, k_major: bool, (extent, depth): (usize, usize), first: u32, apart: usize) -> Self {
        let (lines, along) = if k_major { (extent, depth) } else { (depth, extent) };
        let (lines, line) = (lines as u32, (along * WIDTH) as u32);
        Side { address, lines, line, first, apart: apart as u32, layout: PhantomData }
    }

    /// `DEPTH` neighbours along K from `k` on of its `i`-th, where those are neighbours.
    ///
    /// # Safety
    /// The tile is full.
    #[inline(always)]
    unsafe fn deep(&self, i: usize, k: usize) -> [f32; 4] {
        let (down, along) = (i as u32 * self.apart, (k * WIDTH) as u32);
        let at = if self.apart.is_multiple_of(8) {
            // What depends on the thread is the same for all of its lines.
            let first = self.address + L::offset(self.lines, self.line, self.first, 0);
            L::moved(self.lines, self.line, first, down, along)
        } else {
            self.address + L::offset(self.lines, self.line, self.first + down, along)
        };
        // SAFETY: the caller's; pieces of 16 bytes are aligned in every layout.
        unsafe { shared::load_f32x4(at) }
    }

    /// Its `i`-th at depth `k`, where neighbours are along M or N.
    ///
    /// # Safety
    /// The tile is full.
    #[inline(always)]
    unsafe fn across(&self, i: usize, k: usize) -> f32 {
        let byte = (self.first + i as u32 * self.apart) * WIDTH as u32;
        // SAFETY: the caller's.
        unsafe { shared::load_f32(self.address + L::offset(self.lines, self.line, k as u32, byte)) }
    }
}

/// A is read four along K at a time where those are neighbours, and for each of them a thread's columns of B, `RUN` at a time. Threads of a row read
/// the same of A, so that shared memory gives it once; what neighbours read of B are neighbours, and A is swizzled: nothing conflicts.
#[diagnostic::do_not_recommend]
impl<const M: usize, const N: usize, const K: usize, const TY: usize, const TX: usize, const RUN: usize>
    Gemm<f32, M, N, K> for Threads<TY, TX, RUN>
where
    f32: OperandLayout<K>,
    Each: SharedOut<M, TY> + SharedOut<N, TX>,
{
    type A = <f32 as OperandLayout<K>>::Layout;
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
                OB::ROW_MAJOR,
                "products by `Threads` take B row-major, those by `KMajor<Threads<TY, TX>>` column-major"
            )
        };
        let (y, x) = Self::place(thread_x());
        let a = Side::<Self::A>::new(a, OA::ROW_MAJOR, (M, K), y, TY);
        let b = b + Self::column(x, 0) * WIDTH as u32;
        let mut k = 0;
        while k < K {
            let mut left = <<Each as SharedOut<M, TY>>::Of<[f32; 4]>>::splat([0.0; 4]);
            let mut r = 0;
            while OA::ROW_MAJOR && r < M / TY {
                // SAFETY: the caller's, here and below.
                left.set(r, unsafe { a.deep(r, k) });
                r += 1;
            }
            let mut along = 0;
            while along < DEPTH {
                let mut right = <<Each as SharedOut<N, TX>>::Of<f32>>::splat(0.0);
                let mut c = 0;
                while c < N / TX {
                    // SAFETY: the caller's; lines of whole runs are aligned.
                    let run = unsafe { load::<RUN>(b + (((k + along) * N + c * TX) * WIDTH) as u32) };
                    let mut e = 0;
                    while e < RUN {
                        right.set(c + e, run[e]);
                        e += 1;
                    }
                    c += RUN;
                }
                let mut r = 0;
                while r < M / TY {
                    let of_a =
                        if OA::ROW_MAJOR { left.get(r)[along] } else { unsafe { a.across(r, k + along) } };
                    let mut c = 0;
                    while c < N / TX {
                        let at = r * (N / TX) + c;
                        d.set(at, fma(of_a, right.get(c), d.get(at)));
                        c += 1;
                    }
                    r += 1;
                }
                along += 1;
            }
            k += DEPTH;
        }
    }
}

/// Policy of f32 whose operands are both contiguous along K, A row-major and B column-major, exactly: `P` is [`Threads`] of runs of one column.
///
/// Four neighbours along K come by one access, and neighbouring threads read neighbouring lines, which the swizzle spreads over the banks.
#[derive(Clone, Copy, Debug, Default)]
pub struct KMajor<P>(PhantomData<P>);

#[diagnostic::do_not_recommend]
impl<const M: usize, const N: usize, const K: usize, const TY: usize, const TX: usize> Gemm<f32, M, N, K>
    for KMajor<Threads<TY, TX>>
where
    f32: OperandLayout<K>,
    Each: SharedOut<M, TY> + SharedOut<N, TX>,
{
    type A = <f32 as OperandLayout<K>>::Layout;
    type B = <f32 as OperandLayout<K>>::Layout;
    type D = Threads<TY, TX>;

    #[inline(always)]
    unsafe fn issue<OA: Major, OB: Major>(
        a: u32,
        b: u32,
        _add: bool,
        d: &mut <Self::D as FragmentLayout<M, N>>::Regs<f32>,
    ) {
        const {
            assert!(
                OA::ROW_MAJOR && !OB::ROW_MAJOR,
                "products by `KMajor` take operands that are contiguous along K: A row-major, B column-major"
            )
        };
        let (y, x) = Threads::<TY, TX>::place(thread_x());
        let a = Side::<Self::A>::new(a, true, (M, K), y, TY);
        let b = Side::<Self::B>::new(b, true, (N, K), x, TX);
        let mut k = 0;
        while k < K {
            let mut left = <<Each as SharedOut<M, TY>>::Of<[f32; 4]>>::splat([0.0; 4]);
            let mut r = 0;
            while r < M / TY {
                // SAFETY: the caller's, here and below.
                left.set(r, unsafe { a.deep(r, k) });
                r += 1;
            }
            let mut c = 0;
            while c < N / TX {
                let right = unsafe { b.deep(c, k) };
                let mut along = 0;
                while along < DEPTH {
                    let mut r = 0;
                    while r < M / TY {
                        let at = r * (N / TX) + c;
                        d.set(at, fma(left.get(r)[along], right[along], d.get(at)));
                        r += 1;
                    }
                    along += 1;
                }
                c += 1;
            }
            k += DEPTH;
        }
    }
}
