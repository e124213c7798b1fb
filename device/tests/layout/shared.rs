//! Every shared layout is a bijection of a tile's bytes that keeps 16-byte pieces whole.

use proptest::prelude::*;
use tilewright_device::layout::CoreMatrices;
use tilewright_device::layout::shared::{Linear, Padded, SharedLayout, Swizzle};

/// Bytes that copies and matrix loads move at once.
const PIECE: u32 = 16;

/// From every line and piece of a tile, the addresses that `moved` reaches are those of `offset`.
fn assert_moves<L: SharedLayout>(span: u32, rows: u32, line: u32) {
    const TILE: u32 = 3 * 1024;
    for (row, piece) in
        (0..rows).flat_map(|row| (0..line).step_by(PIECE as usize).map(move |piece| (row, piece)))
    {
        for down in (0..rows - row).step_by(8) {
            for along in
                (0..line - piece).step_by(PIECE as usize).filter(|along| along & piece & (span - 1) == 0)
            {
                let found = L::moved(rows, line, TILE + L::offset(rows, line, row, piece), down, along);
                assert_eq!(
                    found,
                    TILE + L::offset(rows, line, row + down, piece + along),
                    "{} of {rows} lines of {line} bytes: ({row}, {piece}) moved by ({down}, {along})",
                    std::any::type_name::<L>()
                );
            }
        }
    }
}

#[test]
fn moving_reaches_what_the_offset_says() {
    for (rows, line) in [(16, 128), (64, 128), (32, 384), (128, 256)] {
        assert_moves::<Swizzle<128>>(128, rows, line);
        assert_moves::<Swizzle<64>>(64, rows, line);
        assert_moves::<Swizzle<32>>(32, rows, line);
        assert_moves::<CoreMatrices>(32, rows, line);
        assert_moves::<Padded>(PIECE, rows, line);
        assert_moves::<Linear>(PIECE, rows, line);
    }
}

/// Every byte of the tile has a place of its own inside the tile's size, and `position` finds it back.
fn assert_bijective<L: SharedLayout>(rows: u32, line: u32) {
    let tile = format!("{} of {rows} lines of {line} bytes", std::any::type_name::<L>());
    let size = L::size(rows, line);
    let mut used = vec![false; size as usize];
    for row in 0..rows {
        for piece in (0..line).step_by(PIECE as usize) {
            let at = L::offset(rows, line, row, piece);
            assert_eq!(at % PIECE, 0, "{tile}: the piece at ({row}, {piece}) is not aligned");
            assert!(at + PIECE <= size, "{tile}: the piece at ({row}, {piece}) lies outside");
            for i in 0..PIECE {
                let byte = piece + i;
                assert_eq!(
                    L::offset(rows, line, row, byte),
                    at + i,
                    "{tile}: ({row}, {byte}) left its piece"
                );
                assert_eq!(L::position(rows, line, at + i), Some((row, byte)), "{tile}: offset {}", at + i);
                assert!(
                    !std::mem::replace(&mut used[(at + i) as usize], true),
                    "{tile}: {} taken twice",
                    at + i
                );
            }
        }
    }
    for offset in 0..size {
        let found = L::position(rows, line, offset).is_some();
        assert_eq!(found, used[offset as usize], "{tile}: offset {offset} is padding, or it is not");
    }
}

/// The layouts of an operand tile whose lines have `line` bytes.
fn assert_all_bijective(rows: u32, line: u32) {
    assert_bijective::<Padded>(rows, line);
    assert_bijective::<Linear>(rows, line);
    assert_bijective::<CoreMatrices>(rows.next_multiple_of(8), line.next_multiple_of(32));
    assert_bijective::<Swizzle<32>>(rows, line.next_multiple_of(32));
    assert_bijective::<Swizzle<64>>(rows, line.next_multiple_of(64));
    assert_bijective::<Swizzle<128>>(rows, line.next_multiple_of(128));
}

#[test]
fn tiles_of_the_kernels() {
    for extent in [8, 16, 24, 32, 64, 96, 128, 192, 256] {
        for depth in [16, 32, 64, 128, 192, 256] {
            assert_all_bijective(extent, depth * 2);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_tile(rows in 1u32..300, pieces in 1u32..40) {
        assert_all_bijective(rows, pieces * PIECE);
    }
}
