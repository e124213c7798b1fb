//! The gemm of one warpgroup among others that do something else, whose left operand lies without a swizzle.

use crate::arch::wgmma::{self, Descriptor, Settle, Wgmma};
use crate::layout::registers::{ColumnBlocks, ColumnsOf, Nested, RowBlocks, RowsOf};
use crate::layout::{
    CoreMatrices, FragmentLayout, Major, PerWarpgroup, SharedLayout, Sum, Warpgroup, Warpgroups,
};
use crate::tile::mma::accumulates::Accumulates;
use crate::tile::mma::gemm::{Gemm, OperandLayout};
use crate::tile::mma::wgmma::SharedOperand;

/// A warpgroup's whole accumulator.
macro_rules! whole {
    ($policy:ident<$g:ident>, $apart:literal) => {
        impl<const M: usize, const N: usize, const $g: usize> Accumulates<M, N> for $policy<$g>
        where
            RowsOf<64>: RowBlocks<M, 1>,
            ColumnsOf: ColumnBlocks<N, 1>,
            <ColumnsOf as ColumnBlocks<N, 1>>::Of<f32>: Settle,
        {
            const ASYNCHRONOUS: bool = true;
            const APART: bool = $apart;

            #[inline(always)]
            unsafe fn settle<S: Sum>(regs: &mut Self::Regs<S>) {
                // SAFETY: passed on.
                unsafe { <Warpgroups<1, 1> as Accumulates<M, N>>::settle(regs) }
            }
            #[inline(always)]
            unsafe fn touch<S: Sum>(regs: &mut Self::Regs<S>) {
                // SAFETY: passed on.
                unsafe { <Warpgroups<1, 1> as Accumulates<M, N>>::touch(regs) }
            }
        }
    };
}
whole!(Warpgroup<G>, false);
whole!(PerWarpgroup<W>, true);

/// The registers of the only block of rows.
type Columns<const N: usize> = <ColumnsOf as ColumnBlocks<N, 1>>::Of<f32>;

#[diagnostic::do_not_recommend]
impl<T, const G: usize, const N: usize, const K: usize> Gemm<T, 64, N, K> for Warpgroup<G>
where
    T: OperandLayout<K> + Wgmma<N, Acc = Columns<N>>,
    ColumnsOf: ColumnBlocks<N, 1>,
    Columns<N>: Settle,
{
    type A = CoreMatrices;
    type B = T::Layout;
    type D = Self;

    #[inline(always)]
    unsafe fn issue<OA: Major, OB: Major>(
        a: u32,
        b: u32,
        add: bool,
        d: &mut <Self as FragmentLayout<64, N>>::Regs<f32>,
    ) {
        const { assert!(OA::ROW_MAJOR, "A without a swizzle is contiguous along K") };
        let swizzle = <T::Layout as SharedLayout>::SWIZZLE;
        let b =
            SharedOperand { address: b, k_major: !OB::ROW_MAJOR, swizzle, extent: N as u32, depth: K as u32 };
        let d: &mut Nested<[Columns<N>; 1], Columns<N>> = d;
        // SAFETY: passed on; the descriptors stay inside the operands' tiles.
        unsafe {
            wgmma::fence();
            let mut step = 0;
            while step < K as u32 / SharedOperand::STEP {
                let a = CoreMatrices::descriptor(a, 64, step);
                let (b, add) = (b.descriptor(0, step * SharedOperand::STEP), (add || step > 0) as u32);
                let d = &mut d.blocks[0];
                if OB::ROW_MAJOR {
                    T::ss::<0, 1>(d, a, b, add)
                } else {
                    T::ss::<0, 0>(d, a, b, add)
                }
                step += 1;
            }
        }
    }
}

impl CoreMatrices {
    /// The matrix descriptor of block `step` of [`SharedOperand::STEP`] columns of an operand of 16-bit elements that lies so, of
    /// `rows` rows, at an address; see [`SharedOperand::descriptor`].
    #[inline(always)]
    pub fn descriptor(address: u32, rows: u32, step: u32) -> Descriptor {
        let start = address + step * rows * 2 * SharedOperand::STEP;
        Descriptor { lo: (start & 0x3ffff) >> 4 | (Self::LEADING >> 4) << 16, hi: Self::STRIDE >> 4 }
    }
}

#[cfg(test)]
mod tests;
