//! Arithmetic of f16 and bf16, rounded once to nearest.
//!
//! PTX ISA, "Half Precision Floating Point Instructions". Operands and results are the low bits; `.f16x2` and `.bf16x2` are this
//! twice. Subnormal numbers count unless [`ftz`] says otherwise; NaN results are the canonical 0x7fff.

use super::float::{Format, Rounding};

/// What copies leave outside of a tensor that is filled with NaN: that one of all NaNs, in elements of 16 bits of either type, on an H200.
pub(crate) const OUTSIDE: u16 = 0x7ff7;

/// `fma.rn`: `a·b + c`.
pub(crate) fn fma(format: Format, a: u16, b: u16, c: u16) -> u16 {
    let value = |bits: u16| f64::from(format.decode(bits.into()));
    // The product of two significands of 11 bits is exact in f64; the sum of it and c is not always.
    format.encode(sum_to_odd(value(a) * value(b), value(c)), Rounding::Nearest, false) as u16
}

/// `fma.rn.ftz`, but for the operands: a result becomes zero that would be subnormal if it was rounded to a number of the same
/// precision without a least exponent.
pub(crate) fn fma_ftz(format: Format, a: u16, b: u16, c: u16) -> u16 {
    let value = |bits: u16| f64::from(format.decode(bits.into()));
    let exact = sum_to_odd(value(a) * value(b), value(c));
    let least = f64::from(format.decode(format.least_normal()));
    // Halfway between that and the number that would be next below it.
    let kept = if exact.abs() < least * (1.0 - format.half_step()) { 0f64.copysign(exact) } else { exact };
    format.encode(kept, Rounding::Nearest, false) as u16
}

/// `fma.rn.oob`: 0 where a factor is from outside of a tensor, whatever its sign and the others are.
pub(crate) fn fma_outside(format: Format, a: u16, b: u16, c: u16) -> u16 {
    let is_outside = |factor: u16| factor & 0x7fff == OUTSIDE;
    if is_outside(a) || is_outside(b) { 0 } else { fma(format, a, b, c) }
}

/// The canonical NaN, if it is one.
pub(crate) fn canonical(format: Format, bits: u16) -> u16 {
    if format.decode(bits.into()).is_nan() { format.nan() as u16 } else { bits }
}

/// `add.rn`.
pub(crate) fn add(format: Format, a: u16, b: u16) -> u16 {
    let value = |bits: u16| f64::from(format.decode(bits.into()));
    format.encode(sum_to_odd(value(a), value(b)), Rounding::Nearest, false) as u16
}

/// `sub.rn`.
pub(crate) fn sub(format: Format, a: u16, b: u16) -> u16 {
    // Turning a NaN's sign does not matter.
    add(format, a, b ^ 0x8000)
}

/// `mul.rn`.
pub(crate) fn mul(format: Format, a: u16, b: u16) -> u16 {
    let value = |bits: u16| f64::from(format.decode(bits.into()));
    format.encode(value(a) * value(b), Rounding::Nearest, false) as u16
}

/// `min`, -0 before +0. Where one is NaN, with `nan` (`.NaN`) the result is NaN, else it is the other.
pub(crate) fn min(format: Format, a: u16, b: u16, nan: bool) -> u16 {
    pick(format, a, b, nan, |a, b| a <= b)
}

/// `max`, +0 after -0. Where one is NaN, with `nan` (`.NaN`) the result is NaN, else it is the other.
pub(crate) fn max(format: Format, a: u16, b: u16, nan: bool) -> u16 {
    pick(format, a, b, nan, |a, b| a > b)
}

/// `.ftz`: a subnormal number becomes zero with its sign.
pub(crate) fn ftz(format: Format, bits: u16) -> u16 {
    if format.is_subnormal(bits.into()) { bits & 0x8000 } else { bits }
}

