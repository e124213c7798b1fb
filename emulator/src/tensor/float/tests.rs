//! Against the `half` crate, and against a search among all numbers of a format.

use super::*;

/// All finite numbers that are not negative, each with its bits.
fn numbers(format: Format) -> Vec<(f64, u32)> {
    (0..=format.max()).map(|bits| (f64::from(format.decode(bits)), bits)).collect()
}

/// What rounding means: a choice between the two neighbours of `x`, which is not negative.
fn search(numbers: &[(f64, u32)], format: Format, x: f64, rounding: Rounding) -> u32 {
    let above = numbers.partition_point(|(value, _)| *value < x);
    let Some(&(high, high_bits)) = numbers.get(above) else {
        // Greater than all: the next number would be a step further.
        let (max, step) = (numbers[above - 1].0, numbers[above - 1].0 - numbers[above - 2].0);
        let overflows = match rounding {
            Rounding::Nearest if format.max().is_multiple_of(2) => x > max + step / 2.0,
            Rounding::Nearest | Rounding::Away => x >= max + step / 2.0,
            Rounding::Up => true,
            Rounding::Zero | Rounding::Down => false,
        };
        return if overflows { format.infinity() } else { format.max() };
    };
    if high == x {
        return high_bits;
    }
    let (low, low_bits) = numbers[above - 1];
    let (to_low, to_high) = (x - low, high - x);
    let up = match rounding {
        Rounding::Nearest => to_high < to_low || to_high == to_low && high_bits % 2 == 0,
        Rounding::Away => to_high <= to_low,
        Rounding::Up => true,
        Rounding::Zero | Rounding::Down => false,
    };
    if up { high_bits } else { low_bits }
}

const ROUNDINGS: [Rounding; 5] =
    [Rounding::Nearest, Rounding::Away, Rounding::Zero, Rounding::Down, Rounding::Up];

/// The rounding of a magnitude that has the effect of `rounding` on a negative number.
fn mirrored(rounding: Rounding) -> Rounding {
    match rounding {
        Rounding::Down => Rounding::Up,
        Rounding::Up => Rounding::Down,
        other => other,
    }
}

fn assert_rounds(format: Format) {
    let numbers = numbers(format);
    let mut samples = Vec::new();
    for pair in numbers.windows(2) {
        let middle = (pair[0].0 + pair[1].0) / 2.0;
        samples.extend([
            pair[0].0,
            pair[0].0.next_up(),
            middle.next_down(),
            middle,
            middle.next_up(),
            pair[1].0.next_down(),
        ]);
    }
    let max = f64::from(format.decode(format.max()));
    samples.extend([
        max,
        max.next_up(),
        max * 1.01,
        max * 1.04,
        max * 1.13,
        max * 2.0,
        max * 1e6,
        1e300,
        5e-324,
        1e-300,
    ]);
    let (below, step) = (numbers[numbers.len() - 2].0, max - numbers[numbers.len() - 2].0);
    samples.extend([below, max + step / 2.0, (max + step / 2.0).next_down(), max + step]);
    for x in samples {
        for rounding in ROUNDINGS {
            let expected = search(&numbers, format, x, rounding);
            assert_eq!(format.encode(x, rounding, false), expected, "{x:e} {rounding:?} {format:?}");
            let negative = format.encode(-x, mirrored(rounding), false);
            assert_eq!(negative, expected | format.sign(), "{:e} {rounding:?} {format:?}", -x);
            let saturated = format.encode(x, rounding, true);
            assert_eq!(saturated, expected.min(format.max()), "{x:e} {rounding:?} {format:?}");
        }
    }
}

#[test]
fn every_gap_rounds_as_it_should() {
    for format in [Format::E4M3, Format::E5M2, Format::F16, Format::BF16] {
        assert_rounds(format);
    }
}

#[test]
fn tf32_rounds_as_it_should() {
    // Its numbers are too many for all: those around 1 and the smallest, by f16's rules shifted.
    for bits in 0..=u16::MAX {
        let x = f32::from_bits(0x3f00_0000 | u32::from(bits) << 6 | 1);
        let (down, up) = (x.to_bits() & !0x1fff, (x.to_bits() & !0x1fff) + 0x2000);
        let nearest = if x.to_bits() & 0x1fff > 0x1000 { up } else { down };
        assert_eq!(f32_to_tf32(x, Rounding::Away, false), nearest, "{x}");
        assert_eq!(f32_to_tf32(x, Rounding::Zero, false), down, "{x}");
    }
    let tie = |bits: u32| f32::from_bits(bits | 0x1000);
    assert_eq!(f32_to_tf32(tie(0x3f80_0000), Rounding::Away, false), 0x3f80_2000);
    assert_eq!(f32_to_tf32(tie(0x3f80_0000), Rounding::Nearest, false), 0x3f80_0000);
    assert_eq!(f32_to_tf32(tie(0x3f80_2000), Rounding::Nearest, false), 0x3f80_4000);
    assert_eq!(f32_to_tf32(f32::MAX, Rounding::Away, false), 0x7f80_0000);
    assert_eq!(f32_to_tf32(f32::MAX, Rounding::Away, true), 0x7f7f_e000);
    assert_eq!(f32_to_tf32(f32::NEG_INFINITY, Rounding::Away, true), 0xff7f_e000);
    assert_eq!(f32_to_tf32(-f32::NAN, Rounding::Nearest, true), 0x7fff_e000);
    assert_eq!(f32_to_tf32(f32::from_bits(0xff80_1fff), Rounding::Away, false), 0xff80_0000);
    assert_eq!(f32_to_tf32(f32::from_bits(0xff80_3fff), Rounding::Away, false), 0xff80_2000);
}

