//! The gemm of warps over f32, rounded to tf32 for the tensor cores.

use core::marker::PhantomData;

use crate::arch::{cvt, mma};
use crate::layout::registers::{ColumnBlocks, ColumnsOf, RowBlocks, RowsOf};
use crate::layout::{FragmentLayout, Major, Registers, Warps};
use crate::tile::mma::gemm::{Gemm, OperandLayout};
use crate::tile::mma::mma_sync::{Operand, warp_corner};

/// Warp policy of `mma.sync` for f32: `P`, one of [`warp`](crate::layout::warp), with both operands rounded to tf32, to nearest, as they
/// are read. Sums stay f32.
///
/// A tf32 has the exponent of an f32 and 10 bits of mantissa: a product is as exact as one of f16, over the range of f32.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tf32<P>(PhantomData<P>);

/// Elements of depth of one instruction.
const DEPTH: usize = 8;

/// Each of four registers rounded.
#[inline(always)]
fn rounded(x: [u32; 4]) -> [u32; 4] {
    let round = |x| cvt::f32_to_tf32(f32::from_bits(x)).to_bits();
    [round(x[0]), round(x[1]), round(x[2]), round(x[3])]
}

#[diagnostic::do_not_recommend]
impl<const M: usize, const N: usize, const K: usize, const WM: usize, const WN: usize> Gemm<f32, M, N, K>
    for Tf32<Warps<WM, WN>>
where
    f32: OperandLayout<K>,
    RowsOf<16>: RowBlocks<M, WM>,
    ColumnsOf: ColumnBlocks<N, WN>,
{
    type A = <f32 as OperandLayout<K>>::Layout;
    type B = <f32 as OperandLayout<K>>::Layout;
    type D = Warps<WM, WN>;

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
                "products of tf32 take operands that are contiguous along K: A row-major, B column-major"
            )
        };
        let (height, width) = ((M / WM) as u32, (N / WN) as u32);
        let (row, col) = warp_corner(height, width, WN as u32);
        // As `ldmatrix` sees it: lines of twice as many elements of 16 bits. A lane's two are one f32, of the row and the
        // column in which tf32's figures have the lane (PTX ISA, "Matrix Fragments for mma.m16n8k8").
        let depth = 2 * K as u32;
        let a = Operand::<Self::A>::new(a, true, (M as u32, depth), (row, height));
        let b = Operand::<Self::B>::new(b, true, (N as u32, depth), (col, width));
        let mut k = 0;
        while k < K {
            let mut left = <<RowsOf<16> as RowBlocks<M, WM>>::Of<[u32; 4]>>::splat([0; 4]);
            let mut block = 0;
            while block < M / WM / 16 {
                // SAFETY: passed on; the matrices are inside the tile.
                left.set(block, rounded(unsafe { a.load(block as u32 * 16, 2 * k as u32, false) }));
                block += 1;
            }
            let mut column = 0;
            while column < N / WN {
                // SAFETY: as above. Two blocks of 8 columns; where one alone is left, twice the same.
                let right = rounded(unsafe { b.load(column as u32, 2 * k as u32, true) });
                let mut i = 0;
                while i < 2 * (M / WM / 16) {
                    let (half, block) = (i / (M / WM / 16), i % (M / WM / 16));
                    if column + 8 * half < N / WN {
                        let first = block * (N / WN / 2) + (column / 8 + half) * 4;
                        let mut sums = [d.get(first), d.get(first + 1), d.get(first + 2), d.get(first + 3)];
                        // SAFETY: all lanes of the warps that hold the accumulator execute it.
                        unsafe {
                            mma::tf32_m16n8k8(
                                &mut sums,
                                left.get(block),
                                [right[2 * half], right[2 * half + 1]],
                            )
                        };
                        let mut e = 0;
                        while e < 4 {
                            d.set(first + e, sums[e]);
                            e += 1;
                        }
                    }
                    i += 1;
                }
                column += 16;
            }
            k += DEPTH;
        }
    }
}