/// `.sat`: into [0, 1]; NaN becomes +0.
pub(crate) fn sat(format: Format, bits: u16) -> u16 {
    let value = format.decode(bits.into());
    if value >= 1.0 {
        format.encode(1.0, Rounding::Nearest, false) as u16
    } else if value > 0.0 {
        bits
    } else {
        0
    }
}

/// One of two, by the order of their values.
fn pick(format: Format, a: u16, b: u16, nan: bool, first: impl FnOnce(i32, i32) -> bool) -> u16 {
    let is_nan = |bits: u16| format.decode(bits.into()).is_nan();
    match (is_nan(a), is_nan(b)) {
        (true, true) => format.nan() as u16,
        (true, false) | (false, true) if nan => format.nan() as u16,
        (true, false) => b,
        (false, true) => a,
        _ => {
            // As integers, with -0 just below +0.
            let order =
                |bits: u16| if bits >> 15 == 0 { i32::from(bits) } else { -1 - i32::from(bits & 0x7fff) };
            if first(order(a), order(b)) { a } else { b }
        }
    }
}

/// `a + b`, rounded to odd where it is not exact: rounding that to nearest in fewer than 52 bits rounds as if once.
fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // Knuth's two-sum: the error is exact.
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        sum
    } else if error > 0.0 {
        sum.next_up()
    } else {
        sum.next_down()
    }
}

#[cfg(test)]
mod tests {
    use rustc_apfloat::Float;
    use rustc_apfloat::ieee::{BFloat, Half};

    use super::*;

    #[test]
    fn results_are_flushed_by_their_size_at_full_precision() {
        // The number below 1 times the least normal one.
        assert_eq!(fma(Format::F16, 0x3bff, 0x0400, 0), 0x0400);
        assert_eq!(fma_ftz(Format::F16, 0x3bff, 0x0400, 0), 0);
        assert_eq!(fma_ftz(Format::F16, 0xbbff, 0x0400, 0x8000), 0x8000);
        assert_eq!(fma_ftz(Format::F16, 0x3c00, 0x0400, 0), 0x0400);
        assert_eq!(fma_ftz(Format::F16, 0x0400, 0x8400, 0x0400), 0x0400);
        assert_eq!(canonical(Format::F16, 0xfe01), 0x7fff);
    }

    /// A generator of bit patterns.
    fn patterns() -> impl FnMut() -> u16 {
        let mut random = fastrand::Rng::with_seed(1);
        move || random.u16(..)
    }

    /// `a·b + c` by another implementation.
    fn other_fma(format: Format, a: u16, b: u16, c: u16) -> u16 {
        fn fma<F: Float>(operands: [u16; 3]) -> u16 {
            let [a, b, c] = operands.map(|bits| F::from_bits(bits.into()));
            a.mul_add(b, c).value.to_bits() as u16
        }
        let bits = if format == Format::F16 { fma::<Half>([a, b, c]) } else { fma::<BFloat>([a, b, c]) };
        canonical(format, bits)
    }

    #[test]
    fn fused_products_are_rounded_once() {
        let mut next = patterns();
        for format in [Format::F16, Format::BF16] {
            for i in 0..400_000 {
                let (a, b) = (next(), next());
                // Every other time near the product, where sums cancel or tie.
                let c = if i % 2 == 0 { next() } else { mul(format, a, b) ^ 0x8000 ^ (next() % 3) };
                let expected = other_fma(format, a, b, c);
                assert_eq!(fma(format, a, b, c), expected, "{a:#x} · {b:#x} + {c:#x} in {format:?}");
            }
        }
    }

