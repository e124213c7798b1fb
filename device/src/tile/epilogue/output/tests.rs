//! Staging puts every element of a fragment where it belongs, 16-bit ones without bank conflicts.

extern crate std;

use std::vec::Vec;

use super::columns::{staged, staged_apart, staging_bytes};
use super::staging::{LINE, ROWS, WARP_ROWS, ends_where_it_begins, matrix_line, pair_place, staged_columns};
use crate::layout::{FragmentLayout, SharedLayout, Swizzle, Warpgroups, Warps};

/// Accesses that the memory takes for words of 4 bytes at these offsets, which lanes store side by side.
fn accesses(offsets: impl Iterator<Item = u32>, bytes: u32) -> u32 {
    let mut banks = [0; 32];
    for word in offsets.flat_map(|offset| offset / 4..(offset + bytes) / 4) {
        banks[word as usize % 32] += 1;
    }
    banks.into_iter().max().unwrap_or(0)
}

#[test]
fn chunks_cover_every_width() {
    for width in (8..=256).step_by(8) {
        for bytes in [2, 4] {
            let columns = staged_columns(width, bytes);
            assert_eq!(width as u32 % columns, 0, "{width} columns of {bytes} bytes in chunks of {columns}");
            assert!(columns * bytes as u32 <= LINE, "{columns} columns in a line");
            assert_eq!(columns % 8, 0, "whole 8 x 8 matrices");
        }
    }
    assert_eq!(staged_columns(256, 2), 64, "whole lines, which TMA stores");
    assert_eq!(staged_columns(96, 2), 32);
    assert_eq!(staged_columns(24, 2), 24);
}

#[test]
fn parts_of_columns_cover_every_width() {
    for width in (8..=256).step_by(8) {
        let columns = staged(width);
        assert_eq!(width as u32 % columns, 0, "{width} columns in parts of {columns}");
        assert_eq!(columns % 8, 0, "whole 8 x 8 matrices");
        assert!(staging_bytes(1, 64, width) <= 2 * ROWS * LINE, "{width} columns in two buffers");
    }
    assert_eq!([64, 96, 128, 224].map(staged), [64, 96, 64, 56]);
    assert_eq!([64, 96, 112, 144, 176, 208].map(staged_apart), [64, 96, 56, 72, 88, 104]);
}

/// A lane's registers go where the layout says that their elements are, in every chunk.
#[test]
fn matrices_are_staged_where_their_elements_belong() {
    const WIDTH: usize = 192;
    let columns = staged_columns(WIDTH, 2);
    for chunk in 0..WIDTH as u32 / columns {
        for (thread, piece) in
            (0..128).flat_map(|thread| (0..columns / 8).step_by(2).map(move |p| (thread, p)))
        {
            let (warp, lane) = (thread / 32, thread % 32);
            for matrix in 0..4 {
                // PTX ISA, "stmatrix": lane l holds elements 2 (l % 4) and the next of line l / 4.
                let (row, byte) = matrix_line(warp, matrix * 8 + lane / 4, piece);
                let (col, register) = (byte / 2 + lane % 4 * 2, chunk * columns / 2 + piece * 4 + matrix * 2);
                for e in 0..2 {
                    let owned = <Warpgroups<1, 1> as FragmentLayout<64, WIDTH>>::coord(
                        thread,
                        (register + e) as usize,
                    );
                    assert_eq!(
                        (row, chunk * columns + col + e),
                        owned,
                        "thread {thread}, register {}",
                        register + e
                    );
                }
            }
        }
    }
}

#[test]
fn pairs_are_staged_where_their_elements_belong() {
    const WIDTH: usize = 64;
    for bytes in [2, 4] {
        let columns = staged_columns(WIDTH, bytes as usize);
        for (lane, chunk) in
            (0..32).flat_map(|lane| (0..WIDTH as u32 / columns).map(move |chunk| (lane, chunk)))
        {
            for pair in 0..columns / 4 {
                let (row, byte) = pair_place(lane, pair, bytes);
                assert!(row < WARP_ROWS && byte + 2 * bytes <= LINE);
                for e in 0..2 {
                    let register = chunk * columns / 2 + pair * 2 + e;
                    let owned = <Warps<1, 1> as FragmentLayout<16, WIDTH>>::coord(lane, register as usize);
                    assert_eq!(
                        (row, chunk * columns + byte / bytes + e),
                        owned,
                        "lane {lane}, register {register}"
                    );
                }
            }
        }
    }
}

#[test]
fn stmatrix_has_no_bank_conflicts() {
    for (warp, piece) in (0..4).flat_map(|warp| (0..LINE / 16).step_by(2).map(move |piece| (warp, piece))) {
        for matrix in 0..4 {
            let lines = (0..8).map(|line| matrix_line(warp, matrix * 8 + line, piece));
            let offsets = lines.map(|(row, byte)| Swizzle::<128>::offset(ROWS, LINE, row, byte));
            assert_eq!(accesses(offsets, 16), 1, "warp {warp}, piece {piece}, matrix {matrix}");
        }
    }
}

/// Where `lanes` store pair `pair` of elements of `bytes` bytes.
fn pair_offsets(lanes: std::ops::Range<u32>, pair: u32, bytes: u32) -> Vec<u32> {
    let place = |lane| pair_place(lane, pair, bytes);
    lanes.map(place).map(|(row, byte)| Swizzle::<128>::offset(WARP_ROWS, LINE, row, byte)).collect()
}

#[test]
fn pairs_of_16_bits_have_no_bank_conflicts() {
    for pair in 0..LINE / 2 / 4 {
        assert_eq!(accesses(pair_offsets(0..32, pair, 2).into_iter(), 4), 1, "pair {pair}");
    }
}

/// Four rows of a half-warp meet in two pieces each, and the swizzle that TMA reads sets only pairs of rows apart.
#[test]
fn pairs_of_32_bits_take_two_accesses_a_half_warp() {
    for (pair, half) in (0..LINE / 4 / 4).flat_map(|pair| [(pair, 0), (pair, 16)]) {
        assert_eq!(accesses(pair_offsets(half..half + 16, pair, 4).into_iter(), 8), 2, "pair {pair}");
    }
}

/// No step of any of several tiles fills a buffer that a store before it may still be reading.
#[test]
fn buffers_are_filled_behind_their_stores() {
    for steps in 1..=6 {
        let buffers = if steps == 1 { 1 } else { 2 };
        let mut reading = Vec::new();
        for step in (0..3).flat_map(|_| 0..steps) {
            if step == 0 && ends_where_it_begins(steps) {
                reading.clear();
            }
            reading.drain(..(reading.len() + 1).saturating_sub(buffers));
            assert!(!reading.contains(&(step % buffers as u32)), "step {step} of {steps} fills what is read");
            reading.push(step % buffers as u32);
        }
    }
}
