//! The layout of tiles that no tensor core works on.

use super::fragment::FragmentLayout;
use super::registers::{Nested, Registers};

/// Layout of elementwise and row-wise work: `W` warps take rows in turn, and the lanes of a warp a row's pieces of 8
/// neighbouring elements.
///
/// A piece is one access of 16 bytes or two, and neighbouring lanes access neighbouring pieces. A row with fewer than 32
/// pieces takes a part of the lanes, the next rows take the rest. A warp holds its rows whole, so that they can be reduced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Striped<const W: usize>;

/// Elements of a piece.
const PIECE: u32 = 8;

/// Lanes that hold one row of `n` elements: as many as divide its pieces evenly.
const fn lanes(n: usize) -> u32 {
    let pieces = n as u32 / PIECE;
    let even = pieces & pieces.wrapping_neg();
    if even > 32 { 32 } else { even }
}

/// How a row of `N` elements lies over lanes.
#[diagnostic::on_unimplemented(
    message = "a row of {N} elements cannot be striped over lanes",
    note = "rows have 2, 3 or 5 times a power of two of elements, from 8 to 4096"
)]
pub trait StripedColumns<const N: usize> {
    /// The table of rows, which are as many at a time as a warp's lanes have room for.
    type Rows;
    /// A lane's part of a row.
    type Of<T: Copy>: Registers<T>;
}

/// How `M` rows are shared out among `W` warps.
#[diagnostic::on_unimplemented(
    message = "{M} rows cannot be striped over {W} warps",
    note = "each of 1, 2, 4, 8, 12 or 16 warps takes 1, 2, 4, 8 or 16 turns; at a turn it takes one row, or as many as 256 elements are"
)]
pub trait StripedRows<const M: usize, const W: usize> {
    /// One `X` a turn.
    type Of<X: Copy>: Registers<X>;
}

/// The table of columns.
pub struct Columns;

/// The table of rows for warps that take `AT_ONCE` of them at a time.
pub struct RowsBy<const AT_ONCE: usize>;

macro_rules! columns {
    ($($n:literal)*) => { $(
        #[diagnostic::do_not_recommend]
        impl StripedColumns<$n> for Columns {
            type Rows = RowsBy<{ 32 / lanes($n) as usize }>;
            type Of<T: Copy> = [T; $n / lanes($n) as usize];
        }
    )* };
}
columns! {
    8 16 32 64 128 256 512 1024 2048 4096
    24 48 96 192 384 768 1536 3072
    40 80 160 320 640 1280 2560
}

/// Every combination of rows at once, warps and turns.
macro_rules! rows {
    ([$($at_once:literal)*] $warps:tt $turns:tt) => { $( rows!(@warps $at_once $warps $turns); )* };
    (@warps $at_once:literal [$($w:literal)*] $turns:tt) => { $( rows!(@turns $at_once $w $turns); )* };
    (@turns $at_once:literal $w:literal [$($turns:literal)*]) => { $(
        #[diagnostic::do_not_recommend]
        impl StripedRows<{ $at_once * $w * $turns }, $w> for RowsBy<$at_once> {
            type Of<X: Copy> = [X; $turns];
        }
    )* };
}
rows!([1 2 4 8 16 32] [1 2 4 8 12 16] [1 2 4 8 16]);

type RowsOf<const N: usize> = <Columns as StripedColumns<N>>::Rows;

impl<const M: usize, const N: usize, const W: usize> FragmentLayout<M, N> for Striped<W>
where
    Columns: StripedColumns<N>,
    RowsOf<N>: StripedRows<M, W>,
{
    type Regs<T: Copy> = Nested<
        <RowsOf<N> as StripedRows<M, W>>::Of<<Columns as StripedColumns<N>>::Of<T>>,
        <Columns as StripedColumns<N>>::Of<T>,
    >;
    type Rows<T: Copy> = <RowsOf<N> as StripedRows<M, W>>::Of<T>;
    type Cols<T: Copy> = <Columns as StripedColumns<N>>::Of<T>;
    const THREADS: u32 = 32 * W as u32;
    const ROW_LANES: u32 = lanes(N);
    const RUN: usize = PIECE as usize;

    #[inline(always)]
    fn coord(thread: u32, i: usize) -> (u32, u32) {
        let (lanes, per_row) = (lanes(N), N as u32 / lanes(N));
        let (turn, i) = (i as u32 / per_row, i as u32 % per_row);
        let row = (turn * W as u32 + thread / 32) * (32 / lanes) + thread % 32 / lanes;
        (row, (i / PIECE * lanes + thread % lanes) * PIECE + i % PIECE)
    }
    #[inline(always)]
    fn owner(row: u32, col: u32) -> (u32, usize) {
        let (lanes, per_row) = (lanes(N), N as u32 / lanes(N));
        let (turn, in_turn) = (row / (32 / lanes) / W as u32, row % (32 / lanes * W as u32));
        let thread = in_turn * lanes + col / PIECE % lanes;
        (thread, (turn * per_row + col / PIECE / lanes * PIECE + col % PIECE) as usize)
    }
    #[inline(always)]
    fn row(i: usize) -> usize {
        i / (N / lanes(N) as usize)
    }
    #[inline(always)]
    fn col(i: usize) -> usize {
        i % (N / lanes(N) as usize)
    }
}
