//! The gemm of warpgroups: `wgmma.mma_async` (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").

use crate::arch::special::thread_x;
use crate::arch::warp::uniform;
use crate::arch::wgmma::{self, Descriptor, Settle, Wgmma};
use crate::layout::registers::{ColumnBlocks, ColumnsOf, RowBlocks, RowsOf, for_each_width};
use crate::layout::{FragmentLayout, Major, PerWarpgroup, Registers, SharedLayout, Sum, Warpgroups};
use crate::tile::fragment::held::Packed;
use crate::tile::mma::accumulates::Accumulates;
use crate::tile::mma::gemm::{Gemm, GemmRegisters, OperandLayout};

/// Elements of depth of one instruction.
const DEPTH: u32 = 16;

/// An operand tile in shared memory: `extent` along M or N, `depth` along K, 16-bit elements.
pub struct SharedOperand {
    /// Its address.
    pub address: u32,
    /// Its elements are contiguous along K.
    pub k_major: bool,
    /// Bytes that its swizzle spans: 128, 64 or 32.
    pub swizzle: u32,
    /// Elements along M or N.
    pub extent: u32,
    /// Elements along K.
    pub depth: u32,
}

impl SharedOperand {
    /// Elements of depth of one instruction.
    pub const STEP: u32 = DEPTH;

    /// The matrix descriptor of the part that begins at `outer` along M or N and `k` along K.
    ///
    /// PTX ISA, "Matrix Descriptor Format": in the low word the address and the leading dimension's byte offset, in
    /// the high word the stride dimension's byte offset and the swizzle mode; all in units of 16 bytes.
    #[inline(always)]
    pub fn descriptor(&self, outer: u32, k: u32) -> Descriptor {
        let span = self.swizzle / 2;
        let (offset, leading) = if self.k_major {
            // Columns of `span` elements of K, `extent` lines each; the leading offset is not used.
            (k / span * self.extent * self.swizzle + outer * self.swizzle + k % span * 2, 16)
        } else {
            // Columns of `span` elements of M or N, `depth` lines each; the next column is the leading offset.
            let column = self.depth * self.swizzle;
            (outer / span * column + k * self.swizzle, column)
        };
        let mode = match self.swizzle {
            128 => 1,
            64 => 2,
            _ => 3,
        };
        Descriptor {
            lo: ((self.address + offset) & 0x3ffff) >> 4 | (leading >> 4) << 16,
            hi: (8 * self.swizzle) >> 4 | mode << 30,
        }
    }

    /// By how much the low word grows from the part at 0 to that at `outer` along M or N and `k` along K: an address that ends inside
    /// shared memory does not overflow its field.
    #[inline(always)]
    fn past_first(&self, outer: u32, k: u32) -> u32 {
        let from_zero = SharedOperand { address: 0, ..*self };
        from_zero.descriptor(outer, k).lo - from_zero.descriptor(0, 0).lo
    }

    /// By how much the low word grows from the part at 0 along K to that at `k`.
    #[inline(always)]
    pub fn along(&self, k: u32) -> u64 {
        u64::from(self.past_first(0, k))
    }
}

/// Where one of the warpgroups, `across` of which lie side by side, begins in the accumulator.
#[inline(always)]
fn corner(unit: u32, across: u32, height: u32, width: u32) -> (u32, u32) {
    (unit / across * height, unit % across * width)
}

/// The warpgroup that this thread is in, known to be the same in all lanes of the warp.
#[inline(always)]
fn warpgroup() -> u32 {
    uniform(thread_x() / 128)
}

impl<const M: usize, const N: usize, const WM: usize, const WN: usize> Accumulates<M, N>
    for Warpgroups<WM, WN>
where
    RowsOf<64>: RowBlocks<M, WM>,
    ColumnsOf: ColumnBlocks<N, WN>,
    <ColumnsOf as ColumnBlocks<N, WN>>::Of<f32>: Settle,
{
    const ASYNCHRONOUS: bool = true;

    #[inline(always)]
    unsafe fn settle<S: Sum>(regs: &mut Self::Regs<S>) {
        let (regs, mut block) = (as_f32::<Self, S, M, N>(regs), 0);
        while block < M / WM / 64 {
            let regs: &mut <ColumnsOf as ColumnBlocks<N, WN>>::Of<f32> = regs.blocks.get_mut(block);
            // SAFETY: passed on; the first block's wait is for all gemms.
            unsafe { if block == 0 { regs.settle() } else { regs.touch() } }
            block += 1;
        }
    }
    #[inline(always)]
    unsafe fn touch<S: Sum>(regs: &mut Self::Regs<S>) {
        let (regs, mut block) = (as_f32::<Self, S, M, N>(regs), 0);
        while block < M / WM / 64 {
            let regs: &mut <ColumnsOf as ColumnBlocks<N, WN>>::Of<f32> = regs.blocks.get_mut(block);
            // SAFETY: passed on.
            unsafe { regs.touch() };
            block += 1;
        }
    }
}

