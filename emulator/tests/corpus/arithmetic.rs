//! f32, f64 and wide integers; the functions of the mathematical library.

use crate::device::Argument::Pointer;
use crate::device::{Device, assert_close, floats, grid, random};

/// The values of 32 threads, compared with functions of the thread and its input.
fn compare<const N: usize>(found: &[f64], bound: f64, expected: impl Fn(usize) -> [f64; N]) {
    for t in 0..32 {
        for (i, expected) in expected(t).into_iter().enumerate() {
            assert_close(found[32 * i + t], expected, bound, &format!("thread {t}, value {i}"));
        }
    }
}

#[test]
fn doubles() {
    let device = Device::new("cuda/doubles.90.ptx");
    let values: Vec<f64> =
        random(20, 33).iter().map(|x| (x >> 11) as f64 / (1u64 << 51) as f64 - 2.0).collect();
    let out = device.buffer(&[0f64; 288]);
    device.launch("doubles", grid(1, 32), &[Pointer(device.buffer(&values)), Pointer(out)]);
    compare(&device.read::<f64>(out, 288), 1e-13, |t| {
        let (x, y) = (values[t], values[t + 1]);
        [
            x * y + x / y - x.abs().sqrt(),
            x.mul_add(y, x.min(y)),
            (x + y) + x * y,
            (x * 10.0).floor() + y.round_ties_even() + x.trunc() + y.ceil(),
            x.exp() + (y.abs() + 1.0).ln(),
            x.sin() * y.cos(),
            f64::from(x as f32) + (y * 1e6).trunc() + x.abs().round_ties_even() + y.trunc(),
            (x.abs() + 0.5).powf(y * 0.25),
            x.copysign(-y) + (x * 100.0) % 7.0 + 1.0 / (y.abs() + 1.0).sqrt(),
        ]
    });
}

#[test]
fn singles() {
    let device = Device::new("cuda/floats.90.ptx");
    let values = floats(21, 40);
    let out = device.buffer(&[0f32; 256]);
    device.launch("floats", grid(1, 32), &[Pointer(device.buffer(&values)), Pointer(out)]);
    let found: Vec<f64> = device.read::<f32>(out, 256).into_iter().map(f64::from).collect();
    compare(&found, 2e-5, |t| {
        let (x, y) = (values[t], values[t + 1]);
        let (a, b) = (f64::from(x), f64::from(y));
        let norm = values[t..t + 3].iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        [
            a * b + 0.1 + (a + b) + a * b + a / b,
            f64::from(x * 1000.0).sin() + b.cos() + a.tan(),
            a.exp() + (b.abs() + 1.0).ln() + (a.abs() + 0.5).powf(b),
            a.sin() + b.exp() + 1.0 / (a.abs() + 1.0).sqrt() + a / b,
            f64::from((x * 10.0).round_ties_even() + (y * 10.0).trunc() + (x * 100.0).floor())
                + f64::from(y.abs() * 1e10).trunc(),
            f64::from(x.clamp(0.0, 1.0)) + f64::from(x * 50.0) % 3.0 + b * 32.0 + 1.0 / a + b.abs().sqrt(),
            found[32 * 6 + t],
            f64::from(half::f16::from_f32(x).to_f32())
                + norm
                + f64::from(f32::from_bits(x.to_bits() & 0xffff_0000)),
        ]
    });
    // erf + gamma(|y| + 1) + atan2, at arguments whose values are known.
    let values: Vec<f32> = (0..40).map(|i| [1.0, 2.0, 3.0][i % 3]).collect();
    device.launch("floats", grid(1, 32), &[Pointer(device.buffer(&values)), Pointer(out)]);
    let found = device.read::<f32>(out, 256);
    let erf = [0.842_700_792_949_715, 0.995_322_265_018_953, 0.999_977_909_503_001];
    for t in 0..32 {
        let (x, y) = (f64::from(values[t]), f64::from(values[t + 1]));
        let factorial = [1.0, 1.0, 2.0, 6.0][y as usize];
        assert_close(
            found[192 + t].into(),
            erf[t % 3] + factorial + x.atan2(y),
            1e-5,
            &format!("thread {t}"),
        );
    }
}

