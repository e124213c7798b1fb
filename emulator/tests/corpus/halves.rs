//! half, bfloat16 and 8-bit floats.

use half::{bf16, f16};

use crate::device::Argument::Pointer;
use crate::device::{Device, assert_close, floats, grid};

/// The values of 32 threads, two in each word: low and high.
fn pairs(device: &Device, kernel: &str, a: &[u16], b: &[u16], values: usize) -> Vec<u16> {
    let out = device.buffer(&vec![0u16; 64 * values]);
    device.launch(kernel, grid(1, 32), &[Pointer(device.buffer(a)), Pointer(device.buffer(b)), Pointer(out)]);
    device.read(out, 64 * values)
}

/// Towards zero.
fn truncated(x: f32) -> f16 {
    let nearest = f16::from_f32(x);
    if nearest.to_f32().abs() > x.abs() { f16::from_bits(nearest.to_bits() - 1) } else { nearest }
}

#[test]
fn half() {
    let numbers = |seed| floats(seed, 64).iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>();
    let (a, b) = (numbers(30), numbers(31));
    let bits = |numbers: &[f16]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for file in ["cuda/halves.80.ptx", "cuda/halves.90.ptx"] {
        let found = pairs(&Device::new(file), "half_math", &bits(&a), &bits(&b), 12);
        let found = |i: usize, at: usize| f16::from_bits(found[64 * i + at]);
        for at in 0..64 {
            let (x, y) = (a[at].to_f64(), b[at].to_f64());
            let round = |x: f64| f16::from_f64(x).to_f64();
            let exact = [
                (0, x.mul_add(y, round(x + y))),
                (1, (x * y).clamp(0.0, 1.0)),
                (2, x.abs().min(-y)),
                (3, x.mul_add(y, x).max(0.0)),
                (7, if x > y { 1.0 } else { 0.0 }),
                (10, x.round_ties_even()),
            ];
            for (i, expected) in exact {
                assert_eq!(found(i, at), f16::from_f64(expected), "{file}: value {i} of {x} and {y}");
            }
            for (i, expected) in [(4, x / y), (5, x.abs().sqrt()), (6, x.exp2()), (11, x.tanh())] {
                assert_close(
                    found(i, at).to_f64(),
                    expected,
                    2e-3,
                    &format!("{file}: value {i} of {x} and {y}"),
                );
            }
            let (thread, low) = (at / 2, at % 2 == 0);
            let (first, second) = (at & !1, at | 1);
            let (cut, chosen) = match low {
                true => (
                    truncated(a[at].to_f32() * 1.001),
                    if a[first] < b[second] { a[first] } else { b[second] },
                ),
                false => {
                    (f16::from_f32(thread as f32 * 4099.0), f16::from_bits(b[first].to_f32().abs() as u16))
                }
            };
            assert_eq!(found(8, at), cut, "{file}: value 8 of {x}");
            assert_eq!(found(9, at), chosen, "{file}: value 9 of {x} and {y}");
        }
    }
}

#[test]
fn brain() {
    let numbers = |seed| floats(seed, 64).iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>();
    let (a, b) = (numbers(32), numbers(33));
    let bits = |numbers: &[bf16]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for file in ["cuda/halves.80.ptx", "cuda/halves.90.ptx"] {
        let found = pairs(&Device::new(file), "brain_math", &bits(&a), &bits(&b), 6);
        for at in 0..64 {
            let (x, y) = (a[at].to_f64(), b[at].to_f64());
            let round = |x: f64| bf16::from_f64(x).to_f64();
            let low = at % 2 == 0;
            let scaled = a[at].to_f32() * 1.01;
            let expected = [
                bf16::from_f64(x.mul_add(y, round(x + y))),
                bf16::from_f64(x - round(y * y)),
                bf16::from_f64(x.max(y)),
                bf16::from_f32(if low { scaled } else { b[at].to_f32() / 3.0 }),
                bf16::from_f32(if x <= y { 1.0 } else { 0.0 }),
                match low {
                    true => bf16::from_bits((scaled.to_bits() >> 16) as u16),
                    false => bf16::from_f32((at / 2) as f32 * 1027.0),
                },
            ];
            for (i, expected) in expected.into_iter().enumerate() {
                assert_eq!(bf16::from_bits(found[64 * i + at]), expected, "{file}: value {i} of {x} and {y}");
            }
        }
    }
}

/// The value of an 8-bit float with this many bits of mantissa, if it is finite.
fn value(byte: u8, mantissa: i32) -> Option<f64> {
    let exponent = 7 - mantissa;
    let (field, fraction) = (i32::from(byte & 0x7f) >> mantissa, i32::from(byte) & ((1 << mantissa) - 1));
    // e4m3 has one NaN and no infinity, e5m2 is like the formats of IEEE 754.
    let finite = if mantissa == 3 { byte & 0x7f != 0x7f } else { field != (1 << exponent) - 1 };
    let bias = (1 << (exponent - 1)) - 1;
    let magnitude = match field {
        0 => f64::from(fraction) * 2f64.powi(1 - bias - mantissa),
        _ => f64::from(fraction + (1 << mantissa)) * 2f64.powi(field - bias - mantissa),
    };
    finite.then_some(if byte >> 7 == 0 { magnitude } else { -magnitude })
}

/// The finite number that is nearest, of two the even one.
fn nearest(x: f32, mantissa: i32) -> u8 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let distance = |byte: u8| value(byte, mantissa).map(|value| (value - f64::from(x)).abs());
    let all = (0..0x80).map(|byte| byte | sign).filter_map(|byte| Some((distance(byte)?, byte & 1, byte)));
    all.min_by(|a, b| a.partial_cmp(b).unwrap()).unwrap().2
}

#[test]
fn eight_bits() {
    let mut input = floats(34, 64);
    input[..8].copy_from_slice(&[0.0, -0.0, 1e9, -1e9, 448.0, 464.0, 1e-5, 0.0029296875]);
    input[20..40].iter_mut().enumerate().for_each(|(i, x)| *x *= 4f32.powi(i as i32 - 10));
    for file in ["cuda/halves.80.ptx", "cuda/halves.90.ptx"] {
        let device = Device::new(file);
        let (first, second) = (device.buffer(&[0u8; 64]), device.buffer(&[0u8; 64]));
        let (back, sums) = (device.buffer(&[0u16; 64]), device.buffer(&[0f32; 32]));
        let arguments = [device.buffer(&input), first, second, back, sums].map(Pointer);
        device.launch("eights", grid(1, 32), &arguments);
        let e4m3: Vec<u8> = input.iter().map(|x| nearest(*x, 3)).collect();
        let e5m2: Vec<u8> = input.iter().map(|x| nearest(*x, 2)).collect();
        assert_eq!(device.read::<u8>(first, 64), e4m3, "{file}");
        assert_eq!(device.read::<u8>(second, 64), e5m2, "{file}");
        let (e4m3, e5m2) = (|i: usize| value(e4m3[i], 3).unwrap(), |i: usize| value(e5m2[i], 2).unwrap());
        let expected: Vec<u16> = (0..64).map(|i| f16::from_f64(e4m3(i) + e5m2(i)).to_bits()).collect();
        assert_eq!(device.read::<u16>(back, 64), expected, "{file}");
        let expected: Vec<f32> = (0..32).map(|t| (e4m3(2 * t) + e5m2(2 * t + 1)) as f32).collect();
        assert_eq!(device.read::<f32>(sums, 32), expected, "{file}");
    }
}