#[test]
fn sixteen_bit_values_agree_with_half() {
    for bits in 0..=u16::MAX {
        let half = half::f16::from_bits(bits).to_f32();
        let brain = half::bf16::from_bits(bits).to_f32();
        for (found, expected) in
            [(f16_to_f32(bits), half), (Format::F16.decode(bits.into()), half), (bf16_to_f32(bits), brain)]
        {
            let expected = if expected.is_nan() { NAN } else { expected.to_bits() };
            assert_eq!(found.to_bits(), expected, "{bits:#x}");
        }
    }
}

#[test]
fn f32_values_agree_with_half() {
    // One of 8191 of all, which are in every binade.
    for bits in (0..=u32::MAX).step_by(8191) {
        let x = f32::from_bits(bits);
        let (half, brain) = if x.is_nan() {
            (0x7fff, 0x7fff)
        } else {
            (half::f16::from_f32(x).to_bits(), half::bf16::from_f32(x).to_bits())
        };
        assert_eq!(f32_to_f16(x, Rounding::Nearest), half, "{bits:#x}");
        assert_eq!(f32_to_bf16(x, Rounding::Nearest), brain, "{bits:#x}");
    }
}

#[test]
fn the_short_cuts_round_like_the_format() {
    for bits in 0..=u16::MAX {
        for (format, value, short) in [
            (Format::F16, f16_to_f32(bits), f32_to_f16 as fn(f32, Rounding) -> u16),
            (Format::BF16, bf16_to_f32(bits), f32_to_bf16),
        ] {
            // The gap after the number, its middle and their neighbours.
            let next = format.decode((u32::from(bits) + 1) & 0xffff);
            let middle = ((f64::from(value) + f64::from(next)) / 2.0) as f32;
            for x in [value, value.next_up(), middle.next_down(), middle, middle.next_up(), next.next_down()]
            {
                for rounding in ROUNDINGS {
                    let expected = format.encode(f64::from(x), rounding, false);
                    assert_eq!(u32::from(short(x, rounding)), expected, "{x:e} {rounding:?} {format:?}");
                }
            }
        }
    }
}

#[test]
fn eight_bit_values_are_those_of_their_definition() {
    for bits in 0..=u8::MAX {
        let sign = if bits & 0x80 != 0 { -1.0 } else { 1.0 };
        let value = |exponent_bits: i32, mantissa_bits: i32| {
            let magnitude = i32::from(bits & 0x7f);
            let (exponent, mantissa) = (magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1));
            let bias = (1 << (exponent_bits - 1)) - 1;
            let unit = f64::from(mantissa) / f64::from(1 << mantissa_bits);
            match exponent {
                0 => sign * unit * 2f64.powi(1 - bias),
                _ => sign * (1.0 + unit) * 2f64.powi(exponent - bias),
            }
        };
        let e4m3 = e4m3_to_f32(bits);
        if bits & 0x7f == 0x7f {
            assert_eq!(e4m3.to_bits(), NAN);
        } else {
            assert_eq!(f64::from(e4m3).to_bits(), value(4, 3).to_bits(), "{bits:#x}");
            assert_eq!(f32_to_e4m3(e4m3), bits);
        }
        let e5m2 = e5m2_to_f32(bits);
        match bits & 0x7f {
            0x7c => assert_eq!(e5m2, sign as f32 * f32::INFINITY),
            0x7d.. => assert_eq!(e5m2.to_bits(), NAN),
            _ => {
                assert_eq!(f64::from(e5m2).to_bits(), value(5, 2).to_bits(), "{bits:#x}");
                assert_eq!(f32_to_e5m2(e5m2), bits);
            }
        }
    }
}

#[test]
fn eight_bit_conversions_saturate() {
    assert_eq!(f32_to_e4m3(449.0), 0x7e);
    assert_eq!(f32_to_e4m3(f32::NEG_INFINITY), 0xfe);
    assert_eq!(f32_to_e4m3(-f32::NAN), 0x7f);
    assert_eq!(f32_to_e5m2(1e9), 0x7b);
    assert_eq!(f32_to_e5m2(f32::INFINITY), 0x7b);
    assert_eq!(f32_to_e5m2(f32::NAN), 0x7f);
}

#[test]
fn relu_takes_away_what_is_negative() {
    assert_eq!(Format::F16.relu(0xbc00), 0);
    assert_eq!(Format::F16.relu(0x8000), 0);
    assert_eq!(Format::F16.relu(0xfc00), 0);
    assert_eq!(Format::F16.relu(0x3c00), 0x3c00);
    assert_eq!(Format::F16.relu(0x7fff), 0x7fff);
    assert_eq!(Format::E4M3.relu(0xfe), 0);
}

#[test]
fn integers_round_once() {
    assert_eq!(
        Format::F16.encode(2049.0, Rounding::Nearest, false),
        u32::from(half::f16::from_f32(2048.0).to_bits())
    );
    assert_eq!(Format::F16.encode(65520.0, Rounding::Nearest, false), 0x7c00);
    assert_eq!(Format::F16.encode(65520.0, Rounding::Zero, false), 0x7bff);
    assert_eq!(Format::F32.encode(f64::from(i32::MAX), Rounding::Nearest, false), (2147483648f32).to_bits());
    assert_eq!(Format::F32.encode(f64::from(i32::MIN), Rounding::Nearest, false), (-2147483648f32).to_bits());
}
