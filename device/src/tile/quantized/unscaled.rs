//! Narrow weights without their scales, for gemms whose sums are scaled: fewer instructions, and exact operands.

use crate::arch::declare::refuse;
use crate::arch::shared;
use crate::arch::special::thread_x;
use crate::layout::{FragmentLayout, Registers};
use crate::tile::fragment::held::{Held, Packed};
use crate::tile::fragment::{Operand, Rows};
use crate::tile::memory::shared::Src;
use crate::tile::quantized::format::{Decode, Half};
use crate::tile::quantized::weights::{PART, Quantized, Weights, twice, words};
use crate::tile::quantized::zeros::ZerosFirst;

/// A full tile's row block, and what this warp has of it.
///
/// A tile of `M` rows, laid out as `W`, has blocks of `R` rows: the `block`-th part of each thread's registers holds the `block`-th.
struct RowBlock<'s, F, Z, T, const M: usize, const K: usize> {
    tile: Src<'s, Quantized<F, Z, T, M, K>>,
    /// The warp's rows, counted in 16.
    rows: u32,
}

impl<'s, F: Decode<T>, Z: ZerosFirst, T: Half, const M: usize, const K: usize> RowBlock<'s, F, Z, T, M, K> {
    #[inline(always)]
    fn new<const R: usize, W: FragmentLayout<M, PART>>(
        tile: Src<'s, Quantized<F, Z, T, M, K>>,
        block: usize,
    ) -> Self {
        const { assert!(M.is_multiple_of(R) && R as u32 == W::THREADS / 2, "a warp has 16 rows of a block") };
        if block >= M / R {
            refuse!("a block of rows is asked for that the tile of weights has not");
        }
        let first = W::Regs::<u32>::LEN / (M / R) * block;
        RowBlock { tile, rows: W::coord(thread_x(), 0).0 / 16 + W::offset(first).0 / 16 }
    }

    /// The lane's words of the `along`-th 64 of depth.
    #[inline(always)]
    fn words(&self, along: u32) -> [u32; 8] {
        let block = self.rows / 4 * Quantized::<F, Z, T, M, K>::BLOCKS[1] + along;
        // SAFETY: the tile is full, and has the block.
        unsafe {
            words::<F>(
                self.tile.address + block * F::PACKED.block_bytes(),
                self.rows % 4 * 32 + thread_x() % 32,
            )
        }
    }

    /// Where the lane's first row has its scale; that of the other one, 8 rows below, is 16 bytes behind it.
    #[inline(always)]
    fn scales(&self) -> u32 {
        self.tile.address
            + Quantized::<F, Z, T, M, K>::scales(0)
            + (self.rows * 16 + thread_x() % 32 / 4) * T::BYTES as u32
    }

    /// The zeros of the lane's rows, as [`ZerosFirst::unscaled`] takes them.
    #[inline(always)]
    fn zeros(&self) -> [u32; 2] {
        if !Z::STORED {
            return [0; 2];
        }
        let at = self.scales() + Quantized::<F, Z, T, M, K>::ZEROS - Quantized::<F, Z, T, M, K>::scales(0);
        [at, at + 16].map(
            #[inline(always)]
            // SAFETY: the tile is full; zeros lie as scales do.
            |at| Z::unscaled_zero::<T, F>(unsafe { twice(at) }),
        )
    }
}

impl<F: Decode<T>, Z: ZerosFirst, T: Half> Weights<F, Z, T> {
    /// The `block`-th block of `R` rows of a full tile, laid out as `W`, as the left operand of a gemm: values less their zeros,
    /// but for the [`factors`](Self::factors). A group is a multiple of `K` along K, or the whole row.
    #[inline(always)]
    pub fn unscaled<const M: usize, const K: usize, const R: usize, W, L>(
        &self,
        from: Src<'_, Quantized<F, Z, T, M, K>>,
        block: usize,
    ) -> Operand<T, R, K, L>
    where
        W: FragmentLayout<M, PART>,
        L: FragmentLayout<R, K>,
    {
        let rows = RowBlock::new::<R, W>(from, block);
        let zeros = rows.zeros();
        let mut packed = Packed::<L::Regs<[u32; 4]>>::none();
        let mut step = 0;
        while step < K / 16 {
            let (words, first) = (rows.words(step as u32 / 4), step as u32 % 4 * 4);
            let register = |r: u32| Z::unscaled::<T, F>(&words, first + r, zeros[r as usize % 2]);
            packed.0.set(step, [register(0), register(1), register(2), register(3)]);
            step += 1;
        }
        Operand::new(packed)
    }

    /// What the sums of the `block`-th block's products are to be multiplied by: scales, times what
    /// [`unscaled`](Self::unscaled) leaves out beside them.
    #[inline(always)]
    pub fn factors<const M: usize, const K: usize, const R: usize, const N: usize, W, L>(
        &self,
        from: Src<'_, Quantized<F, Z, T, M, K>>,
        block: usize,
    ) -> Rows<f32, R, N, L>
    where
        W: FragmentLayout<M, PART>,
        L: FragmentLayout<R, N>,
    {
        let at = RowBlock::new::<R, W>(from, block).scales();
        let mut regs = L::Rows::splat(0.0);
        let mut r = 0;
        while r < 2 {
            // SAFETY: the tile is full.
            let scale = T::from_bits(unsafe { shared::load_u16(at + 16 * r as u32) }.into()).to_f32();
            regs.set(r, scale * Z::factors::<T, F>()[r]);
            r += 1;
        }
        Rows { regs }
    }
}
