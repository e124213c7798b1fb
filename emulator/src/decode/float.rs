//! Floating-point arithmetic of one lane, as the GPU does it.
//!
//! The manual leaves the bits of NaNs open. Here they are as on an H200: results of f32 are the canonical one, those of f64
//! an operand's, made quiet, or the canonical one if no operand is NaN. `.ftz` also leaves open whether a result is
//! subnormal before or after it is rounded: it is if a number of the same
//! precision without a least exponent would be.

/// Zero with the sign of a subnormal number; other numbers as they are.
#[inline(always)]
pub(super) fn flush(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { f32::from_bits(x.to_bits() & 0x8000_0000) } else { x }
}

/// `a * b + c`, rounded once.
///
/// The product is exact in f64. The sum is rounded there to odd (its last bit set when it is inexact), so that rounding
/// it again to f32 gives what one rounding would: S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded sums:
/// proved algorithms using rounding to odd". A call of the C library's `fmaf`, without the CPU's own, is ten times slower.
#[inline(always)]
pub(super) fn fma(a: f32, b: f32, c: f32) -> f32 {
    fma_to_odd(a, b, c) as f32
}

/// The same with subnormal results flushed.
#[inline(always)]
pub(super) fn fma_ftz(a: f32, b: f32, c: f32) -> f32 {
    round_ftz(fma_to_odd(a, b, c))
}

/// `a * b` with subnormal results flushed.
#[inline(always)]
pub(super) fn mul_ftz(a: f32, b: f32) -> f32 {
    round_ftz(f64::from(a) * f64::from(b))
}

#[inline(always)]
fn round_ftz(x: f64) -> f32 {
    // Halfway between the least normal number and the one that would be next below it.
    const LEAST: f64 = f32::MIN_POSITIVE as f64 * (1.0 - 1.0 / (1u32 << 25) as f64);
    if x.abs() < LEAST { 0f32.copysign(x as f32) } else { x as f32 }
}

/// `a * b + c` in f64, rounded to odd.
#[inline(always)]
fn fma_to_odd(a: f32, b: f32, c: f32) -> f64 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    // What the sum lost (Knuth's TwoSum); NaN when the sum is not finite.
    let virtual_c = sum - product;
    let lost = (product - (sum - virtual_c)) + (c - virtual_c);
    let bits = sum.to_bits();
    // To odd: towards the lost part when it points away from zero is the same number or the next one; the truncated
    // sum with its last bit set.
    let inexact = lost != 0.0 && lost.is_finite();
    let beyond = (lost > 0.0) != (sum > 0.0);
    let truncated = if inexact && beyond { bits.wrapping_sub(1) } else { bits };
    f64::from_bits(if inexact { truncated | 1 } else { bits })
}

/// The NaN of an operation of f64 whose result is `x`: the first of its operands, in the order given, that is one.
#[inline(always)]
pub(super) fn nan64<const N: usize>(x: f64, operands: [f64; N]) -> f64 {
    const QUIET: u64 = 1 << 51;
    const CANONICAL: u64 = 0xfff8_0000_0000_0000;
    if !x.is_nan() {
        return x;
    }
    let nan = operands.into_iter().find(|operand| operand.is_nan());
    f64::from_bits(nan.map_or(CANONICAL, |nan| nan.to_bits() | QUIET))
}

/// `a + b`.
#[inline(always)]
pub(crate) fn add64(a: f64, b: f64) -> f64 {
    nan64(a + b, [b, a])
}

/// `a - b`.
#[inline(always)]
pub(super) fn sub64(a: f64, b: f64) -> f64 {
    nan64(a - b, [b, a])
}

/// `a * b`.
#[inline(always)]
pub(super) fn mul64(a: f64, b: f64) -> f64 {
    nan64(a * b, [b, a])
}

/// `a / b`.
#[inline(always)]
pub(super) fn div64(a: f64, b: f64) -> f64 {
    nan64(a / b, [a, b])
}

/// `a * b + c`, rounded once.
#[inline(always)]
pub(crate) fn fma64(a: f64, b: f64, c: f64) -> f64 {
    nan64(a.mul_add(b, c), [b, c, a])
}

/// `-a`; a NaN keeps its sign.
#[inline(always)]
pub(super) fn neg64(a: f64) -> f64 {
    nan64(-a, [a])
}

/// Without its sign, but a NaN keeps it.
#[inline(always)]
pub(super) fn abs64(a: f64) -> f64 {
    nan64(a.abs(), [a])
}

