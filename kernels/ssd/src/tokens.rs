//! What the scan knows of each token of a block: sums of log-decays, weights.

use tilewright_device::arch::shared;
use tilewright_device::arch::special::thread_x_volatile;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cols, Fragment, FragmentLayout, Rows, Shared, SharedLayout, Src, Swizzle, for_each_row, math,
};

/// Tokens of a block.
pub const BLOCK: u32 = 64;
/// Columns of a block's row of steps: four values for each token.
pub const STEPS_COLUMNS: u32 = 4 * BLOCK;

/// A block's steps in shared memory: four vectors of 64 values, in two lines each.
pub(crate) type StepsTile = Shared<f32, 8, 32, Swizzle<128>>;

/// Which of a token's values.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    /// a: the sum of log2-decays from the block's beginning up to the token.
    Sum,
    /// b = a - log2(dt): 2^(a of a later token - b) is the weight that the token has there.
    Offset,
    /// dt 2^(a of the block's end - a): the token's weight in the state behind the block.
    Remains,
    /// 2^a: what is left at the token of the state before the block.
    Left,
}

/// The steps of a block's tokens.
pub(crate) struct Tokens<'s>(Src<'s, StepsTile>);

impl<'s> Tokens<'s> {
    #[inline(always)]
    pub(crate) fn of(tile: Src<'s, StepsTile>) -> Self {
        Tokens(tile)
    }

    #[inline(always)]
    fn address(&self, value: Value, token: u32) -> u32 {
        let line = 2 * value as u32 + token / 32;
        self.0.address() + <Swizzle<128> as SharedLayout>::offset(8, 128, line, token % 32 * 4)
    }

    /// One token's value.
    #[inline(always)]
    pub(crate) fn at(&self, value: Value, token: u32) -> f32 {
        // SAFETY: a full tile, of which this is an element.
        unsafe { shared::load_f32(self.address(value, token)) }
    }

    /// The values of a fragment's rows, which are tokens.
    #[inline(always)]
    pub(crate) fn rows<L: FragmentLayout<64, N>, const N: usize>(&self, value: Value) -> Rows<f32, 64, N, L> {
        let mut rows = Rows::<f32, 64, N, L>::splat(0.0);
        for_each_row::<L, 64, N>(|r, row, _| rows.regs.set(r, self.at(value, row)));
        rows
    }

    /// The values of a fragment's columns, which are tokens.
    #[inline(always)]
    pub(crate) fn cols<L: FragmentLayout<64, 64>>(&self, value: Value) -> Cols<f32, 64, 64, L> {
        const { assert!(L::ROW_LANES == 4 && L::RUN == 2, "the lanes of a row hold 8 neighbouring columns") };
        // The thread's number is read anew, so that no address is held in registers over a loop. Its bytes among 8 columns' lie in one
        // piece of 16 or its neighbour, wherever the swizzle puts the two: what else it does is the same in all threads.
        let own = thread_x_volatile() % 4 * 8;
        let mut cols = Cols::<f32, 64, 64, L>::splat(0.0);
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            if L::row(i) == L::row(0) {
                let token = L::offset(i).1;
                let line = 2 * value as u32 + token / 32;
                let at = line * 128 + ((token % 32 * 4) ^ ((line & 6) * 16)) + (own ^ ((line & 1) * 16));
                // SAFETY: a full tile, of which these are two neighbours.
                let [x, y] = unsafe { shared::load_f32x2(self.0.address() + at) };
                cols.regs.set(L::col(i), x);
                cols.regs.set(L::col(i + 1), y);
            }
            i += 2;
        }
        cols
    }

    /// C Bᵀ of the block as the weights by which its tokens (columns) enter its results (rows): each times dt 2^(a of the row - a of the
    /// column), nothing above the diagonal, and `skip` added on it.
    ///
    /// Bands of 16 tokens: a warp has the rows of one. In bands of columns before its own the power of two is a product of one of
    /// the row and one of the column, with the sum before the warp's band for an anchor: neither is above 1 where decays are not, so that
    /// nothing overflows.
    #[inline(always)]
    pub(crate) fn weigh<L: FragmentLayout<64, 64>>(
        &self,
        mut s: Fragment<f32, 64, 64, L>,
        skip: f32,
    ) -> Fragment<f32, 64, 64, L> {
        const { assert!(L::THREADS == 128 && L::ROW_LANES == 4 && L::RUN == 2, "a warp has 16 rows, whole") };
        let thread = thread_x_volatile();
        let band = thread / 32;
        let anchor = if band == 0 { 0.0 } else { self.at(Value::Sum, band * 16 - 1) };
        let (sums, mut offsets) = (self.rows::<L, 64>(Value::Sum), self.cols::<L>(Value::Offset));
        let factors = sums.map(|sum| math::ex2(sum - anchor));
        let mut columns = 0;
        while columns < 4 {
            if columns < band {
                for_each_in_band::<L>(columns, |i| {
                    if L::row(i) == L::row(0) {
                        offsets.regs.set(L::col(i), math::ex2(anchor - offsets.regs.get(L::col(i))));
                    }
                });
                for_each_in_band::<L>(columns, |i| {
                    let factor = factors.regs.get(L::row(i)) * offsets.regs.get(L::col(i));
                    s.regs.set(i, s.regs.get(i) * factor);
                });
            } else if columns == band {
                for_each_in_band::<L>(columns, |i| {
                    // In the band: the same for all bands.
                    let (row, col) = (thread % 32 / 4 + L::offset(i).0, thread % 4 * 2 + L::offset(i).1 % 16);
                    let factor = math::ex2(sums.regs.get(L::row(i)) - offsets.regs.get(L::col(i)));
                    let x = s.regs.get(i) * factor;
                    let x = if col == row { x + skip } else { x };
                    s.regs.set(i, if col <= row { x } else { 0.0 });
                });
            } else {
                for_each_in_band::<L>(columns, |i| s.regs.set(i, 0.0));
            }
            columns += 1;
        }
        s
    }
}

/// Calls `each` for the registers that hold a band of 16 columns.
#[inline(always)]
pub(crate) fn for_each_in_band<L: FragmentLayout<64, 64>>(band: u32, mut each: impl FnMut(usize)) {
    let mut i = 0;
    while i < L::Regs::<f32>::LEN {
        if L::offset(i).1 / 16 == band {
            each(i);
        }
        i += 1;
    }
}
