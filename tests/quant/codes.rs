//! Every code of every format, from first principles.

use tilewright::quant::Format;

fn codes(format: Format) -> std::ops::RangeInclusive<u8> {
    0..=(format.codes() - 1) as u8
}

#[test]
fn integers() {
    for (format, bits, signed) in [
        (Format::U1, 1, false),
        (Format::U2, 2, false),
        (Format::U4, 4, false),
        (Format::I2, 2, true),
        (Format::I4, 4, true),
        (Format::I8, 8, true),
    ] {
        assert_eq!(format.bits(), bits);
        for code in codes(format) {
            let negative = signed && code >> (bits - 1) == 1;
            let expected = i32::from(code) - if negative { 1 << bits } else { 0 };
            assert_eq!(format.value(code), expected as f32, "{format} {code}");
        }
    }
    assert_eq!(codes(Format::I1).map(|code| Format::I1.value(code)).collect::<Vec<_>>(), [-1.0, 1.0]);
}

/// The value of a floating-point code, by its fields: (-1)^sign 2^(exponent - bias) (1 + mantissa / 2^bits).
fn float(code: u8, exponent_bits: u32, mantissa_bits: u32) -> f64 {
    let exponent = i32::from(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
    let mantissa = f64::from(code & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
    let bias = (1 << (exponent_bits - 1)) - 1;
    let magnitude = match exponent {
        0 => 2f64.powi(1 - bias) * mantissa,
        _ => 2f64.powi(exponent - bias) * (1.0 + mantissa),
    };
    if code >> (exponent_bits + mantissa_bits) & 1 == 1 { -magnitude } else { magnitude }
}

#[test]
fn floats() {
    for code in codes(Format::FP4) {
        let value = f64::from(Format::FP4.value(code));
        assert_eq!(value.to_bits(), float(code, 2, 1).to_bits(), "fp4 {code}");
    }
    for code in codes(Format::E4M3) {
        let value = f64::from(Format::E4M3.value(code));
        match code & 0x7f {
            0x7f => assert!(value.is_nan(), "e4m3 {code:#x}"),
            _ => assert_eq!(value.to_bits(), float(code, 4, 3).to_bits(), "e4m3 {code:#x}"),
        }
    }
    for code in codes(Format::E5M2) {
        let value = f64::from(Format::E5M2.value(code));
        match code & 0x7f {
            0x7c => assert_eq!(value, if code == 0x7c { f64::INFINITY } else { f64::NEG_INFINITY }),
            0x7d.. => assert!(value.is_nan(), "e5m2 {code:#x}"),
            _ => assert_eq!(value.to_bits(), float(code, 5, 2).to_bits(), "e5m2 {code:#x}"),
        }
        // It is the upper byte of an f16.
        let half = tilewright::f16::from_bits(u16::from(code) << 8).to_f64();
        assert!(value == half || value.is_nan() && half.is_nan(), "e5m2 {code:#x}");
    }
    let fp4 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    assert_eq!((0..8).map(|code| Format::FP4.value(code)).collect::<Vec<_>>(), fp4);
}

/// The probability that a standard normal variable is below x, by its series.
fn normal_below(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for i in 1..200 {
        term *= x * x / f64::from(2 * i + 1);
        sum += term;
    }
    0.5 + sum * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

fn quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if normal_below(middle) < probability { low = middle } else { high = middle }
    }
    low
}

/// QLoRA, appendix E: 8 quantiles of each half, evenly spaced from an outermost one, the zero shared, scaled to 1.
#[test]
fn normal_float() {
    let outermost = 0.5 * ((1.0 - 1.0 / 32.0) + (1.0 - 1.0 / 30.0));
    let spaced = |count: i32, i: i32| quantile(0.5 + (outermost - 0.5) * f64::from(i) / f64::from(count));
    let largest = spaced(8, 8);
    let negative = (1..=7).rev().map(|i| -spaced(7, i) / largest);
    let positive = (0..=8).map(|i| spaced(8, i) / largest);
    let expected: Vec<_> = negative.chain(positive).collect();
    assert_eq!(expected.len(), 16);
    for (code, expected) in expected.iter().enumerate() {
        let value = f64::from(Format::NF4.value(code as u8));
        // The published table is that of a library that computes quantiles in single precision.
        assert!((value - expected).abs() < 2e-6, "nf4 {code}: {value}, by quantiles {expected}");
    }
    assert_eq!([0, 7, 15].map(|code| Format::NF4.value(code)), [-1.0, 0.0, 1.0]);
}

#[test]
fn nearest_is_nearest_of_all() {
    for format in Format::ALL {
        let values: Vec<f64> = codes(format).map(|code| format.value(code).into()).collect();
        let finite: Vec<_> = values.iter().copied().filter(|value| value.is_finite()).collect();
        for code in codes(format).filter(|&code| values[usize::from(code)].is_finite()) {
            let value = values[usize::from(code)];
            assert_eq!(format.value(format.nearest(value)), value as f32, "{format} {code}");
        }
        let (lowest, highest) = format.range();
        assert_eq!(f64::from(lowest), finite.iter().copied().fold(f64::INFINITY, f64::min));
        assert_eq!(f64::from(highest), finite.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        let span = f64::from(highest - lowest);
        let linear = (0..=4000).map(|i| f64::from(lowest) + span * (f64::from(i) / 4000.0 * 1.2 - 0.1));
        let logarithmic = (0..400).map(|i| 2f64.powf(f64::from(i) / 12.0 - 20.0));
        for x in linear.chain(logarithmic.clone()).chain(logarithmic.map(|x| -x)) {
            let distance = |value: f64| (value - x).abs();
            let least = finite.iter().copied().map(distance).fold(f64::INFINITY, f64::min);
            let found = values[usize::from(format.nearest(x))];
            assert_eq!(distance(found), least, "{format}: {x} became {found}");
        }
        // NaN and infinities have codes too.
        assert_eq!(f64::from(format.value(format.nearest(f64::INFINITY))), f64::from(highest));
        assert_eq!(f64::from(format.value(format.nearest(f64::NEG_INFINITY))), f64::from(lowest));
        assert_eq!(format.nearest(f64::NAN), format.nearest(0.0));
    }
}

/// Halfway between two magnitudes of a float the even code wins, as IEEE 754 rounds.
#[test]
fn ties_go_to_even_codes() {
    for format in [Format::FP4, Format::E4M3, Format::E5M2] {
        let middle = |code: u8| (f64::from(format.value(code)) + f64::from(format.value(code + 1))) / 2.0;
        let positive = (0..(format.codes() / 2 - 1) as u8).filter(|&code| format.value(code + 1).is_finite());
        for code in positive {
            let even = code + code % 2;
            assert_eq!(format.nearest(middle(code)), even, "{format}: between {code} and the next");
            assert_eq!(format.value(format.nearest(-middle(code))), -format.value(even), "{format} {code}");
        }
    }
    assert_eq!(Format::I4.nearest(2.5), 2);
    assert_eq!(Format::I4.nearest(-3.5), 0xc);
}

#[test]
fn packed_codes_are_offset_binary() {
    for format in [Format::I2, Format::I4, Format::I8] {
        let lowest = format.range().0;
        for code in codes(format) {
            let packed = format.packed(code);
            assert_eq!(f32::from(packed) + lowest, format.value(code), "{format} {code}");
            assert_eq!(format.packed(packed), code, "{format} {code}");
        }
    }
    for format in Format::ALL.into_iter().filter(|f| ![Format::I2, Format::I4, Format::I8].contains(f)) {
        assert!(codes(format).all(|code| format.packed(code) == code), "{format}");
    }
}

#[test]
fn names_lead_to_formats() {
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
    assert!("u3".parse::<Format>().is_err());
}
