//! Boxes against a copy of one element at a time.

use super::*;
use crate::tensor::map::{DataType, Swizzle};
use crate::tensor::memory::flat::Flat;
use crate::tensor::reduce::{Reduction, combine};

const BASE: u64 = 0x7000_0000;

/// A tensor of u16, element (x, y, z) of which is at x·2 + y·stride + z·stride.
fn map(shape: [u64; 3], tile: [u32; 3], swizzle: Swizzle) -> TensorMap {
    let row = (shape[0] * 2).next_multiple_of(16);
    TensorMap {
        data: DataType::U16,
        rank: 3,
        address: BASE,
        shape: [shape[0], shape[1], shape[2], 1, 1],
        strides: [row, row * shape[1] + 32, 0, 0],
        tile: [tile[0], tile[1], tile[2], 0, 0],
        steps: [1; 5],
        swizzle,
        fill: Fill::Zero,
        im2col: None,
    }
}

/// Global memory of the tensor's size, counted up in 16-bit words from 1.
fn tensor(map: &TensorMap) -> Flat {
    let words = map.strides[1] * map.shape[2] / 2;
    Flat::new(BASE, (1..=words as u16).flat_map(u16::to_le_bytes).collect())
}

/// The offset of an element in global memory, if it is inside.
fn inside(map: &TensorMap, at: [i64; 3]) -> Option<usize> {
    let ok = (0..3).all(|i| at[i] >= 0 && at[i] < map.shape[i] as i64);
    ok.then(|| (at[0] * 2 + at[1] * map.strides[0] as i64 + at[2] * map.strides[1] as i64) as usize)
}

