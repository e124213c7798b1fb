//! Every shared layout is a bijection of a tile's bytes that keeps 16-byte pieces whole.

use proptest::prelude::*;
use tilewright_device::layout::shared::{Linear, Padded, SharedLayout, Swizzle};

/// Bytes that copies and matrix loads move at once.
const PIECE: u32 = 16;

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
