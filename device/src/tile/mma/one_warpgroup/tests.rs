//! The descriptor of a block of core matrices names the elements that the layout put there: PTX ISA, "Strides", "Matrix
//! Descriptor Format".

use crate::layout::{CoreMatrices, SharedLayout};

#[test]
fn descriptors_name_the_blocks_elements() {
    let (rows, depth, base) = (64, 80, 221184);
    for step in 0..depth / 16 {
        let descriptor = CoreMatrices::descriptor(base, rows, step);
        let field = |word: u32, from: u32| (word >> from & 0x3fff) << 4;
        let (start, leading, stride) =
            (field(descriptor.lo, 0), field(descriptor.lo, 16), field(descriptor.hi, 0));
        assert_eq!(descriptor.hi >> 30, 0, "no swizzle");
        for (row, k) in (0..rows).flat_map(|row| (0..16).map(move |k| (row, k))) {
            // Core matrices of 8 lines of 16 bytes: the next along K a leading offset on, the next eight lines a stride.
            let found = start + k / 8 * leading + row / 8 * stride + row % 8 * 16 + k % 8 * 2;
            let placed = base + CoreMatrices::offset(rows, 2 * depth, row, 2 * (16 * step + k));
            assert_eq!(found, placed, "block {step}, row {row}, k {k}");
        }
    }
}
