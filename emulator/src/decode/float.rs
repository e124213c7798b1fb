//! Floating-point arithmetic of one lane, as the GPU does it.

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
    f64::from_bits(if inexact { truncated | 1 } else { bits }) as f32
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
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            f32::from_bits((state >> 32) as u32)
        };
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
    fn extremes() {
        assert_eq!(max(-0.0, 0.0).to_bits(), 0);
        assert_eq!(min(0.0, -0.0).to_bits(), 0x8000_0000);
        assert_eq!((max(f32::NAN, 1.0), min(1.0, f32::NAN)), (1.0, 1.0));
        assert!(max_nan(1.0, f32::NAN).is_nan() && min_nan(f32::NAN, 1.0).is_nan());
        assert_eq!(flush(-1e-40).to_bits(), 0x8000_0000);
        assert_eq!((saturate(2.0), saturate(f32::NAN), saturate(-1.0)), (1.0, 0.0, 0.0));
    }
}
