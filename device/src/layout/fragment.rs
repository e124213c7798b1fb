//! How an M x N tile lies in the registers of a CTA's threads, and the warp policies that say so.

use super::registers::{ColumnBlocks, ColumnsOf, Nested, Registers, RowBlocks, RowsOf};

/// How an M x N fragment lies over threads: a bijection between (thread, register) and (row, column).
#[diagnostic::on_unimplemented(message = "`{Self}` has no register layout for a fragment of {M} x {N}")]
pub trait FragmentLayout<const M: usize, const N: usize>: Copy + Default + 'static {
    /// A thread's registers.
    type Regs<T: Copy>: Registers<T>;
    /// One value for each row that a thread holds part of.
    type Rows<T: Copy>: Registers<T>;
    /// One value for each column that a thread holds part of, and perhaps room for more.
    type Cols<T: Copy>: Registers<T>;
    /// The threads that hold the fragment: 0 to `THREADS` of the CTA.
    const THREADS: u32;
    /// The lanes, by exclusive or with 1, 2, …, that hold the rest of a thread's rows.
    const ROW_LANES: u32;
    /// The warps that hold the rest of a row between them: as many neighbours, from a multiple of this on. Of layouts that are no
    /// gemm's accumulators.
    const ROW_WARPS: u32 = 1;
    /// Registers from a multiple of this on hold neighbours in a row, from a column that is a multiple too: what one
    /// access moves.
    const RUN: usize;
    /// Whether rows lie in lanes and registers as an accumulator's do: of every 8 columns each of four lanes side by side holds two, and the same
    /// two of the next 8 are 4 registers further.
    const QUADS: bool = false;

    /// The (row, column) in register `i` of `thread`.
    fn coord(thread: u32, i: usize) -> (u32, u32);
    /// How far register `i` is from register 0, in rows and columns: the same in every thread.
    #[inline(always)]
    fn offset(i: usize) -> (u32, u32) {
        let ((row0, col0), (row, col)) = (Self::coord(0, 0), Self::coord(0, i));
        (row - row0, col - col0)
    }
    /// The (thread, register) that holds (row, column): the inverse of [`coord`](Self::coord).
    fn owner(row: u32, col: u32) -> (u32, usize);
    /// Which of the thread's rows register `i` belongs to: an index into [`Rows`](Self::Rows).
    fn row(i: usize) -> usize;
    /// Which of the thread's columns register `i` belongs to: an index into [`Cols`](Self::Cols), consecutive over a run.
    fn col(i: usize) -> usize;
    /// The first register of the thread's `r`-th row.
    #[inline(always)]
    fn first(r: usize) -> usize {
        let mut i = 0;
        while Self::row(i) != r {
            i += 1;
        }
        i
    }
}

/// Warp policy of `wgmma`: a grid of `WM` x `WN` warpgroups, each of which owns an equal part of the
/// accumulator's rows and columns.
///
/// Also the layout of the accumulator (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16"): warp w
/// of a warpgroup holds rows 16w to 16w + 15 of every block of 64, lane l of it rows l / 4 and l / 4 + 8 of those,
/// columns 2 (l % 4) and the next in each 8.
#[derive(Clone, Copy, Debug, Default)]
pub struct Warpgroups<const WM: usize, const WN: usize>;

/// Each of `W` warpgroups owns `M / W` whole rows.
pub type FullRow<const W: usize> = Warpgroups<W, 1>;
/// Each of `W` warpgroups owns `N / W` whole columns.
pub type FullCol<const W: usize> = Warpgroups<1, W>;

/// Warp policy of `mma.sync`: a grid of `WM` x `WN` warps, each of which owns an equal part of the
/// accumulator's rows and columns.
///
/// Also the layout of the accumulator (PTX ISA, "Matrix Fragments for mma.m16n8k16"): lane l holds rows l / 4 and
/// l / 4 + 8 of every block of 16, columns 2 (l % 4) and the next in each 8.
#[derive(Clone, Copy, Debug, Default)]
pub struct Warps<const WM: usize, const WN: usize>;

/// The same policies over single warps, for `mma.sync`.
pub mod warp {
    use super::Warps;