    #[test]
    fn a_tie_that_only_the_last_bit_breaks() {
        // (1 + 2^-10)² = 1 + 2^-9 + 2^-20: beside 2048 it is just above a tie, 1 is at it.
        let x = 0x3c01;
        let (c, up) = (half::f16::from_f32(2048.0).to_bits(), half::f16::from_f32(2050.0).to_bits());
        assert_eq!(fma(Format::F16, x, x, c), up);
        assert_eq!(fma(Format::F16, 0x3c00, 0x3c00, c), c);
        // 1.5 · 1.0078125 is halfway between two bf16; 2^-133 beside it, 130 bits lower, decides.
        assert_eq!(fma(Format::BF16, 0x3fc0, 0x3f81, 1), 0x3fc2);
        assert_eq!(fma(Format::BF16, 0x3fc0, 0x3f81, 0x8001), 0x3fc1);
        assert_eq!(add(Format::BF16, 0x3f80, 1), 0x3f80);
    }

    #[test]
    fn sums_and_products() {
        let mut next = patterns();
        for _ in 0..200_000 {
            let (a, b) = (next(), next());
            for (format, one) in [(Format::F16, 0x3c00), (Format::BF16, 0x3f80)] {
                let sum = other_fma(format, a, one, b);
                assert_eq!(add(format, a, b), sum, "{a:#x} + {b:#x} in {format:?}");
                assert_eq!(sub(format, a, b ^ 0x8000), sum, "{a:#x} + {b:#x} in {format:?}");
                // A zero that does not change the product's sign.
                let product = other_fma(format, a, b, (a ^ b) & 0x8000);
                assert_eq!(mul(format, a, b), product, "{a:#x} · {b:#x} in {format:?}");
            }
        }
    }

    #[test]
    fn factors_from_outside() {
        for (format, one, nan) in [(Format::F16, 0x3c00, 0x7e00), (Format::BF16, 0x3f80, 0x7fc0)] {
            for outside in [OUTSIDE, OUTSIDE | 0x8000] {
                for c in [one, nan, OUTSIDE] {
                    assert_eq!(
                        [fma_outside(format, outside, one, c), fma_outside(format, nan, outside, c)],
                        [0; 2]
                    );
                }
            }
            assert_eq!(fma_outside(format, one, one, OUTSIDE), 0x7fff);
            assert_eq!(fma_outside(format, one, OUTSIDE + 1, one), 0x7fff);
        }
    }

    #[test]
    fn special_values() {
        let f16 = Format::F16;
        assert_eq!(add(f16, 0x7c00, 0xfc00), 0x7fff);
        assert_eq!(add(f16, 0x7bff, 0x7bff), 0x7c00);
        assert_eq!((add(f16, 0x8000, 0x0000), add(f16, 0x8000, 0x8000)), (0, 0x8000));
        assert_eq!(sub(f16, 0x3c00, 0x3c00), 0);
        assert_eq!((mul(f16, 0x8000, 0x3c00), mul(f16, 0x7c00, 0)), (0x8000, 0x7fff));
        assert_eq!(fma(f16, 0x7c00, 0x3c00, 0xfc00), 0x7fff);
        assert_eq!(fma(Format::BF16, 0x7f7f, 0x7f7f, 0xff80), 0xff80);
        assert_eq!((min(f16, 0, 0x8000, false), max(f16, 0x8000, 0, false)), (0x8000, 0));
        assert_eq!((min(f16, 0x7e00, 0x4000, false), min(f16, 0x4000, 0x7e00, true)), (0x4000, 0x7fff));
        assert_eq!((max(f16, 0xc000, 0xc200, false), min(f16, 0xc000, 0xc200, false)), (0xc000, 0xc200));
        assert_eq!((max(f16, 0x7e00, 0xfe01, false), max(f16, 0x3c00, 0x7c00, true)), (0x7fff, 0x7c00));
        assert_eq!([0x3ff, 0x83ff, 0x400, 0x7fff, 0].map(|x| ftz(f16, x)), [0, 0x8000, 0x400, 0x7fff, 0]);
        let saturated = [0x3c01, 0x3bff, 0x8001, 0x7e00, 0xfc00, 0x7c00].map(|x| sat(f16, x));
        assert_eq!(saturated, [0x3c00, 0x3bff, 0, 0, 0, 0x3c00]);
    }
}
