//! Shared memory has 32 banks of 4 bytes: a matrix is read at once where its eight rows lie in different ones.

use tilewright_device::layout::shared::{Linear, Padded, SharedLayout, Swizzle};

/// How often the memory is accessed for pieces of 16 bytes at these offsets: the most words that one bank serves.
fn accesses(offsets: impl IntoIterator<Item = u32>) -> u32 {
    let mut words = [0; 32];
    for offset in offsets {
        for word in offset / 4..offset / 4 + 4 {
            words[word as usize % 32] += 1;
        }
    }
    words.into_iter().max().unwrap_or(0)
}

/// The most accesses that `ldmatrix` needs for one 8 x 8 matrix of the tile: eight lines from a multiple of eight,
/// and 16 bytes of each. Along the lines lies K of an operand, or M or N: the matrices are the same.
fn worst_matrix<L: SharedLayout>(rows: u32, line: u32) -> u32 {
    let matrices = (0..rows).step_by(8).flat_map(|row| (0..line).step_by(16).map(move |byte| (row, byte)));
    let offsets = |(row, byte)| (0..8).map(move |i| L::offset(rows, line, row + i, byte));
    matrices.map(|matrix| accesses(offsets(matrix))).max().unwrap_or(0)
}

#[test]
fn swizzled_matrices_are_read_at_once() {
    for rows in [8, 16, 64, 96, 256] {
        for columns in 1..=4 {
            assert_eq!(worst_matrix::<Swizzle<128>>(rows, columns * 128), 1);
            assert_eq!(worst_matrix::<Swizzle<64>>(rows, columns * 64), 1);
            assert_eq!(worst_matrix::<Swizzle<32>>(rows, columns * 32), 1);
        }
    }
}

#[test]
fn padding_serves_lines_of_an_even_number_of_pieces() {
    for line in (32..=1024).step_by(32) {
        assert_eq!(worst_matrix::<Padded>(64, line), 1, "lines of {line} bytes");
    }
}

#[test]
fn without_either_a_bank_serves_all_eight_rows() {
    assert_eq!(worst_matrix::<Linear>(64, 128), 8);
    assert_eq!(worst_matrix::<Linear>(64, 32), 2);
}
