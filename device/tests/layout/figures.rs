//! Fragment layouts are what the instructions take: the PTX ISA's figures, spelled out anew.

use tilewright_device::layout::{FragmentLayout, FullRow, warp};

use crate::table::layouts;

/// PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16", matrix D: row and column of d`i` in a warpgroup.
fn wgmma_d(thread: u32, i: u32) -> (u32, u32) {
    let (warp, lane) = (thread / 32, thread % 32);
    let row = warp * 16 + lane / 4 + if i % 4 < 2 { 0 } else { 8 };
    (row, i / 4 * 8 + lane % 4 * 2 + (i & 1))
}

/// PTX ISA, "Matrix Fragments for mma.m16n8k16", matrix C or D of f32: row and column of c`i` in a warp.
fn mma_c(lane: u32, i: u32) -> (u32, u32) {
    let (group, thread_in_group) = (lane >> 2, lane % 4);
    let row = if i < 2 { group } else { group + 8 };
    (row, thread_in_group * 2 + (i & 1))
}

/// PTX ISA, "Matrix Fragments for mma.m16n8k16", matrix A of 16-bit elements: row and column of a`i` in a warp.
fn mma_a(lane: u32, i: u32) -> (u32, u32) {
    let (group, thread_in_group) = (lane >> 2, lane % 4);
    let row = if i < 2 || (4..6).contains(&i) { group } else { group + 8 };
    let col = thread_in_group * 2 + (i & 1);
    (row, if i >= 4 { col + 8 } else { col })
}

#[test]
fn accumulators_are_the_instructions() {
    for layout in layouts() {
        let (units_m, units_n) = layout.units;
        let (height, width) = (layout.shape.0 / units_m, layout.shape.1 / units_n);
        let threads = layout.block * 2;
        for (thread, i) in layout.places() {
            let (unit, in_unit) = (thread / threads, thread % threads);
            // A unit's registers: the instruction's for its first block of rows, then for the next.
            let per_block = width / 2;
            let (block, i) = (i as u32 / per_block, i as u32 % per_block);
            let (row, col) = if layout.block == 64 {
                wgmma_d(in_unit, i)
            } else {
                // Instructions side by side, 8 columns and 4 registers each.
                let (row, col) = mma_c(in_unit, i % 4);
                (row, i / 4 * 8 + col)
            };
            let corner = (unit / units_n * height, unit % units_n * width);
            let expected = (corner.0 + block * layout.block + row, corner.1 + col);
            let found = (layout.coord)(thread, (block * per_block + i) as usize);
            assert_eq!(found, expected, "{}: thread {thread}, block {block}, register {i}", layout.name);
        }
    }
}

/// The premise of chained gemms: an accumulator's registers, rounded to 16 bits and packed in pairs, are operand A of
/// the next instruction, eight elements for each 16 of depth.
fn assert_accumulator_is_operand<L: FragmentLayout<M, K>, const M: usize, const K: usize>() {
    for thread in 0..L::THREADS {
        for depth in 0..K / 16 {
            for i in 0..8 {
                let (row, col) = mma_a(thread % 32, i);
                let expected = (thread / 32 * 16 + row, depth as u32 * 16 + col);
                assert_eq!(L::coord(thread, depth * 8 + i as usize), expected, "thread {thread}, a{i}");
            }
        }
    }
}

#[test]
fn accumulators_serve_as_operand_a() {
    assert_accumulator_is_operand::<FullRow<2>, 128, 64>();
    assert_accumulator_is_operand::<FullRow<1>, 64, 256>();
    assert_accumulator_is_operand::<warp::FullRow<4>, 64, 128>();
    assert_accumulator_is_operand::<warp::FullRow<1>, 16, 16>();
}
