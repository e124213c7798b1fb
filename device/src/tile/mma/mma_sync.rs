//! The gemm of warps: `ldmatrix` and `mma.sync` (PTX ISA, "Matrix Fragments for mma.m16n8k16").

use crate::arch::ldmatrix;
use crate::arch::mma::Mma;
use crate::arch::special::thread_x;
use crate::layout::registers::{ColumnBlocks, ColumnsOf, RowBlocks, RowsOf};
use crate::layout::{FragmentLayout, Major, Registers, SharedLayout, Sum, Warps};
use crate::tile::fragment::held::Packed;
use crate::tile::mma::accumulates::Accumulates;
use crate::tile::mma::gemm::{Gemm, GemmRegisters, OperandLayout};

/// Elements of depth of one instruction.
const DEPTH: u32 = 16;

impl<const M: usize, const N: usize, const WM: usize, const WN: usize> Accumulates<M, N> for Warps<WM, WN>
where
    RowsOf<16>: RowBlocks<M, WM>,
    ColumnsOf: ColumnBlocks<N, WN>,
{
    const ASYNCHRONOUS: bool = false;
    #[inline(always)]
    unsafe fn settle<S: Sum>(_regs: &mut Self::Regs<S>) {}
    #[inline(always)]
    unsafe fn touch<S: Sum>(_regs: &mut Self::Regs<S>) {}
}

/// The part of an operand tile that one warp reads: `part` along M or N from `outer`, all of K.
pub(in crate::tile::mma) struct Operand<L> {
    address: u32,
    /// Its elements are contiguous along K.
    k_major: bool,
    lines: u32,
    line: u32,
    outer: u32,
    part: u32,
    layout: core::marker::PhantomData<L>,
}

impl<L: SharedLayout> Operand<L> {
    #[inline(always)]
    pub(in crate::tile::mma) fn new(
        address: u32,
        k_major: bool,
        (extent, depth): (u32, u32),
        (outer, part): (u32, u32),
    ) -> Self {
        let (lines, along) = if k_major { (extent, depth) } else { (depth, extent) };
        Operand { address, k_major, lines, line: along * 2, outer, part, layout: core::marker::PhantomData }
    }

    /// Four 8 x 8 matrices that cover 16 along M or N from `outer` and 16 along K from `k`. `by_k` says that the second
    /// matrix is the neighbour along K (operand B) and not along M or N (operand A).
    ///
    /// Where only 8 along M or N are left of the warp's part, they are loaded twice.
    ///
    /// # Safety
    /// The tile is full, and all lanes of the warp execute it.
    #[inline(always)]
    pub(in crate::tile::mma) unsafe fn load(&self, outer: u32, k: u32, by_k: bool) -> [u32; 4] {
        let at = self.line_of(thread_x() % 32, outer, k, by_k);
        // SAFETY: passed on; eight lanes give the eight lines of each matrix, 16 bytes each.
        unsafe { if self.k_major { ldmatrix::x4(at) } else { ldmatrix::x4_trans(at) } }
    }

    /// Four 8 x 8 matrices that cover 8 along M or N, all of the warp's part, and 32 along K from `k`, a multiple of 32:
    /// operand B of two instructions. K is contiguous.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    unsafe fn load_deep(&self, k: u32) -> [u32; 4] {
        // SAFETY: passed on.
        unsafe { ldmatrix::x4(self.deep_line_of(thread_x() % 32, k)) }
    }

    /// The address of the matrix line that this lane gives to [`load_deep`](Self::load_deep).
    #[inline(always)]
    fn deep_line_of(&self, lane: u32, k: u32) -> u32 {
        let first = self.address + L::offset(self.lines, self.line, self.outer + lane % 8, lane / 8 * 16);
        L::moved(self.lines, self.line, first, 0, k * 2)
    }

    /// The address of the matrix line that this lane gives to [`load`](Self::load).
    ///
    /// One address serves all steps along the tile's lines wherever those of the warp's part begin in a whole swizzle.
    #[inline(always)]
    fn line_of(&self, lane: u32, outer: u32, k: u32, by_k: bool) -> u32 {
        let (inner, second, third) = (lane % 8, lane / 8 % 2 * 8, lane / 16 * 8);
        let (along_k, along_outer) = if by_k { (second, third) } else { (third, second) };
        let whole = outer + 16 <= self.part;
        let at = |outer: u32, k: u32| {
            let (row, byte) = if self.k_major { (outer + inner, k * 2) } else { (k + inner, outer * 2) };
            self.address + L::offset(self.lines, self.line, row, byte)
        };
        if whole && (self.k_major || self.part.is_multiple_of(64)) {
            let first = at(self.outer + along_outer, along_k);
            let (down, along) = if self.k_major { (outer, k * 2) } else { (k, outer * 2) };
            L::moved(self.lines, self.line, first, down, along)
        } else {
            at(self.outer + outer + if whole { along_outer } else { 0 }, k + along_k)
        }
    }
}

/// Where this thread's warp begins in the accumulator.
#[inline(always)]
pub(in crate::tile::mma) fn warp_corner(height: u32, width: u32, across: u32) -> (u32, u32) {
    let warp = thread_x() / 32;
    (warp / across * height, warp % across * width)
}

