//! A grid of threads, each of which owns a part of the tile: the layout and policy of products without tensor cores.

use super::fragment::FragmentLayout;
use super::registers::{Nested, Registers};

/// A grid of `TY` x `TX` threads that divide a tile among themselves: thread (y, x) holds rows y, y + TY, y + 2 TY, … and of
/// each row pieces of `RUN` neighbouring columns, x's among those of the row's other threads.
///
/// As a policy of [`gemm`](crate::tile::gemm) it multiplies f32 by ordinary instructions, exactly: each thread adds up the outer products
/// of its rows and columns. With 8 x 8 of them a value that is read from shared memory is used eight times; with
/// `RUN` = 4 one access moves four.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threads<const TY: usize, const TX: usize, const RUN: usize = 1>;

/// How `EXTENT` rows or columns are shared out among `T` threads.
#[diagnostic::on_unimplemented(
    message = "{EXTENT} rows or columns cannot be shared out among {T} threads",
    note = "each of a power of two of threads, up to 256, takes 1, 2, 4, 8 or 16"
)]
pub trait SharedOut<const EXTENT: usize, const T: usize> {
    /// One `X` for each that a thread takes.
    type Of<X: Copy>: Registers<X>;
}

/// The table of rows and columns.
pub struct Each;

macro_rules! shared_out {
    ([$($threads:literal)*] $each:tt) => { $( shared_out!(@ $threads $each); )* };
    (@ $threads:literal [$($each:literal)*]) => { $(
        #[diagnostic::do_not_recommend]
        impl SharedOut<{ $threads * $each }, $threads> for Each {
            type Of<X: Copy> = [X; $each];
        }
    )* };
}
shared_out!([1 2 4 8 16 32 64 128 256] [1 2 4 8 16]);

impl<const TY: usize, const TX: usize, const RUN: usize> Threads<TY, TX, RUN> {
    /// Row and column of this thread in the grid.
    #[inline(always)]
    pub(crate) fn place(thread: u32) -> (u32, u32) {
        (thread / TX as u32, thread % TX as u32)
    }
    /// The column of the tile that is the `c`-th of those of grid column `x`.
    #[inline(always)]
    pub(crate) fn column(x: u32, c: u32) -> u32 {
        (c / RUN as u32 * TX as u32 + x) * RUN as u32 + c % RUN as u32
    }
}

impl<const M: usize, const N: usize, const TY: usize, const TX: usize, const RUN: usize> FragmentLayout<M, N>
    for Threads<TY, TX, RUN>
where
    Each: SharedOut<M, TY> + SharedOut<N, TX>,
{
    type Regs<T: Copy> = Nested<
        <Each as SharedOut<M, TY>>::Of<<Each as SharedOut<N, TX>>::Of<T>>,
        <Each as SharedOut<N, TX>>::Of<T>,
    >;
    type Rows<T: Copy> = <Each as SharedOut<M, TY>>::Of<T>;
    type Cols<T: Copy> = <Each as SharedOut<N, TX>>::Of<T>;
    const THREADS: u32 = {
        assert!((N / TX).is_multiple_of(RUN), "a thread's columns are whole runs");
        assert!(
            TX <= 32 && (TY * TX).is_multiple_of(32),
            "a row of the grid lies in a warp, and all warps are full"
        );
        (TY * TX) as u32
    };
    const ROW_LANES: u32 = TX as u32;
    const RUN: usize = RUN;

    #[inline(always)]
    fn coord(thread: u32, i: usize) -> (u32, u32) {
        let ((y, x), (r, c)) = (Self::place(thread), (i / (N / TX), i % (N / TX)));
        (r as u32 * TY as u32 + y, Self::column(x, c as u32))
    }
    #[inline(always)]
    fn owner(row: u32, col: u32) -> (u32, usize) {
        let (y, r) = (row % TY as u32, row / TY as u32);
        let (run, x) = (col / RUN as u32 / TX as u32, col / RUN as u32 % TX as u32);
        (y * TX as u32 + x, r as usize * (N / TX) + run as usize * RUN + col as usize % RUN)
    }
    #[inline(always)]
    fn row(i: usize) -> usize {
        i / (N / TX)
    }
    #[inline(always)]
    fn col(i: usize) -> usize {
        i % (N / TX)
    }
}