/// The accumulator's registers as those of f32, for instructions that touch none of their bits.
#[inline(always)]
fn as_f32<L: FragmentLayout<M, N>, S: Sum, const M: usize, const N: usize>(
    regs: &mut L::Regs<S>,
) -> &mut L::Regs<f32> {
    const { assert!(size_of::<L::Regs<S>>() == size_of::<L::Regs<f32>>()) };
    // SAFETY: both are as many values of 4 bytes and nothing else; any bits are a value of both types.
    unsafe { &mut *(&raw mut *regs).cast() }
}

/// The two operands' orders as the immediates that the instruction takes.
macro_rules! with_transposes {
    ($a:expr, $b:expr, |$ta:ident, $tb:ident| $call:expr) => {
        match ($a, $b) {
            (false, false) => {
                const $ta: u32 = 0;
                const $tb: u32 = 0;
                $call
            }
            (false, true) => {
                const $ta: u32 = 0;
                const $tb: u32 = 1;
                $call
            }
            (true, false) => {
                const $ta: u32 = 1;
                const $tb: u32 = 0;
                $call
            }
            (true, true) => {
                const $ta: u32 = 1;
                const $tb: u32 = 1;
                $call
            }
        }
    };
}

/// The sums of the columns that a warpgroup's instruction covers, which products of elements `T` are added to.
pub trait BlockSums<T>: Copy {
    /// As [`Wgmma::ss`].
    ///
    /// # Safety
    /// As there.
    unsafe fn ss<const TA: u32, const TB: u32>(&mut self, a: Descriptor, b: Descriptor, accumulate: u32);
    /// As [`Wgmma::rs`].
    ///
    /// # Safety
    /// As there.
    unsafe fn rs<const TB: u32>(&mut self, a: [u32; 4], b: Descriptor, accumulate: u32);
}

macro_rules! block_sums {
    ($($n:literal)*) => { $(
        impl<T: Wgmma<$n, Acc = [S; $n / 2]>, S: Copy> BlockSums<T> for [S; $n / 2] {
            #[inline(always)]
            unsafe fn ss<const TA: u32, const TB: u32>(&mut self, a: Descriptor, b: Descriptor, accumulate: u32) {
                // SAFETY: passed on.
                unsafe { T::ss::<TA, TB>(self, a, b, accumulate) }
            }
            #[inline(always)]
            unsafe fn rs<const TB: u32>(&mut self, a: [u32; 4], b: Descriptor, accumulate: u32) {
                // SAFETY: passed on.
                unsafe { T::rs::<TB>(self, a, b, accumulate) }
            }
        }
    )* };
}
for_each_width!(block_sums);

/// A warpgroup's sums of one block of rows.
type Block<S, const N: usize, const WN: usize> = <ColumnsOf as ColumnBlocks<N, WN>>::Of<S>;

// What is missing for a shape is said by `Gemm`, which knows the whole of it.
#[diagnostic::do_not_recommend]
impl<T, S, const M: usize, const N: usize, const K: usize, const WM: usize, const WN: usize>
    Gemm<T, M, N, K, S> for Warpgroups<WM, WN>
