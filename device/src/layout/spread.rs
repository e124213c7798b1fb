//! The layout of row-wise work: a row lies over a part of a warp, over several warps, or over the whole CTA.

use super::fragment::FragmentLayout;

/// Layout of a tile whose rows are spread over `G` threads each, side by side over the `32 W` threads of `W` warps: `E` elements of one
/// row a thread, in pieces of `P` neighbours.
///
/// The tile has `32 W / G` rows of `G E` columns. Neighbouring threads hold neighbouring pieces, so that accesses of a warp are whole
/// lines of memory: of 16 bytes each where a piece is 16 bytes long, of single elements where `P` is 1.
///
/// Rows that lie over several warps are reduced by [`RowReducer`](crate::tile::RowReducer).
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread<const W: usize, const G: usize, const E: usize, const P: usize>;

impl<const M: usize, const N: usize, const W: usize, const G: usize, const E: usize, const P: usize>
    FragmentLayout<M, N> for Spread<W, G, E, P>
{
    type Regs<T: Copy> = [T; E];
    type Rows<T: Copy> = [T; 1];
    type Cols<T: Copy> = [T; E];
    const THREADS: u32 = {
        assert!(M * G == 32 * W, "spread rows: as many rows as groups of G threads, of 32 W in all");
        assert!(N == G * E, "spread rows: as many columns as G threads hold, of E each");
        assert!(
            G.is_power_of_two() && P.is_power_of_two() && E.is_multiple_of(P),
            "spread rows: whole pieces"
        );
        32 * W as u32
    };
    const ROW_LANES: u32 = if G < 32 { G as u32 } else { 32 };
    const ROW_WARPS: u32 = if G < 32 { 1 } else { G as u32 / 32 };
    const RUN: usize = P;

    #[inline(always)]
    fn coord(thread: u32, i: usize) -> (u32, u32) {
        let (row, place) = (thread / G as u32, thread % G as u32);
        (row, ((i / P * G) as u32 + place) * P as u32 + (i % P) as u32)
    }
    #[inline(always)]
    fn owner(row: u32, col: u32) -> (u32, usize) {
        let (piece, in_piece) = (col as usize / P, col as usize % P);
        (row * G as u32 + (piece % G) as u32, piece / G * P + in_piece)
    }
    #[inline(always)]
    fn row(_: usize) -> usize {
        0
    }
    #[inline(always)]
    fn col(i: usize) -> usize {
        i
    }
}