/// `acc[8 j ..]` += a b for the eight-column halves of the 16 columns that `b` covers.
///
/// # Safety
/// All lanes of the warp execute it.
#[inline(always)]
unsafe fn multiply<T: Mma<S>, S: Sum, R: Registers<S>>(acc: &mut R, j: usize, a: [u32; 4], b: [u32; 4]) {
    let mut half = 0;
    while half < 2 && (2 * j + half) * 4 < R::LEN {
        let first = (2 * j + half) * 4;
        let mut d = [acc.get(first), acc.get(first + 1), acc.get(first + 2), acc.get(first + 3)];
        // SAFETY: passed on.
        unsafe { T::m16n8k16(&mut d, a, [b[2 * half], b[2 * half + 1]]) };
        let mut i = 0;
        while i < 4 {
            acc.set(first + i, d[i]);
            i += 1;
        }
        half += 1;
    }
}

/// A warp's sums of one block of rows.
type Block<S, const N: usize, const WN: usize> = <ColumnsOf as ColumnBlocks<N, WN>>::Of<S>;

// What is missing for a shape is said by `Gemm`, which knows the whole of it.
#[diagnostic::do_not_recommend]
impl<T, S, const M: usize, const N: usize, const K: usize, const WM: usize, const WN: usize>
    Gemm<T, M, N, K, S> for Warps<WM, WN>
where
    T: OperandLayout<K> + Mma<S>,
    S: Sum,
    RowsOf<16>: RowBlocks<M, WM>,
    ColumnsOf: ColumnBlocks<N, WN>,
{
    type A = T::Layout;
    type B = T::Layout;
    type D = Self;

    #[inline(always)]
    unsafe fn issue<OA: Major, OB: Major>(
        a: u32,
        b: u32,
        _add: bool,
        d: &mut <Self as FragmentLayout<M, N>>::Regs<S>,
    ) {
        let (row, col) = warp_corner((M / WM) as u32, (N / WN) as u32, WN as u32);
        let (height, depth) = ((M / WM) as u32, K as u32);
        let a = Operand::<T::Layout>::new(a, OA::ROW_MAJOR, (M as u32, depth), (row, height));
        let b = Operand::<T::Layout>::new(b, !OB::ROW_MAJOR, (N as u32, depth), (col, (N / WN) as u32));
        let mut k = 0;
        while k < K as u32 {
            let mut left = <<RowsOf<16> as RowBlocks<M, WM>>::Of<[u32; 4]>>::splat([0; 4]);
            let mut block = 0;
            while block < M / WM / 16 {
                // SAFETY: passed on; the matrices are inside the tile.
                left.set(block, unsafe { a.load(block as u32 * 16, k, false) });
                block += 1;
            }
            let mut j = 0;
            while j < (N / WN).div_ceil(16) {
                // SAFETY: passed on; the matrices are inside the tile.
                let right = unsafe { b.load(j as u32 * 16, k, true) };
                let mut block = 0;
                while block < M / WM / 16 {
                    // SAFETY: passed on.
                    unsafe {
                        multiply::<T, S, Block<S, N, WN>>(d.blocks.get_mut(block), j, left.get(block), right)
                    };
                    block += 1;
                }
                j += 1;
            }
            k += DEPTH;
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T, S, const M: usize, const N: usize, const K: usize, const WM: usize> GemmRegisters<T, M, N, K, S>
    for Warps<WM, 1>
where
    T: OperandLayout<K> + Mma<S>,
    S: Sum,
    RowsOf<16>: RowBlocks<M, WM>,
    ColumnsOf: ColumnBlocks<N, 1> + ColumnBlocks<K, 1>,
{
    type R = Self;

    #[inline(always)]
    unsafe fn issue_registers<OB: Major>(
        a: &Packed<<Self as FragmentLayout<M, K>>::Regs<[u32; 4]>>,
        b: u32,
        _add: bool,
        d: &mut <Self as FragmentLayout<M, N>>::Regs<S>,
    ) {
        let b = Operand::<T::Layout>::new(b, !OB::ROW_MAJOR, (N as u32, K as u32), (0, N as u32));
        let mut k = 0;
        while N == 8 && !OB::ROW_MAJOR && k + 2 * DEPTH <= K as u32 {
            // SAFETY: as in `issue`.
            let right = unsafe { b.load_deep(k) };
            let mut i = 0;
            while i < 2 * (M / WM / 16) {
                let (step, block) = (i / (M / WM / 16), i % (M / WM / 16));
                let a = a.0.get(block * (K / DEPTH as usize) + (k / DEPTH) as usize + step);
                let right = [right[2 * step], right[2 * step + 1], 0, 0];
                // SAFETY: passed on.
                unsafe { multiply::<T, S, Block<S, N, 1>>(d.blocks.get_mut(block), 0, a, right) };
                i += 1;
            }
            k += 2 * DEPTH;
        }
        while k < K as u32 {
            let mut j = 0;
            while j < N.div_ceil(16) {
                // SAFETY: as in `issue`.
                let right = unsafe { b.load(j as u32 * 16, k, true) };
                let mut block = 0;
                while block < M / WM / 16 {
                    let a = a.0.get(block * (K / DEPTH as usize) + (k / DEPTH) as usize);
                    // SAFETY: passed on.
                    unsafe { multiply::<T, S, Block<S, N, 1>>(d.blocks.get_mut(block), j, a, right) };
                    block += 1;
                }
                j += 1;
            }
            k += DEPTH;
        }
    }
}

#[cfg(test)]
mod tests;
