//! Accesses of shared memory hold the elements that they are for, and are aligned.

extern crate std;

use super::{gather, per_access, place, scatter};
use crate::layout::{
    ColMajor, Element, FragmentLayout, FullRow, Linear, Major, Padded, Registers, RowMajor, SharedLayout,
    Striped, Swizzle, warp,
};
use crate::tile::Shared;
use half::f16;

fn assert_placed<
    T: Element,
    S: SharedLayout,
    O: Major,
    L: FragmentLayout<M, N>,
    const M: usize,
    const N: usize,
>() {
    let name = std::any::type_name::<(T, S, O, L)>();
    let (lines, line) = (Shared::<T, M, N, S, O>::LINES, Shared::<T, M, N, S, O>::LINE);
    for thread in 0..L::THREADS {
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let (count, offset) = place::<T, S, O, L, M, N>(thread, i);
            assert_eq!(offset as usize % (count * T::BYTES), 0, "{name}: register {i} of thread {thread}");
            for e in 0..count {
                let (row, col) = L::coord(thread, i + e);
                let (across, along) = if O::ROW_MAJOR { (row, col) } else { (col, row) };
                let expected = S::offset(lines, line, across, along * T::BYTES as u32);
                let found = offset + (e * T::BYTES) as u32;
                assert_eq!(found, expected, "{name}: register {i} + {e} of thread {thread}");
            }
            i += count;
        }
        assert_eq!(i, L::Regs::<T>::LEN, "{name}: accesses end with the registers");
    }
}

fn assert_placed_everywhere<T: Element, L: FragmentLayout<64, 128>>() {
    assert_placed::<T, Swizzle<128>, RowMajor, L, 64, 128>();
    assert_placed::<T, Swizzle<128>, ColMajor, L, 64, 128>();
    assert_placed::<T, Swizzle<64>, RowMajor, L, 64, 128>();
    assert_placed::<T, Swizzle<32>, ColMajor, L, 64, 128>();
    assert_placed::<T, Padded, RowMajor, L, 64, 128>();
    assert_placed::<T, Padded, ColMajor, L, 64, 128>();
    assert_placed::<T, Linear, RowMajor, L, 64, 128>();
}

#[test]
fn accesses_are_the_elements_places() {
    assert_placed_everywhere::<f16, FullRow<1>>();
    assert_placed_everywhere::<f32, FullRow<1>>();
    assert_placed_everywhere::<f16, warp::Square<2, 2>>();
    assert_placed_everywhere::<f32, warp::FullCol<4>>();
    assert_placed_everywhere::<f16, Striped<4>>();
    assert_placed_everywhere::<f32, Striped<8>>();
}

#[test]
fn accesses_are_as_wide_as_runs_and_16_bytes_allow() {
    assert_eq!([per_access::<f16>(8), per_access::<f32>(8)], [8, 4]);
    assert_eq!([per_access::<f16>(2), per_access::<f32>(2)], [2, 2]);
    assert_eq!(per_access::<f32>(1), 1);
}

#[test]
fn registers_go_to_memory_and_back() {
    let halves: [f16; 16] = std::array::from_fn(|i| f16::from_bits(0x8000 + i as u16));
    let words = gather(&halves, 8, 8);
    assert_eq!(words[0], 0x8009_8008);
    let mut back = [f16::ZERO; 16];
    scatter(words, &mut back, 8, 8);
    assert_eq!(back[8..], halves[8..]);
    assert_eq!(back[..8], [f16::ZERO; 8]);

    let singles = [1.5f32, -2.0, f32::NEG_INFINITY, 0.0];
    let mut back = [0.0; 4];
    scatter(gather(&singles, 0, 4), &mut back, 0, 4);
    assert_eq!(back, singles);
    assert_eq!(gather(&halves, 3, 1), [0x8003, 0, 0, 0]);
}
