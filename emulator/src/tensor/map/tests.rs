//! Maps survive their encoding, and what no driver makes is refused by name.

use super::*;

fn map() -> TensorMap {
    TensorMap {
        data: DataType::Bf16,
        rank: 3,
        address: 0x7f12_3456_7890,
        shape: [1 << 32, 77, 5, 1, 1],
        strides: [1 << 33, (1 << 39) + 16, 0, 0],
        tile: [64, 256, 3, 0, 0],
        steps: [1, 8, 2, 0, 0],
        swizzle: Swizzle::B128,
        fill: Fill::Nan,
        im2col: None,
    }
}

#[test]
fn decode_gives_back_what_was_encoded() {
    assert_eq!(TensorMap::decode(&map().encode().expect("allowed")), Ok(map()));
    for data in DATA_TYPES {
        for swizzle in SWIZZLES {
            for rank in 1..=MAX_RANK {
                let shape = std::array::from_fn(|i| if i < rank { 100 + i as u64 } else { 1 });
                let strides = std::array::from_fn(|i| if i + 1 < rank { 16 * (i as u64 + 100) } else { 0 });
                let tile = |i| if i == 0 { 32 / data.bytes() as u32 } else { 7 + i as u32 };
                let tile = std::array::from_fn(|i| if i < rank { tile(i) } else { 0 });
                let steps = std::array::from_fn(|i| if i < rank { i as u32 + 1 } else { 0 });
                let fill = Fill::Zero;
                let map = TensorMap {
                    data,
                    rank,
                    address: 1 << 47,
                    shape,
                    strides,
                    tile,
                    steps,
                    swizzle,
                    fill,
                    im2col: None,
                };
                assert_eq!(TensorMap::decode(&map.encode().expect("allowed")), Ok(map));
            }
        }
    }
}

#[test]
fn sizes_of_boxes() {
    assert_eq!(map().line_bytes(), 128);
    assert_eq!(map().lines(), 32 * 2, "every eighth of 256, and every other of 3");
    assert_eq!(map().bytes(), 128 * 64);
    assert_eq!(TensorMap { rank: 1, ..map() }.bytes(), 128);
}

#[test]
fn what_a_driver_refuses() {
    let refused = |map: TensorMap| map.encode().expect_err("refused").to_string();
    assert!(refused(TensorMap { rank: 0, ..map() }).contains("rank was 0; allowed: 1 to 5"));
    assert!(refused(TensorMap { rank: 6, ..map() }).contains("rank was 6"));
    assert!(refused(TensorMap { address: 8, ..map() }).contains("address was 8; allowed: a multiple of 16"));
    assert!(refused(TensorMap { shape: [0, 1, 1, 1, 1], ..map() }).contains("extent was 0"));
    assert!(refused(TensorMap { strides: [8, 16, 0, 0], ..map() }).contains("stride was 8"));
    assert!(refused(TensorMap { strides: [1 << 40, 16, 0, 0], ..map() }).contains("stride was"));
    assert!(refused(TensorMap { tile: [64, 257, 1, 0, 0], ..map() }).contains("box was 257"));
    assert!(refused(TensorMap { tile: [4, 1, 1, 0, 0], ..map() }).contains("box was 8"));
    assert!(refused(TensorMap { tile: [128, 1, 1, 0, 0], ..map() }).contains("the swizzle's span"));
    assert!(refused(TensorMap { steps: [1, 9, 1, 0, 0], ..map() }).contains("element stride was 9"));
    assert!(refused(TensorMap { data: DataType::U16, ..map() }).contains("fill was Nan"));
}

#[test]
fn bytes_that_are_no_map() {
    assert!(
        TensorMap::decode(&[0; 16]).expect_err("refused").to_string().contains("which this crate encoded")
    );
    let mut words = map().encode().expect("allowed");
    words[2] |= 0xff00;
    assert!(TensorMap::decode(&words).is_err());
}

#[test]
fn swizzles_permute_pieces_of_a_span() {
    // PTX ISA, "Tensor swizzling modes": the row of the pattern, 128 bytes, is added to the piece's number.
    assert_eq!(Swizzle::B128.place(0x400 + 5 * 128 + 2 * 16 + 3), 0x400 + 5 * 128 + 7 * 16 + 3);
    assert_eq!(Swizzle::B64.place(3 * 128 + 4 * 16), 3 * 128 + 7 * 16);
    assert_eq!(Swizzle::B64.place(4 * 128 + 64), 4 * 128 + 64);
    assert_eq!(Swizzle::B32.place(128), 144);
    assert_eq!(Swizzle::None.place(0x3f0), 0x3f0);
}
