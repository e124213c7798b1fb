//! Parts of attention's results, of keys that several CTAs divide among themselves (split-KV): where they lie, and stores to them.

use crate::abi::PassedAsIs;
use crate::arch::global;
use crate::arch::special::thread_x_volatile;
use crate::layout::{FragmentLayout, Registers};
use crate::tile::fragment::{Fragment, Rows};
use crate::tile::memory::copy_to::CopyTo;

/// Parts of rows' results: lines of `f32`, and of each log2 of its sum of exponentials, -inf where there was no key.
///
/// Which line is which part of which row is the kernel's to say, but for this: a row's parts lie `step` lines apart.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SplitParts {
    /// Address of the results, `f32` \[lines, columns\], contiguous and aligned to 16 bytes.
    pub results: u64,
    /// Address of the sums' log2, `f32` \[lines\], contiguous.
    pub sums: u64,
    /// How many lines there is room for.
    pub lines: u32,
    /// Columns, a multiple of [`RUN`](Self::RUN).
    pub columns: u32,
    /// Lines from a part of a row to the next part of that row.
    pub step: u32,
    /// Nothing.
    pub padding: u32,
}

impl PassedAsIs for SplitParts {}

/// A part of a tile's rows, to be stored to: row r of the tile is line `place(r)` from the part's first on, or none.
#[derive(Clone, Copy)]
pub struct PartOfTile<F> {
    results: *mut f32,
    sums: *mut f32,
    /// Lines from the first on that there is room for.
    lines: u32,
    columns: u32,
    column: u32,
    place: F,
}

impl SplitParts {
    /// Columns that a lane reads at a time.
    pub const RUN: usize = 8;

    /// The same where a kernel is for `N` columns: the compiler then knows them.
    #[inline(always)]
    pub fn of_columns<const N: usize>(self) -> Self {
        SplitParts { columns: N as u32, ..self }
    }

    /// The part that begins at line `first`: the lines from there on that `place` names for a tile's rows, no two alike. What there
    /// is no room for is not stored.
    #[inline(always)]
    pub fn part<F: Fn(u32) -> Option<u32>>(&self, first: u32, place: F) -> PartOfTile<F> {
        PartOfTile {
            results: (self.results as *mut f32).wrapping_add(first as usize * self.columns as usize),
            sums: (self.sums as *mut f32).wrapping_add(first as usize),
            lines: self.lines.saturating_sub(first),
            columns: self.columns,
            column: 0,
            place,
        }
    }
}

impl<F: Fn(u32) -> Option<u32>> PartOfTile<F> {
    /// The same lines from column `column` on, an even one: for a fragment with fewer columns.
    #[inline(always)]
    pub fn from_column(self, column: u32) -> Self {
        PartOfTile { column, ..self }
    }
    /// The line of a row, where there is room for it.
    #[inline(always)]
    fn line(&self, row: u32) -> Option<usize> {
        (self.place)(row).filter(|&line| line < self.lines).map(|line| line as usize)
    }
}

/// Columns that the lines lack are not stored.
impl<L, F, const M: usize, const N: usize> CopyTo<PartOfTile<F>> for Fragment<f32, M, N, L>
where
    L: FragmentLayout<M, N>,
    F: Fn(u32) -> Option<u32>,
{
    #[inline(always)]
    fn copy_to(self, to: PartOfTile<F>) {
        const { assert!(L::RUN >= 2, "registers hold neighbours in pairs") };
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        let mut r = 0;
        while r < L::Rows::<f32>::LEN {
            let (row, first) = L::coord(thread, L::first(r));
            let first = to.column + first;
            if let Some(line) = to.line(row) {
                let line = to.results.wrapping_add(line * to.columns as usize + first as usize);
                let store = |i: usize, col: u32| {
                    let words = [self.regs.get(i).to_bits(), self.regs.get(i + 1).to_bits()];
                    // SAFETY: the pair is in a line that there is room for, which is this CTA's, and begins at an even column.
                    unsafe { global::st_global_u32x2(line.wrapping_add(col as usize).cast(), words) }
                };
                // One comparison for all columns where that will do: code that a short kernel waits for.
                let whole = to.column + N as u32 <= to.columns;
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

/// The log2 of the sums, by the threads that have the rows' first elements.
impl<L, F, const M: usize, const N: usize> CopyTo<PartOfTile<F>> for Rows<f32, M, N, L>
where
    L: FragmentLayout<M, N>,
    F: Fn(u32) -> Option<u32>,
{
    #[inline(always)]
    fn copy_to(self, to: PartOfTile<F>) {
        self.for_each(|row, first, value| {
            if first && let Some(line) = to.line(row) {
                // SAFETY: there is room for the line, which is this CTA's.
                unsafe { global::st_global_u32(to.sums.wrapping_add(line).cast(), value.to_bits()) }
            }
        });
    }
}