    /// Each of `W` warps owns `M / W` whole rows.
    pub type FullRow<const W: usize> = Warps<W, 1>;
    /// Each of `W` warps owns `N / W` whole columns.
    pub type FullCol<const W: usize> = Warps<1, W>;
    /// `WM` x `WN` warps, chosen so that each owns about as many rows as columns.
    pub type Square<const WM: usize, const WN: usize> = Warps<WM, WN>;
}

/// What tells the two accumulator layouts apart: how many rows a unit's block has, and who is in a unit.
#[derive(Clone, Copy)]
struct Shape {
    /// Rows of a block: 16 a warp.
    unit: u32,
    /// Columns of one unit.
    width: u32,
    /// Rows of one unit.
    height: u32,
    /// Units along N.
    across: u32,
}

impl Shape {
    #[inline(always)]
    fn coord(self, thread: u32, i: u32) -> (u32, u32) {
        let (lane, warp) = (thread % 32, thread / 32 % (self.unit / 16));
        let unit = thread / (self.unit * 2);
        let (block, i) = (i / (self.width / 2), i % (self.width / 2));
        let row = block * self.unit + warp * 16 + lane / 4 + i / 2 % 2 * 8;
        let col = i / 4 * 8 + lane % 4 * 2 + i % 2;
        (unit / self.across * self.height + row, unit % self.across * self.width + col)
    }

    #[inline(always)]
    fn owner(self, row: u32, col: u32) -> (u32, usize) {
        let unit = row / self.height * self.across + col / self.width;
        let (row, col) = (row % self.height, col % self.width);
        let (block, row) = (row / self.unit, row % self.unit);
        let lane = row % 8 * 4 + col % 8 / 2;
        let i = block * (self.width / 2) + col / 8 * 4 + row / 8 % 2 * 2 + col % 2;
        (unit * self.unit * 2 + row / 16 * 32 + lane, i as usize)
    }

    #[inline(always)]
    fn row(self, i: usize) -> usize {
        i / (self.width as usize / 2) * 2 + i / 2 % 2
    }

    #[inline(always)]
    fn col(self, i: usize) -> usize {
        i % (self.width as usize / 2) / 4 * 2 + i % 2
    }
}

macro_rules! accumulator_layout {
    ($policy:ident, $unit:literal) => {
        impl<const M: usize, const N: usize, const WM: usize, const WN: usize> FragmentLayout<M, N>
            for $policy<WM, WN>
        where
            RowsOf<$unit>: RowBlocks<M, WM>,
            ColumnsOf: ColumnBlocks<N, WN>,
        {
            type Regs<T: Copy> = Nested<
                <RowsOf<$unit> as RowBlocks<M, WM>>::Of<<ColumnsOf as ColumnBlocks<N, WN>>::Of<T>>,
                <ColumnsOf as ColumnBlocks<N, WN>>::Of<T>,
            >;
            type Rows<T: Copy> = <RowsOf<$unit> as RowBlocks<M, WM>>::Rows<T>;
            type Cols<T: Copy> = <ColumnsOf as ColumnBlocks<N, WN>>::Of<T>;
            const THREADS: u32 = (WM * WN * $unit * 2) as u32;
            const ROW_LANES: u32 = 4;
            const RUN: usize = 2;
            const QUADS: bool = true;

            #[inline(always)]
            fn coord(thread: u32, i: usize) -> (u32, u32) {
                Self::shape::<M, N>().coord(thread, i as u32)
            }
            #[inline(always)]
            fn owner(row: u32, col: u32) -> (u32, usize) {
                Self::shape::<M, N>().owner(row, col)
            }
            #[inline(always)]
            fn row(i: usize) -> usize {
                Self::shape::<M, N>().row(i)
            }
            #[inline(always)]
            fn col(i: usize) -> usize {
                Self::shape::<M, N>().col(i)
            }
        }

        impl<const WM: usize, const WN: usize> $policy<WM, WN> {
            #[inline(always)]
            fn shape<const M: usize, const N: usize>() -> Shape {
                Shape { unit: $unit, width: (N / WN) as u32, height: (M / WM) as u32, across: WN as u32 }
            }
        }
    };
}
accumulator_layout!(Warpgroups, 64);
accumulator_layout!(Warps, 16);