where
    T: OperandLayout<K>,
    S: Sum,
    RowsOf<64>: RowBlocks<M, WM>,
    ColumnsOf: ColumnBlocks<N, WN>,
    Block<f32, N, WN>: Settle,
    Block<S, N, WN>: BlockSums<T>,
{
    type A = T::Layout;
    type B = T::Layout;
    type D = Self;

    #[inline(always)]
    unsafe fn issue<OA: Major, OB: Major>(
        a: u32,
        b: u32,
        add: bool,
        d: &mut <Self as FragmentLayout<M, N>>::Regs<S>,
    ) {
        let swizzle = <T::Layout as SharedLayout>::SWIZZLE;
        const {
            assert!(
                !OB::ROW_MAJOR || ((N / WN * 2) as u32).is_multiple_of(<T::Layout as SharedLayout>::SWIZZLE),
                "where N is contiguous in B, a warpgroup takes a multiple of 64 columns (of 32 or 16 where K is)"
            )
        };
        let a =
            SharedOperand { address: a, k_major: OA::ROW_MAJOR, swizzle, extent: M as u32, depth: K as u32 };
        let b =
            SharedOperand { address: b, k_major: !OB::ROW_MAJOR, swizzle, extent: N as u32, depth: K as u32 };
        let unit = warpgroup();
        let (row, col) = corner(unit, WN as u32, (M / WM) as u32, (N / WN) as u32);
        // SAFETY: passed on; the descriptors stay inside the operands' tiles.
        unsafe {
            wgmma::fence();
            let mut k = 0;
            while k < K as u32 {
                let mut block = 0;
                while block < M / WM / 64 {
                    let acc: &mut Block<S, N, WN> = d.blocks.get_mut(block);
                    let a = a.descriptor(row + block as u32 * 64, k);
                    let b = b.descriptor(col, k);
                    with_transposes!(!OA::ROW_MAJOR, OB::ROW_MAJOR, |TA, TB| BlockSums::<T>::ss::<TA, TB>(
                        acc,
                        a,
                        b,
                        (add || k > 0) as u32
                    ));
                    block += 1;
                }
                k += DEPTH;
            }
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T, S, const M: usize, const N: usize, const K: usize, const W: usize> Gemm<T, M, N, K, S>
    for PerWarpgroup<W>
where
    T: OperandLayout<K>,
    S: Sum,
    RowsOf<64>: RowBlocks<M, 1>,
    ColumnsOf: ColumnBlocks<N, 1>,
    Block<f32, N, 1>: Settle,
    Block<S, N, 1>: BlockSums<T>,
{
    type A = T::Layout;
    type B = T::Layout;
    type D = Self;

    #[inline(always)]
    unsafe fn issue<OA: Major, OB: Major>(
        a: u32,
        b: u32,
        add: bool,
        d: &mut <Self as FragmentLayout<M, N>>::Regs<S>,
    ) {
        let swizzle = <T::Layout as SharedLayout>::SWIZZLE;
        const {
            assert!(
                !OB::ROW_MAJOR || ((N * 2) as u32).is_multiple_of(<T::Layout as SharedLayout>::SWIZZLE),
                "where N is contiguous in B, a warpgroup takes a multiple of 64 columns (of 32 or 16 where K is)"
            )
        };
        let a =
            SharedOperand { address: a, k_major: OA::ROW_MAJOR, swizzle, extent: M as u32, depth: K as u32 };
        let b =
            SharedOperand { address: b, k_major: !OB::ROW_MAJOR, swizzle, extent: N as u32, depth: K as u32 };
        // The others differ from these by constants: an addition each.
        let (first_a, first_b) = (a.descriptor(0, 0), b.descriptor(0, 0));
        // SAFETY: passed on; the descriptors stay inside the operands' tiles.
        unsafe {
            wgmma::fence();
            let mut k = 0;
            while k < K as u32 {
                let mut block = 0;
                while block < M / 64 {
                    let acc: &mut Block<S, N, 1> = d.blocks.get_mut(block);
                    let a = Descriptor { lo: first_a.lo + a.past_first(block as u32 * 64, k), ..first_a };
                    let b = Descriptor { lo: first_b.lo + b.past_first(0, k), ..first_b };
                    with_transposes!(!OA::ROW_MAJOR, OB::ROW_MAJOR, |TA, TB| BlockSums::<T>::ss::<TA, TB>(
                        acc,
                        a,
                        b,
                        (add || k > 0) as u32
                    ));
                    block += 1;
                }
                k += DEPTH;
            }
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T, S, const M: usize, const N: usize, const K: usize, const WM: usize> GemmRegisters<T, M, N, K, S>
    for Warpgroups<WM, 1>
where
    T: OperandLayout<K>,
    S: Sum,
    RowsOf<64>: RowBlocks<M, WM>,
    ColumnsOf: ColumnBlocks<N, 1> + ColumnBlocks<K, 1>,
    Block<f32, N, 1>: Settle,
    Block<S, N, 1>: BlockSums<T>,
{
    type R = Self;

    #[inline(always)]
    unsafe fn issue_registers<OB: Major>(
        a: &Packed<<Self as FragmentLayout<M, K>>::Regs<[u32; 4]>>,
        b: u32,
        add: bool,
        d: &mut <Self as FragmentLayout<M, N>>::Regs<S>,
    ) {
        let swizzle = <T::Layout as SharedLayout>::SWIZZLE;
        let b =
            SharedOperand { address: b, k_major: !OB::ROW_MAJOR, swizzle, extent: N as u32, depth: K as u32 };
        // Packed before the fence: what defines a register between it and the gemms makes ptxas serialise them.
        let mut packed = *a;
        let mut i = 0;
        while i < <Self as FragmentLayout<M, K>>::Regs::<T>::LEN / 8 {
            packed.0.set(i, wgmma::define(packed.0.get(i)));
            i += 1;
        }
        // The descriptors differ by constants: sums of 64 bits, which take one instruction each. Not those of
        // attention's V, for which there is no register.
        let first = if OB::ROW_MAJOR { 0 } else { b.descriptor(0, 0).joined() };
        // SAFETY: passed on; the descriptors stay inside the operand's tile.
        unsafe {
            wgmma::fence();
            let mut k = 0;
            while k < K as u32 {
                let b = if OB::ROW_MAJOR { b.descriptor(0, k) } else { Descriptor::from(first + b.along(k)) };
                let mut block = 0;
                while block < M / WM / 64 {
                    let acc: &mut Block<S, N, 1> = d.blocks.get_mut(block);
                    let a = packed.0.get(block * (K / DEPTH as usize) + (k / DEPTH) as usize);
                    let add = (add || k > 0) as u32;
                    if OB::ROW_MAJOR {
                        BlockSums::<T>::rs::<1>(acc, a, b, add)
                    } else {
                        BlockSums::<T>::rs::<0>(acc, a, b, add)
                    }
                    block += 1;
                }
                k += DEPTH;
            }
        }
    }
}

#[cfg(test)]
mod tests;