#[test]
fn wide_integers() {
    let device = Device::new("cuda/wide.90.ptx");
    let mut values = random(22, 34);
    values[5..9].copy_from_slice(&[0, u64::MAX, u64::MAX, 1]);
    let out = device.buffer(&[0u64; 256]);
    device.launch("wide", grid(1, 32), &[Pointer(device.buffer(&values)), Pointer(out)]);
    let found = device.read::<u64>(out, 256);
    for t in 0..32 {
        let [a, b, c] = [values[t], values[t + 1], values[t + 2]];
        let (x, y) = (u128::from(a) << 64 | u128::from(b), u128::from(b) << 64 | u128::from(c));
        let fold = |x: u128| (x >> 64) as u64 ^ x as u64;
        let quotient = x / u128::from(c | 1);
        let low = |x: u64| u64::from(x as u32);
        let expected = [
            fold(x.wrapping_add(y)),
            fold(x.wrapping_sub(y)),
            fold(x.wrapping_mul(y)),
            (((u128::from(a) * u128::from(b)) >> 64) as u64)
                .wrapping_add(a / (c | 1))
                .wrapping_add(a % (b | 1)),
            ((quotient >> 64) as u64).wrapping_add(quotient as u64),
            a.wrapping_add(b),
            (low(a) * low(b)).wrapping_add(c),
            a.wrapping_sub(b),
        ];
        for (i, expected) in expected.iter().enumerate() {
            assert_eq!(found[32 * i + t], *expected, "thread {t}, value {i}");
        }
    }
}

#[test]
fn parts_of_integers() {
    let device = Device::new("cuda/wide.90.ptx");
    let mut values: Vec<i32> = random(23, 33).iter().map(|x| *x as i32).collect();
    values[4..7].copy_from_slice(&[0, i32::MIN, -1]);
    let out = device.buffer(&[0i32; 224]);
    device.launch("bytes", grid(1, 32), &[Pointer(device.buffer(&values)), Pointer(out)]);
    let found = device.read::<i32>(out, 224);
    for t in 0..32 {
        let (a, b) = (values[t], values[t + 1]);
        let expected = parts(a, b);
        for (i, expected) in expected.iter().enumerate() {
            // The quotient of the smallest number by -1 is nobody's.
            if i != 6 || (a, b) != (i32::MIN, -1) {
                assert_eq!(found[32 * i + t], *expected, "thread {t}, value {i}: {a:#x} {b:#x}");
            }
        }
    }
}

fn parts(a: i32, b: i32) -> [i32; 7] {
    let (ua, ub) = (a as u32, b as u32);
    let (x, y) = (a.to_le_bytes(), b.to_le_bytes());
    let signed = |i: usize| i32::from(x[i] as i8) * i32::from(y[i] as i8);
    let unsigned = |i: usize| i32::from(x[i]) * i32::from(y[i]);
    let dots = (0..4).map(|i| signed(i) + unsigned(i)).sum::<i32>() + 12;
    let words = [a as i16, (a >> 16) as i16].map(i32::from);
    let two = |i: usize| words[0] * i32::from(y[i] as i8) + words[1] * i32::from(y[i + 1] as i8);
    let (wide_a, wide_b) = (i64::from(a), i64::from(b));
    let sums = [
        wide_a.abs_diff(wide_b) as i32,
        3,
        ua.abs_diff(ub) as i32,
        1,
        ((wide_a * wide_b) >> 32) as i32,
        ((wide_a << 40 >> 40) * (wide_b << 40 >> 40)) as i32,
        ((wide_a + wide_b) >> 1) as i32,
        ((wide_a + wide_b + 1) >> 1) as i32,
    ];
    let bytes = |f: fn(u8, u8) -> u8| i32::from_le_bytes(std::array::from_fn(|i| f(x[i], y[i])));
    let maxima = (a >> 16).max(b >> 16) << 16 | i32::from((a as i16).max(b as i16)) & 0xffff;
    let product = wide_a.wrapping_mul(wide_b);
    let first = if a == 0 { 0 } else { a.trailing_zeros() as i32 + 1 };
    let (s, u) = (a as i16, b as i16);
    let quotient = if b == 0 { 0 } else { a.wrapping_div(b).wrapping_add(a.wrapping_rem(b)) };
    [
        dots,
        (two(0) + 1) ^ (two(2) + 2),
        sums.into_iter().fold(0, i32::wrapping_add),
        bytes(u8::wrapping_add) ^ bytes(u8::abs_diff) ^ maxima,
        (first + product.leading_zeros() as i32 + product.count_ones() as i32).wrapping_add(b.wrapping_abs()),
        i32::from(s.wrapping_mul(u))
            + i32::from(s >> 3)
            + (a.wrapping_add(b) & 0xff)
            + i32::from(b as i8) * 3,
        quotient.wrapping_add((ua / 7) as i32).wrapping_add(if a < b { a.min(3) } else { b.max(9) }),
    ]
}
