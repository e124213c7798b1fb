//! `ldmatrix` at the addresses that operands give brings the registers that `mma` takes: PTX ISA, "ldmatrix" and
//! "Matrix Fragments for mma.m16n8k16".

use super::Operand;
use crate::layout::{SharedLayout, Swizzle};

/// What a tile holds, as places in the matrix: (along M or N, along K).
struct Tile {
    k_major: bool,
    extent: u32,
    depth: u32,
}

impl Tile {
    fn element<L: SharedLayout>(&self, offset: u32) -> (u32, u32) {
        let (lines, along) = if self.k_major { (self.extent, self.depth) } else { (self.depth, self.extent) };
        assert!(offset < L::size(lines, along * 2), "{offset} is outside the tile");
        let (row, byte) = L::position(lines, along * 2, offset).unwrap();
        if self.k_major { (row, byte / 2) } else { (byte / 2, row) }
    }

    /// Element `e` of register `q` that `lane` receives from the operand's four matrices.
    fn received<L: SharedLayout>(
        &self,
        operand: &Operand<L>,
        (outer, k, by_k): (u32, u32, bool),
        (lane, q, e): (u32, u32, u32),
    ) -> (u32, u32) {
        let (line, element) =
            if self.k_major { (lane / 4, lane % 4 * 2 + e) } else { (lane % 4 * 2 + e, lane / 4) };
        let at = operand.line_of(q * 8 + line, outer, k, by_k);
        assert_eq!(at % 16, 0);
        self.element::<L>(at - operand.address + element * 2)
    }
}

/// Row and column of element `i` of operand A in a lane.
fn a_figure(lane: u32, i: u32) -> (u32, u32) {
    let row = lane / 4 + if i < 2 || (i == 4 || i == 5) { 0 } else { 8 };
    (row, lane % 4 * 2 + i % 2 + if i < 4 { 0 } else { 8 })
}

/// Row and column of element `i` of operand B, 16 x 8, in a lane.
fn b_figure(lane: u32, i: u32) -> (u32, u32) {
    (lane % 4 * 2 + i % 2 + if i < 2 { 0 } else { 8 }, lane / 4)
}

fn places() -> impl Iterator<Item = (u32, u32, u32)> {
    (0..32).flat_map(|lane| (0..4).flat_map(move |q| (0..2).map(move |e| (lane, q, e))))
}

fn assert_operand_a<const SPAN: usize>(k_major: bool, extent: u32, depth: u32, part: u32) {
    let tile = Tile { k_major, extent, depth };
    for corner in (0..extent).step_by(part as usize) {
        let operand = Operand::<Swizzle<SPAN>>::new(4096, k_major, (extent, depth), (corner, part));
        for outer in (0..part).step_by(16) {
            for k in (0..depth).step_by(16) {
                for (lane, q, e) in places() {
                    let (row, col) = a_figure(lane, q * 2 + e);
                    let found = tile.received(&operand, (outer, k, false), (lane, q, e));
                    assert_eq!(
                        found,
                        (corner + outer + row, k + col),
                        "lane {lane}, register {q}, element {e}"
                    );
                }
            }
        }
    }
}

fn assert_operand_b<const SPAN: usize>(k_major: bool, extent: u32, depth: u32, part: u32) {
    let tile = Tile { k_major, extent, depth };
    for corner in (0..extent).step_by(part as usize) {
        let operand = Operand::<Swizzle<SPAN>>::new(4096, k_major, (extent, depth), (corner, part));
        for outer in (0..part).step_by(16) {
            for k in (0..depth).step_by(16) {
                for (lane, q, e) in places() {
                    // Registers 0 and 1 are eight columns, 2 and 3 the next eight, if the part has them.
                    let (row, col) = b_figure(lane, q % 2 * 2 + e);
                    let col = if outer + 16 <= part { q / 2 * 8 + col } else { col };
                    let found = tile.received(&operand, (outer, k, true), (lane, q, e));
                    assert_eq!(
                        found,
                        (corner + outer + col, k + row),
                        "lane {lane}, register {q}, element {e}"
                    );
                }
            }
        }
    }
}

#[test]
fn operand_a_of_every_order() {
    for k_major in [true, false] {
        assert_operand_a::<32>(k_major, 64, 16, 16);
        assert_operand_a::<64>(k_major, 64, 32, 32);
        assert_operand_a::<128>(k_major, 128, 64, 64);
        assert_operand_a::<128>(k_major, 64, 192, 16);
    }
}

#[test]
fn operand_b_of_every_order() {
    for k_major in [true, false] {
        assert_operand_b::<32>(k_major, 64, 16, 16);
        assert_operand_b::<64>(k_major, 96, 32, 48);
        assert_operand_b::<128>(k_major, 256, 64, 64);
        assert_operand_b::<128>(k_major, 64, 128, 32);
    }
}

#[test]
fn widths_that_are_odd_multiples_of_eight_stay_inside() {
    assert_operand_b::<128>(true, 8, 64, 8);
    assert_operand_b::<64>(true, 24, 32, 24);
    assert_operand_b::<128>(true, 80, 128, 40);
    assert_operand_b::<32>(false, 48, 16, 24);
    assert_operand_b::<64>(false, 160, 32, 40);
}

#[test]
fn eight_columns_are_loaded_by_two_steps() {
    let tile = Tile { k_major: true, extent: 8, depth: 192 };
    let operand = Operand::<Swizzle<128>>::new(4096, true, (8, 192), (0, 8));
    for k in (0..192).step_by(32) {
        for (lane, q, e) in places() {
            let (row, col) = b_figure(lane, q % 2 * 2 + e);
            let at = operand.deep_line_of(q * 8 + lane / 4, k);
            let found = tile.element::<Swizzle<128>>(at - operand.address + lane % 4 * 4 + e * 2);
            assert_eq!(found, (col, k + q / 2 * 16 + row), "lane {lane}, register {q}, element {e}");
        }
    }
}