/// `cvt.f32.f64` of a NaN: the upper bits of its payload.
#[inline(always)]
pub(super) fn narrow_nan(a: f64) -> u32 {
    let bits = a.to_bits();
    (bits >> 32) as u32 & 0x8000_0000 | 0x7fc0_0000 | (bits >> 29) as u32 & 0x003f_ffff
}

/// The larger number; a NaN only if both are. +0 is larger than -0.
#[inline(always)]
pub(super) fn max(a: f32, b: f32) -> f32 {
    if a.is_nan() || (b > a) || (a == b && a.is_sign_negative()) { b } else { a }
}

/// The smaller number; a NaN only if both are.
#[inline(always)]
pub(super) fn min(a: f32, b: f32) -> f32 {
    if a.is_nan() || (b < a) || (a == b && b.is_sign_negative()) { b } else { a }
}

/// A NaN if either is.
#[inline(always)]
pub(super) fn max_nan(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() { f32::NAN } else { max(a, b) }
}

/// A NaN if either is.
#[inline(always)]
pub(super) fn min_nan(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() { f32::NAN } else { min(a, b) }
}

/// Between 0 and 1; NaN becomes 0.
#[inline(always)]
pub(super) fn saturate(x: f32) -> f32 {
    if x > 0.0 { if x < 1.0 { x } else { 1.0 } } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fma_is_the_fused_one() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut next = || f32::from_bits(random.u32(..));
        let special =
            [0.0, -0.0, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE, f32::MAX, 1.0, f32::from_bits(1)];
        let check = |a: f32, b: f32, c: f32| {
            let (ours, theirs) = (fma(a, b, c), a.mul_add(b, c));
            assert!(
                ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()),
                "{a:e} {b:e} {c:e}"
            );
        };
        for _ in 0..200_000 {
            let (a, b, c) = (next(), next(), next());
            check(a, b, c);
            // Cancellation, and halfway cases of the rounding.
            check(a, b, -a * b);
            let (a, b) =
                (1.0 + (a.to_bits() & 0xfff) as f32 / 4096.0, 1.0 + (b.to_bits() & 0xfff) as f32 / 4096.0);
            check(a, b, f32::from_bits(0x3000_0000 | c.to_bits() & 0x87ff_ffff));
        }
        for a in special {
            for b in special {
                for c in special {
                    check(a, b, c);
                    check(a, -b, c);
                }
            }
        }
    }

    #[test]
    fn results_are_flushed_by_their_size_at_full_precision() {
        let (almost_one, least) = (f32::from_bits(0x3f7f_ffff), f32::MIN_POSITIVE);
        assert_eq!((almost_one * least, mul_ftz(almost_one, least)), (least, 0.0));
        assert_eq!(mul_ftz(-almost_one, least).to_bits(), 0x8000_0000);
        assert_eq!((fma(almost_one, least, 0.0), fma_ftz(almost_one, least, -0.0)), (least, 0.0));
        assert_eq!((mul_ftz(1.0, least), fma_ftz(almost_one, 2.0, least)), (least, 2.0 * almost_one));
        // Less than the least normal number by less than half of what such a precision has there.
        assert_eq!((fma_ftz(least, least, -least), fma_ftz(-least, 1e-30, least)), (-least, least));
        assert!(mul_ftz(f32::NAN, 1.0).is_nan());
    }

    #[test]
    fn nans_of_f64_are_operands() {
        let (a, b) = (f64::from_bits(0xfff0_0000_0000_1234), f64::from_bits(0x7ff8_0000_0000_0000));
        let quiet = 0xfff8_0000_0000_1234;
        assert_eq!([add64(b, a), sub64(b, a), mul64(a, b)].map(f64::to_bits), [quiet, quiet, b.to_bits()]);
        assert_eq!([fma64(b, 1.0, a), neg64(a), abs64(a)].map(f64::to_bits), [quiet; 3]);
        assert_eq!(add64(f64::INFINITY, f64::NEG_INFINITY).to_bits(), 0xfff8_0000_0000_0000);
        assert_eq!([narrow_nan(a), narrow_nan(b)], [0xffc0_0000, 0x7fc0_0000]);
    }

    #[test]
    fn extremes() {
        assert_eq!(max(-0.0, 0.0).to_bits(), 0);
        assert_eq!(min(0.0, -0.0).to_bits(), 0x8000_0000);
        assert_eq!((max(f32::NAN, 1.0), min(1.0, f32::NAN)), (1.0, 1.0));
        assert!(max_nan(1.0, f32::NAN).is_nan() && min_nan(f32::NAN, 1.0).is_nan());
        assert_eq!(flush(-1e-40).to_bits(), 0x8000_0000);
        assert_eq!((saturate(2.0), saturate(f32::NAN), saturate(-1.0)), (1.0, 0.0, 0.0));
    }
}