/// Every element of the box: where it is in shared memory, and its coordinates.
fn elements(map: &TensorMap, coordinates: [i32; 3], to: u32) -> Vec<(usize, [i64; 3])> {
    let mut all = Vec::new();
    let counts: Vec<u32> =
        (0..3).map(|i| if i == 0 { map.tile[0] } else { map.tile[i].div_ceil(map.steps[i]) }).collect();
    let pitch = if map.swizzle == Swizzle::None { map.tile[0] * 2 } else { map.swizzle.span() };
    for z in 0..counts[2] {
        for y in 0..counts[1] {
            for x in 0..counts[0] {
                let shared = map.swizzle.place(to + (z * counts[1] + y) * pitch + x * 2);
                let at = [(x, 1, 0), (y, map.steps[1], 1), (z, map.steps[2], 2)];
                all.push((
                    shared as usize,
                    at.map(|(i, step, dimension)| i64::from(i * step) + i64::from(coordinates[dimension])),
                ));
            }
        }
    }
    all
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn assert_moves(map: &TensorMap, coordinates: [i32; 3]) {
    let to = 0x480;
    let mut global = tensor(map);
    let mut shared = Flat::new(0, vec![0xee; 0x8000]);
    load(map, &coordinates, to, &mut global, &mut shared).expect("inside");
    let elements = elements(map, coordinates, to);
    for (at, coordinate) in &elements {
        let expected = inside(map, *coordinate).map_or(0, |at| word(&global.bytes, at));
        assert_eq!(word(&shared.bytes, *at), expected, "{map:?} at {coordinates:?}: {coordinate:?}");
    }
    let untouched = shared.bytes.iter().filter(|byte| **byte == 0xee).count();
    assert!(untouched >= 0x8000 - map.bytes() as usize, "nothing else is written");
    let mut written: Vec<u64> = shared.accesses.iter().map(|(at, ..)| *at).collect();
    let mut listed: Vec<u64> = pieces(map, to).map(u64::from).collect();
    written.sort_unstable();
    listed.sort_unstable();
    assert_eq!(written, listed);

    // Back into another tensor: what is inside, the fill to the end of a row's last piece, and nothing else.
    let mut copy = Flat::new(BASE, vec![0xaa; global.bytes.len()]);
    let stored = store(map, &coordinates, to, &mut copy, &mut shared);
    if let Some(&negative) = coordinates.iter().find(|&&coordinate| coordinate < 0) {
        assert_eq!(stored, Err(TmaFault::Negative(negative)));
        return;
    }
    stored.expect("inside");
    let mut expected = vec![0xaa; global.bytes.len()];
    let padded =
        TensorMap { shape: [map.shape[0].next_multiple_of(8), map.shape[1], map.shape[2], 1, 1], ..*map };
    for (_, coordinate) in &elements {
        if let Some(at) = inside(&padded, *coordinate) {
            let value = inside(map, *coordinate).map_or(0, |at| word(&global.bytes, at));
            expected[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
    }
    assert_eq!(copy.bytes, expected, "{map:?} at {coordinates:?}");
}

#[test]
fn boxes_everywhere_in_every_swizzle() {
    for (swizzle, width) in [
        (Swizzle::None, 24),
        (Swizzle::B32, 16),
        (Swizzle::B64, 32),
        (Swizzle::B128, 64),
        (Swizzle::B128, 16),
    ] {
        let map = map([69, 13, 3], [width, 8, 2], swizzle);
        for coordinates in [
            [0, 0, 0],
            [8, 3, 1],
            [-8, 0, 0],
            [64, 9, 2],
            [0, -3, -1],
            [-104, 0, 0],
            [72, 0, 0],
            [0, 13, 0],
            [i32::MAX - 7, 0, 0],
            [0, i32::MIN, 0],
            [16, 12, 2],
        ] {
            assert_moves(&map, coordinates);
        }
    }
}

#[test]
fn steps_leave_elements_out() {
    let map = TensorMap { steps: [1, 3, 2, 1, 1], ..map([40, 20, 5], [16, 8, 4], Swizzle::B32) };
    assert_eq!(map.lines(), 3 * 2);
    for coordinates in [[0, 0, 0], [8, 15, 2], [-8, -4, -1]] {
        assert_moves(&map, coordinates);
    }
}

#[test]
fn boxes_larger_than_the_tensor() {
    assert_moves(&map([3, 2, 1], [32, 8, 4], Swizzle::B64), [0, 0, 0]);
    assert_moves(&map([3, 2, 1], [32, 8, 4], Swizzle::B64), [-8, -3, -2]);
}

#[test]
fn global_memory_is_not_touched_outside_the_tensor() {
    let map = map([10, 4, 2], [16, 4, 2], Swizzle::None);
    let mut global = tensor(&map);
    load(&map, &[-8, 2, 1], 0, &mut global, &mut Flat::new(0, vec![0; 4096])).expect("inside");
    let accesses: Vec<(u64, usize)> = global.accesses.iter().map(|(at, len, _)| (*at - BASE, *len)).collect();
    let row = |y: u64, z: u64| (y * map.strides[0] + z * map.strides[1], 16);
    assert_eq!(accesses, [row(2, 1), row(3, 1)]);
}

#[test]
fn nan_outside() {
    let map =
        TensorMap { data: DataType::Bf16, fill: Fill::Nan, ..map([8, 1, 1], [16, 1, 1], Swizzle::None) };
    let mut shared = Flat::new(0, vec![0; 64]);
    load(&map, &[0, 0, 0], 0, &mut tensor(&map), &mut shared).expect("inside");
    assert_eq!([7, 8, 15].map(|i| word(&shared.bytes, i * 2)), [8, 0x7ff7, 0x7ff7]);
}

#[test]
fn one_and_five_dimensions() {
    let line = TensorMap {
        rank: 1,
        data: DataType::U8,
        shape: [100, 1, 1, 1, 1],
        tile: [32, 0, 0, 0, 0],
        ..map([8, 1, 1], [8, 1, 1], Swizzle::None)
    };
    let mut global = Flat::new(BASE, (0..100).collect());
    let mut shared = Flat::new(0, vec![0xee; 128]);
    load(&line, &[80], 0, &mut global, &mut shared).expect("inside");
    assert_eq!(
        shared.bytes[..32],
        std::array::from_fn::<u8, 32, _>(|i| if i < 20 { 80 + i as u8 } else { 0 })
    );

    let five = TensorMap {
        rank: 5,
        data: DataType::F32,
        shape: [4, 2, 2, 2, 2],
        strides: [16, 32, 64, 128],
        tile: [4, 1, 2, 1, 2],
        ..line
    };
    let mut global = Flat::new(BASE, (0..64u32).flat_map(|i| (i as f32).to_le_bytes()).collect());
    load(&five, &[0, 1, 0, 1, 0], 0, &mut global, &mut shared).expect("inside");
    let first: Vec<f32> =
        (0..4).map(|i| f32::from_le_bytes(shared.bytes[16 * i..][..4].try_into().unwrap())).collect();
    let at = |y: u32, z: u32, u: u32, v: u32| (y * 4 + z * 8 + u * 16 + v * 32) as f32;
    assert_eq!(first, [at(1, 0, 1, 0), at(1, 1, 1, 0), at(1, 0, 1, 1), at(1, 1, 1, 1)]);
}

#[test]
fn reductions_add_to_what_is_there() {
    let rows = map([12, 2, 1], [16, 2, 1], Swizzle::B32);
    let map = TensorMap { data: DataType::F16, shape: [5, 2, 1, 1, 1], ..rows };
    let one = half::f16::ONE.to_le_bytes();
    let mut global = Flat::new(BASE, one.repeat(32));
    let mut shared = Flat::new(0, half::f16::from_f32(2.5).to_le_bytes().repeat(64));
    let add = combine(Reduction::Add, DataType::F16).expect("exists");
    reduce(&map, &[0, 0, 0], 0, add, &mut global, &mut shared).expect("inside");
    for (i, bytes) in global.bytes.chunks(2).enumerate() {
        // Of 12 elements of a row, the tensor has 5; they are moved by 8.
        let inside = i % 16 < 8;
        let value = half::f16::from_le_bytes([bytes[0], bytes[1]]).to_f32();
        assert_eq!(value, if inside { 3.5 } else { 1.0 }, "{i}");
    }
}

#[test]
fn faults() {
    let map = map([16, 8, 1], [16, 8, 1], Swizzle::None);
    let mut shared = Flat::new(0, vec![0; 128]);
    let mut global = tensor(&map);
    let at = |coordinates: &[i32], to, global: &mut Flat, shared: &mut Flat| {
        load(&map, coordinates, to, global, shared)
    };
    assert_eq!(at(&[0, 0], 0, &mut global, &mut shared), Err(TmaFault::Rank { coordinates: 2, map: 3 }));
    assert_eq!(at(&[0, 0, 0], 64, &mut global, &mut shared), Err(TmaFault::Misaligned(64)));
    assert_eq!(at(&[0, 0, 0], 0, &mut global, &mut shared), Err(TmaFault::Shared(128)));
    assert_eq!(
        at(&[-7, 0, 0], 0, &mut global, &mut shared),
        Err(TmaFault::Split { coordinate: -7, bytes: 2 })
    );
    let texts = [
        TmaFault::Misaligned(64),
        TmaFault::Shared("below"),
        TmaFault::<&str, _>::Rank { coordinates: 2, map: 3 },
    ];
    assert_eq!(
        texts.map(|fault| fault.to_string()),
        [
            "a box at shared address 0x40, which is not a multiple of 128",
            "below",
            "2 coordinates for a tensor map of 3 dimensions"
        ]
    );
    global.bytes.truncate(40);
    assert_eq!(at(&[0, 0, 0], 0, &mut global, &mut shared), Err(TmaFault::Global(BASE + 32)));
}
