//! The packed order of narrow weights: nothing is lost, and it is the one that docs/quantized-weights.md specifies.

use tilewright_device::layout::packed::{DEPTH, LANES, Order, Packed, ROWS, VALUES};

const BITS: [u32; 4] = [1, 2, 4, 8];

fn layouts() -> impl Iterator<Item = Packed> {
    let all = [Order::B16, Order::B8].into_iter().flat_map(|order| BITS.map(|bits| (order, bits)));
    all.map(|(order, bits)| Packed::new(order, bits).unwrap())
}

/// Row, k, and bit of the lane's bytes, as the specification spells them for 16-bit operands: element `e` of register `r` of
/// step `s`.
fn specified_b16(bits: u32, lane: u32, s: u32, r: u32, e: u32) -> (u32, u32, u32) {
    let row = 16 * (lane / 32) + (lane % 32) / 4 + 8 * (r & 1);
    let k = 16 * s + 2 * (lane % 4) + e + 8 * (r >> 1);
    let (word, bit) = match bits {
        1 => (0, 4 * s + r + 16 * e),
        2 => (s / 2, 2 * (4 * (s & 1) + r) + 16 * e),
        4 => (s, 4 * r + 16 * e),
        8 => (2 * s + (r >> 1), 8 * (2 * (r & 1) + e)),
        _ => unreachable!(),
    };
    (row, k, 32 * word + bit)
}

/// The same for 8-bit operands.
fn specified_b8(bits: u32, lane: u32, s: u32, r: u32, e: u32) -> (u32, u32, u32) {
    let row = 16 * (lane / 32) + (lane % 32) / 4 + 8 * (r & 1);
    let k = 32 * s + 4 * (lane % 4) + e + 16 * (r >> 1);
    let (word, bit) = match bits {
        1 => (0, 8 * e + 4 * s + r),
        2 => (s, 8 * e + 2 * r),
        4 => (2 * s + (r >> 1), 8 * e + 4 * (r & 1)),
        8 => (4 * s + r, 8 * e),
        _ => unreachable!(),
    };
    (row, k, 32 * word + bit)
}

#[test]
fn every_value_stands_where_the_specification_says() {
    for packed in layouts() {
        let (bits, order) = (packed.bits(), packed.order());
        let (steps, elements) = if order == Order::B16 { (4, 2) } else { (2, 4) };
        assert_eq!((order.steps(), order.elements()), (steps, elements));
        for lane in 0..LANES {
            for (s, r) in (0..steps).flat_map(|s| (0..4).map(move |r| (s, r))) {
                for e in 0..elements {
                    let specified = if order == Order::B16 { specified_b16 } else { specified_b8 };
                    let (row, k, bit) = specified(bits, lane, s, r, e);
                    // One access of 4 times the width, or two of 16 bytes, each of all lanes.
                    let place = match bits {
                        8 => bit / 128 * (128 * 128) + lane * 128 + bit % 128,
                        _ => lane * 32 * bits + bit,
                    };
                    let i = (s * 4 + r) * elements + e;
                    let at = format!("{packed:?}: lane {lane}, step {s}, register {r}, element {e}");
                    assert_eq!(order.coord(lane, i), (row, k), "{at}");
                    assert_eq!(packed.bit(i), bit, "{at}");
                    assert_eq!(packed.offset(row, k), place, "{at}");
                }
            }
        }
    }
}

#[test]
fn operand_order_is_a_bijection() {
    for order in [Order::B16, Order::B8] {
        for lane in 0..LANES {
            for i in 0..VALUES {
                let (row, k) = order.coord(lane, i);
                assert!(row < ROWS && k < DEPTH, "{order:?}: ({lane}, {i}) holds ({row}, {k})");
                assert_eq!(order.owner(row, k), (lane, i), "{order:?}: ({row}, {k})");
            }
        }
    }
}

#[test]
fn blocks_hold_every_value_once_and_nothing_else() {
    for packed in layouts() {
        let bits = packed.bits();
        assert_eq!(packed.block_bytes() * 8, ROWS * DEPTH * bits, "{packed:?}");
        // Each place that a value can stand at leads to a (row, k) of its own.
        for offset in (0..packed.block_bytes() * 8).step_by(bits as usize) {
            let (row, k) = packed.position(offset);
            assert!(row < ROWS && k < DEPTH, "{packed:?}: ({row}, {k}) at {offset}");
            assert_eq!(packed.offset(row, k), offset, "{packed:?}: ({row}, {k})");
        }
    }
}

#[test]
fn lanes_read_neighbouring_aligned_pieces() {
    for packed in layouts() {
        let access = packed.access_bytes() * 8;
        assert_eq!(access, 32 * packed.bits().min(4), "{packed:?}");
        for lane in 0..LANES {
            for bit in 0..packed.lane_bytes() * 8 {
                let place = packed.place(lane, bit);
                assert_eq!(packed.lane(place), (lane, bit), "{packed:?}");
                assert_eq!(place / access % LANES, lane, "{packed:?}: bit {bit}");
            }
        }
    }
}

/// What unpacking by one mask relies on: the values of a register stand as far apart as its elements, each below them all.
#[test]
fn registers_come_out_of_a_word_whole() {
    for packed in layouts() {
        let (elements, bits) = (packed.order().elements(), packed.bits());
        if (packed.order(), bits) == (Order::B16, 8) {
            continue;
        }
        for register in 0..VALUES / elements {
            let first = packed.bit(register * elements);
            assert!(first % 32 + bits <= 32 / elements, "{packed:?}: register {register}");
            for e in 0..elements {
                let bit = packed.bit(register * elements + e);
                assert_eq!(bit, first + e * 32 / elements, "{packed:?}: register {register}");
            }
        }
    }
}

#[test]
fn other_widths_have_no_layout() {
    for bits in (0..64).filter(|bits| !BITS.contains(bits)) {
        assert_eq!(Packed::new(Order::B16, bits), None);
        assert_eq!(Packed::new(Order::B8, bits), None);
    }
}
