//! Results of attention over parts of the keys, as a warp reads them to put them together.

use super::{Fragment, Rows, Striped};
use crate::abi::KernelArg;
use crate::arch::global;
use crate::arch::special::thread_x;
use crate::layout::{FragmentLayout, Registers};

/// Parts of every row's result: what a split-KV kernel leaves for the one that merges them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SplitParts {
    /// Address of the results, `f32` \[splits, rows, columns\], contiguous and aligned to 16 bytes.
    pub results: u64,
    /// Address of the log-sum-exps, `f32` \[splits, rows\], contiguous.
    pub sums: u64,
    /// Rows of all sequences.
    pub rows: u32,
    /// Columns, a multiple of 8.
    pub columns: u32,
    /// Parts of every row.
    pub splits: u32,
    /// Nothing.
    pub padding: u32,
}

impl KernelArg for SplitParts {
    type Abi = Self;
    #[inline(always)]
    unsafe fn load(at: *const Self) -> Self {
        // SAFETY: the caller passes an initialised parameter.
        unsafe { *at }
    }
}

/// `S` parts at a time of `C` columns of a row: their log-sum-exps, -inf behind the last part, and their results.
///
/// All addresses are known when it is made, before the kernel that writes the parts has ended.
pub struct PartsOfRow<const S: usize, const C: usize> {
    results: *const f32,
    sums: *const f32,
    /// Elements from one part to the next.
    steps: [u64; 2],
    /// Parts from this thread's first one on, which may have ended before it.
    left: i32,
    /// Rounds of `S` parts.
    rounds: u32,
    inside: bool,
}

impl SplitParts {
    /// The parts of row `row`, in columns from `column` on, for a warp.
    #[inline(always)]
    pub fn row<const S: usize, const C: usize>(&self, row: u32, column: u32) -> PartsOfRow<S, C>
    where
        Striped<1>: FragmentLayout<S, C>,
    {
        let (part, along) = <Striped<1> as FragmentLayout<S, C>>::coord(thread_x(), 0);
        let steps = [self.rows as u64 * self.columns as u64, self.rows as u64];
        let first = row as u64 * self.columns as u64 + (column + along) as u64;
        PartsOfRow {
            results: (self.results as *const f32).wrapping_add((part as u64 * steps[0] + first) as usize),
            sums: (self.sums as *const f32).wrapping_add((part as u64 * steps[1]) as usize + row as usize),
            steps,
            left: self.splits as i32 - part as i32,
            rounds: self.splits.div_ceil(S as u32),
            inside: column + along < self.columns,
        }
    }
}

impl<const S: usize, const C: usize> Iterator for PartsOfRow<S, C>
where
    Striped<1>: FragmentLayout<S, C>,
{
    type Item = (Rows<f32, S, C, Striped<1>>, Fragment<f32, S, C, Striped<1>>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        type Of = Striped<1>;
        if self.rounds == 0 {
            return None;
        }
        let mut sums = Rows::<f32, S, C, Of>::splat(f32::NEG_INFINITY);
        let mut results = Fragment::<f32, S, C, Of>::zero();
        const { assert!(<Of as FragmentLayout<S, C>>::RUN == 8, "lanes have runs of 8 columns") };
        let mut i = 0;
        while i < <<Of as FragmentLayout<S, C>>::Regs<f32> as Registers<f32>>::LEN {
            let (part, along) = <Of as FragmentLayout<S, C>>::offset(i);
            if (part as i32) < self.left {
                // SAFETY: the part is one of the row's, of which the host passes results and sums.
                unsafe {
                    if along == 0 {
                        let sum = self.sums.wrapping_add((part as u64 * self.steps[1]) as usize);
                        let sum = f32::from_bits(global::ld_global_u32(sum.cast()));
                        sums.regs.set(<Of as FragmentLayout<S, C>>::row(i), sum);
                    }
                    if self.inside {
                        let at = self
                            .results
                            .wrapping_add((part as u64 * self.steps[0]) as usize + along as usize);
                        let words = global::ld_global_u32x4(at.cast());
                        let mut e = 0;
                        while e < 4 {
                            results.regs.set(i + e, f32::from_bits(words[e]));
                            e += 1;
                        }
                    }
                }
            }
            i += 4;
        }
        let next = |from: *const f32, step: u64| from.wrapping_add((S as u64 * step) as usize);
        self.results = next(self.results, self.steps[0]);
        self.sums = next(self.sums, self.steps[1]);
        (self.left, self.rounds) = (self.left - S as i32, self.rounds - 1);
        Some((sums, results))
    }
}
