//! The swizzled layouts are the TMA unit's: PTX ISA, "Tensor swizzling modes".

use tilewright_device::layout::shared::{SharedLayout, Swizzle};

/// Address bits 4 and up are combined with this many bits from bit 7 on; the pattern is one of addresses, not of tiles.
fn swizzled(address: u32, bits: u32) -> u32 {
    address ^ (address >> 7 & ((1 << bits) - 1)) << 4
}

/// The tile as TMA writes it: box after box of `SPAN` bytes in width, the lines of each one after the other.
fn assert_as_tma_writes<const SPAN: usize>(bits: u32) {
    let span = SPAN as u32;
    for base in [0, 1024, 48 * 1024] {
        for rows in [8, 16, 24, 64, 128, 256] {
            for columns in 1..=4 {
                for (row, column, byte) in (0..rows)
                    .flat_map(|row| (0..columns).map(move |column| (row, column)))
                    .flat_map(|(row, column)| (0..span).map(move |byte| (row, column, byte)))
                {
                    let linear = base + column * rows * span + row * span + byte;
                    let offset = Swizzle::<SPAN>::offset(rows, columns * span, row, column * span + byte);
                    assert_eq!(
                        base + offset,
                        swizzled(linear, bits),
                        "{rows} lines, ({row}, {column}, {byte})"
                    );
                }
            }
        }
    }
}

#[test]
fn over_128_bytes() {
    assert_as_tma_writes::<128>(3);
}

#[test]
fn over_64_bytes() {
    assert_as_tma_writes::<64>(2);
}

#[test]
fn over_32_bytes() {
    assert_as_tma_writes::<32>(1);
}
