//! Descriptors name the elements that the tile's layout put there: PTX ISA, "Asynchronous Warpgroup Level Matrix
//! Shared Memory Layout" and "Matrix Descriptor Format".

extern crate std;

use std::vec::Vec;

use super::{DEPTH, SharedOperand};
use crate::arch::wgmma::Descriptor;
use crate::layout::{SharedLayout, Swizzle};

/// The fields of a descriptor, lengths in bytes.
#[derive(Debug, PartialEq, Eq)]
struct Fields {
    start: u32,
    leading: u32,
    stride: u32,
    base_offset: u32,
    swizzle: u32,
    /// Bits without a meaning.
    rest: u64,
}

fn fields(descriptor: Descriptor) -> Fields {
    let bits = u64::from(descriptor.hi) << 32 | u64::from(descriptor.lo);
    let field = |from: u32, to: u32| (bits >> from & ((1 << (to - from + 1)) - 1)) as u32;
    Fields {
        start: field(0, 13) << 4,
        leading: field(16, 29) << 4,
        stride: field(32, 45) << 4,
        base_offset: field(49, 51),
        swizzle: match field(62, 63) {
            1 => 128,
            2 => 64,
            3 => 32,
            _ => 0,
        },
        rest: bits & (0b11 << 14 | 0b11 << 30 | 0b111 << 46 | 0x3ff << 52),
    }
}

fn operand(k_major: bool, swizzle: u32, extent: u32, depth: u32) -> SharedOperand {
    // The last tile that ends inside what an SM has: its address needs every bit.
    let address = 227 * 1024 - (extent * depth * 2).next_multiple_of(1024);
    SharedOperand { address, k_major, swizzle, extent, depth }
}

/// The address of element (`outer`, `k`) of the instruction's matrix, as the hardware finds it.
///
/// Eight lines of a swizzle's span are one after the other, the next eight a stride further. Where K is contiguous
/// the lines are rows of M or N, and 16 of K fit a span; else they are rows of K, and the spans of M or N are
/// a leading offset apart. The swizzle then permutes address bits.
fn element(fields: &Fields, k_major: bool, outer: u32, k: u32) -> u32 {
    let per_span = fields.swizzle / 2;
    let (line, along) = if k_major { (outer, k) } else { (k, outer) };
    let address = fields.start
        + line / 8 * fields.stride
        + line % 8 * fields.swizzle
        + if k_major { along * 2 } else { along / per_span * fields.leading + along % per_span * 2 };
    let mask = fields.swizzle / 16 - 1;
    address ^ (address >> 7 & mask) << 4
}

/// Where the tile's layout put element (`outer`, `k`) of the operand.
fn placed<L: SharedLayout>(operand: &SharedOperand, outer: u32, k: u32) -> u32 {
    let SharedOperand { address, k_major, extent, depth, .. } = *operand;
    let (lines, line, row, along) =
        if k_major { (extent, depth, outer, k) } else { (depth, extent, k, outer) };
    address + L::offset(lines, line * 2, row, along * 2)
}

/// Every matrix of `size` along M or N that instructions read of the tile holds the elements that it should.
fn assert_reads_the_tile<const SPAN: usize>(k_major: bool, extent: u32, depth: u32, size: u32) {
    let operand = operand(k_major, SPAN as u32, extent, depth);
    for corner in (0..extent).step_by(size as usize) {
        for first in (0..depth).step_by(DEPTH as usize) {
            let descriptor = operand.descriptor(corner, first);
            assert_eq!(operand.descriptor(0, 0).lo + operand.past_first(corner, first), descriptor.lo);
            let fields = fields(descriptor);
            assert_eq!((fields.swizzle, fields.base_offset, fields.rest), (SPAN as u32, 0, 0), "{fields:?}");
            for (outer, k) in (0..size).flat_map(|outer| (0..DEPTH).map(move |k| (outer, k))) {
                let expected = placed::<Swizzle<SPAN>>(&operand, corner + outer, first + k) & 0x3_ffff;
                let found = element(&fields, k_major, outer, k) & 0x3_ffff;
                assert_eq!(
                    found, expected,
                    "{extent} x {depth}, k_major {k_major}: element ({outer}, {k}) from ({corner}, {first})"
                );
            }
        }
    }
}

/// Extents along M or N, each with the sizes that instructions take of it.
fn divisions(multiple: u32) -> Vec<(u32, u32)> {
    let sizes = (1..=256 / multiple).map(|i| i * multiple);
    let whole = sizes.clone().map(|size| (size, size));
    let halves = sizes.map(|size| (2 * size, size)).filter(|(extent, _)| *extent <= 256);
    whole.chain(halves).chain([(256, 64), (128, 64), (192, 64)]).collect()
}

#[test]
fn k_major_tiles_are_read_right() {
    for (extent, size) in divisions(8) {
        assert_reads_the_tile::<32>(true, extent, 16, size);
        assert_reads_the_tile::<64>(true, extent, 32, size);
        assert_reads_the_tile::<128>(true, extent, 64, size);
        assert_reads_the_tile::<128>(true, extent, 192, size);
    }
}

#[test]
fn mn_major_tiles_are_read_right() {
    for (extent, size) in divisions(16) {
        assert_reads_the_tile::<32>(false, extent, 16, size);
    }
    for (extent, size) in divisions(32) {
        assert_reads_the_tile::<64>(false, extent, 32, size);
    }
    for (extent, size) in divisions(64) {
        assert_reads_the_tile::<128>(false, extent, 64, size);
        assert_reads_the_tile::<128>(false, extent, 256, size);
    }
}

#[test]
fn fields_of_a_k_major_tile() {
    let operand = SharedOperand { address: 0x1_2400, k_major: true, swizzle: 128, extent: 64, depth: 128 };
    // 8 lines of 128 bytes are 1024; the leading offset is not used under a swizzle.
    let at = |outer, k| fields(operand.descriptor(outer, k));
    let corner = at(0, 0);
    let expected =
        Fields { start: 0x1_2400, leading: 16, stride: 1024, base_offset: 0, swizzle: 128, rest: 0 };
    assert_eq!(corner, expected);
    assert_eq!(at(0, 16).start, 0x1_2400 + 32);
    assert_eq!(at(8, 0).start, 0x1_2400 + 1024);
    assert_eq!(at(0, 64).start, 0x1_2400 + 64 * 128, "the next span of K follows all lines");
}

#[test]
fn fields_of_an_mn_major_tile() {
    let operand = SharedOperand { address: 0x1_2400, k_major: false, swizzle: 64, extent: 128, depth: 32 };
    let at = |outer, k| fields(operand.descriptor(outer, k));
    // 32 lines of K, 64 bytes each, before the next 32 elements of M or N.
    let expected =
        Fields { start: 0x1_2400, leading: 32 * 64, stride: 512, base_offset: 0, swizzle: 64, rest: 0 };
    assert_eq!(at(0, 0), expected);
    assert_eq!(at(0, 16).start, 0x1_2400 + 16 * 64);
    assert_eq!(at(64, 0).start, 0x1_2400 + 2 * 32 * 64);
}
