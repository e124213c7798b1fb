//! Results of attention over parts of the keys: written by tiles, read row by row to be put together.

use tilewright_device::abi::KernelArg;
use tilewright_device::arch::global;
use tilewright_device::arch::special::{thread_x, thread_x_volatile};
use tilewright_device::layout::{FragmentLayout, Registers, Striped};
use tilewright_device::tile::{CopyTo, Fragment, Rows};

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
    /// Columns, a multiple of [`RUN`](Self::RUN).
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

/// A part of the rows that a tile has, to be stored to: row r of the tile is row `place(r)`, or none.
#[derive(Clone, Copy)]
pub struct PartOfRows<F> {
    results: *mut f32,
    sums: *mut f32,
    columns: u32,
    place: F,
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
    /// Columns that a lane reads at a time.
    pub const RUN: usize = 8;

    /// Part `split` of the rows that `place` names, no two alike.
    #[inline(always)]
    pub fn part<F: Fn(u32) -> Option<u32>>(&self, split: u32, place: F) -> PartOfRows<F> {
        let first = split as usize * self.rows as usize;
        PartOfRows {
            results: (self.results as *mut f32).wrapping_add(first * self.columns as usize),
            sums: (self.sums as *mut f32).wrapping_add(first),
            columns: self.columns,
            place,
        }
    }

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
        const { assert!(<Of as FragmentLayout<S, C>>::RUN == SplitParts::RUN, "lanes read runs") };
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

/// Columns that the rows lack are not stored.
impl<L, F, const M: usize, const N: usize> CopyTo<PartOfRows<F>> for Fragment<f32, M, N, L>
where
    L: FragmentLayout<M, N>,
    F: Fn(u32) -> Option<u32>,
{
    #[inline(always)]
    fn copy_to(self, to: PartOfRows<F>) {
        const { assert!(L::RUN >= 2, "registers hold neighbours in pairs") };
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        let mut r = 0;
        while r < L::Rows::<f32>::LEN {
            let (row, first) = L::coord(thread, L::first(r));
            if let Some(row) = (to.place)(row) {
                let line = to.results.wrapping_add(row as usize * to.columns as usize + first as usize);
                let store = |i: usize, col: u32| {
                    let words = [self.regs.get(i).to_bits(), self.regs.get(i + 1).to_bits()];
                    // SAFETY: the pair is in a row of the results, of an even column; the part of the row is this CTA's.
                    unsafe { global::st_global_u32x2(line.wrapping_add(col as usize).cast(), words) }
                };
                // One comparison for all columns where that will do: code that a short kernel waits for.
                let whole = to.columns as usize == N;
                let mut i = 0;
                while i < L::Regs::<f32>::LEN {
                    if L::row(i) == r && whole {
                        store(i, L::offset(i).1);
                    }
                    i += 2;
                }
                let mut i = 0;
                while i < L::Regs::<f32>::LEN {
                    let col = L::offset(i).1;
                    if L::row(i) == r && !whole && first + col < to.columns {
                        store(i, col);
                    }
                    i += 2;
                }
            }
            r += 1;
        }
    }
}

/// The log-sum-exps.
impl<L, F, const M: usize, const N: usize> CopyTo<PartOfRows<F>> for Rows<f32, M, N, L>
where
    L: FragmentLayout<M, N>,
    F: Fn(u32) -> Option<u32>,
{
    #[inline(always)]
    fn copy_to(self, to: PartOfRows<F>) {
        self.for_each(|row, first, value| {
            if first && let Some(row) = (to.place)(row) {
                // SAFETY: the row is one of the part's, which is this CTA's.
                unsafe { global::st_global_u32(to.sums.wrapping_add(row as usize).cast(), value.to_bits()) }
            }
        });
    }
}
