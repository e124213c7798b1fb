//! The approximate functions of f32: `ex2.approx`, `rcp.approx` and so on.
//!
//! The manual gives each a bound of its error, not its bits. Here each is computed in f64 and rounded to nearest, to within
//! a thousandth of a unit in the last place of the best result, and so inside every bound, from 2⁻¹¹ relative (`tanh`) and
//! 2⁻²⁰ absolute (`sin`, `cos`) to one or two units in the last place (`rcp`, `div`). A GPU's result may be another one
//! inside the bound. The special cases are the manual's tables: an infinity or a NaN for what has no result,
//! [`NAN`] for every NaN, zeros and their signs.
//!
//! With `ftz`, subnormal arguments and results become zero with their sign.
//!
//! PTX ISA, "Floating Point Instructions".

use super::float::NAN;

/// The canonical NaN, if it is one.
#[inline(always)]
pub(crate) fn canonical(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(NAN) } else { x }
}

/// `.ftz`: zero of the same sign for a subnormal number.
#[inline(always)]
pub(crate) fn flush(x: f32, ftz: bool) -> f32 {
    if ftz && x.is_subnormal() { f32::from_bits(x.to_bits() & 1 << 31) } else { x }
}

/// `function` of `x`, in f64.
#[inline(always)]
fn through_f64(x: f32, ftz: bool, function: impl FnOnce(f64) -> f64) -> f32 {
    canonical(flush(function(f64::from(flush(x, ftz))) as f32, ftz))
}

/// `ex2.approx`: 2 to the power of `x`.
#[inline(always)]
pub(crate) fn ex2(x: f32, ftz: bool) -> f32 {
    through_f64(x, ftz, exp2)
}

/// The Taylor series of 2 to the power of r: to 2⁻⁴² for |r| up to 1/2.
const SERIES: [f64; 11] = {
    let mut series = [1.0; 11];
    let mut i = 1;
    while i < series.len() {
        series[i] = series[i - 1] * std::f64::consts::LN_2 / i as f64;
        i += 1;
    }
    series
};

/// 2 to the power of `x`, of which an f32 is left: without branches or calls, so that lanes are computed side by side.
#[inline(always)]
fn exp2(x: f64) -> f64 {
    /// Added to a small number, it leaves no bits behind the point: the number's integer is in the lowest ones.
    const ROUND: f64 = (3u64 << 51) as f64;
    // Beyond, results are zero or infinite.
    let x = x.clamp(-200.0, 200.0);
    let rounded = x + ROUND;
    let rest = x - (rounded - ROUND);
    let [first @ .., last] = SERIES;
    let sum = first.iter().rev().fold(last, |sum, factor| sum * rest + factor);
    sum * f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52)
}

/// `lg2.approx`: the binary logarithm; -∞ of zeros, NaN of negative numbers.
pub(crate) fn lg2(x: f32, ftz: bool) -> f32 {
    through_f64(x, ftz, f64::log2)
}

/// `rcp.approx`: 1 / `x`.
pub(crate) fn rcp(x: f32, ftz: bool) -> f32 {
    through_f64(x, ftz, |x| 1.0 / x)
}

/// `rsqrt.approx`: 1 / √`x`; an infinity of zeros with their sign, NaN of negative numbers.
pub(crate) fn rsqrt(x: f32, ftz: bool) -> f32 {
    through_f64(x, ftz, |x| 1.0 / x.sqrt())
}

/// `sqrt.approx`: √`x`; -0 of -0, NaN of negative numbers.
pub(crate) fn sqrt(x: f32, ftz: bool) -> f32 {
    through_f64(x, ftz, f64::sqrt)
}

/// `sin.approx`; NaN of infinities. The bound holds for `x` in [-π, π]; outside it too, this is the best result.
pub(crate) fn sin(x: f32, ftz: bool) -> f32 {
    through_f64(x, ftz, f64::sin)
}

/// `cos.approx`; NaN of infinities.
pub(crate) fn cos(x: f32, ftz: bool) -> f32 {
    through_f64(x, ftz, f64::cos)
}

/// `tanh.approx`, which has no `.ftz` and keeps subnormal numbers.
pub(crate) fn tanh(x: f32) -> f32 {
    through_f64(x, false, f64::tanh)
}

/// `div.approx`: `a` / `b`, to two units in the last place. For |b| in (2¹²⁶, 2¹²⁸) the manual has it as `a · (1 / b)` with a
/// reciprocal of zero: zero, or NaN if `a` is infinite.
pub(crate) fn div(a: f32, b: f32, ftz: bool) -> f32 {
    let (a, b) = (flush(a, ftz), flush(b, ftz));
    let reciprocal_is_zero = b.is_finite() && b.abs() > f32::from_bits((127 + 126) << 23);
    let quotient =
        if reciprocal_is_zero { f64::from(a) * (0.0 * f64::from(b)) } else { f64::from(a) / f64::from(b) };
    canonical(flush(quotient as f32, ftz))
}

/// `div.full`: `a` / `b`, to two units in the last place over the full range.
pub(crate) fn div_full(a: f32, b: f32, ftz: bool) -> f32 {
    let quotient = f64::from(flush(a, ftz)) / f64::from(flush(b, ftz));
    canonical(flush(quotient as f32, ftz))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFINITY: f32 = f32::INFINITY;
    /// A subnormal number.
    const SMALL: f32 = f32::from_bits(0x0012_3456);

    /// Each argument with the exact bits of the result; NaN must be canonical.
    fn assert_cases(name: &str, function: impl Fn(f32) -> f32, cases: &[(f32, f32)]) {
        for (x, expected) in cases {
            let expected = if expected.is_nan() { NAN } else { expected.to_bits() };
            assert_eq!(function(*x).to_bits(), expected, "{name}({x:e})");
        }
        assert_eq!(function(f32::from_bits(0xffc1_2345)).to_bits(), NAN, "{name}(NaN)");
    }

    #[test]
    fn special_cases_are_those_of_the_manual() {
        let nan = f32::NAN;
        let cases =
            [(-INFINITY, 0.0), (-SMALL, 1.0), (0.0, 1.0), (SMALL, 1.0), (INFINITY, INFINITY), (-127.0, 0.0)];
        assert_cases("ex2", |x| ex2(x, true), &cases);
        assert_cases("ex2", |x| ex2(x, false), &[(-127.0, 2f32.powi(-127)), (128.0, INFINITY), (-0.0, 1.0)]);
        let cases = [
            (-INFINITY, nan),
            (-SMALL, -INFINITY),
            (-0.0, -INFINITY),
            (SMALL, -INFINITY),
            (INFINITY, INFINITY),
        ];
        assert_cases("lg2", |x| lg2(x, true), &cases);
        assert_cases("lg2", |x| lg2(x, false), &[(-1.0, nan), (f32::from_bits(1 << 9), -140.0), (1.0, 0.0)]);
        let cases = [
            (-INFINITY, -0.0),
            (-SMALL, -INFINITY),
            (-0.0, -INFINITY),
            (0.0, INFINITY),
            (INFINITY, 0.0),
            (2f32.powi(127), 0.0),
            (-2f32.powi(127), -0.0),
            (4.0, 0.25),
        ];
        assert_cases("rcp", |x| rcp(x, true), &cases);
        assert_cases("rcp", |x| rcp(x, false), &[(2f32.powi(127), 2f32.powi(-127)), (-0.0, -INFINITY)]);
        let cases = [
            (-INFINITY, nan),
            (-1.0, nan),
            (-SMALL, -INFINITY),
            (-0.0, -INFINITY),
            (0.0, INFINITY),
            (SMALL, INFINITY),
            (INFINITY, 0.0),
            (4.0, 0.5),
        ];
        assert_cases("rsqrt", |x| rsqrt(x, true), &cases);
        let cases = [
            (-INFINITY, nan),
            (-1.0, nan),
            (-SMALL, -0.0),
            (-0.0, -0.0),
            (SMALL, 0.0),
            (INFINITY, INFINITY),
            (9.0, 3.0),
        ];
        assert_cases("sqrt", |x| sqrt(x, true), &cases);
        assert_cases("sin", |x| sin(x, true), &[(INFINITY, nan), (-0.0, -0.0), (0.0, 0.0), (-SMALL, -0.0)]);
        assert_cases("cos", |x| cos(x, true), &[(-INFINITY, nan), (0.0, 1.0), (SMALL, 1.0)]);
        assert_cases("tanh", tanh, &[(-INFINITY, -1.0), (INFINITY, 1.0), (-0.0, -0.0), (SMALL, SMALL)]);
    }

    /// The largest relative and absolute error over samples of all exponents whose results are normal.
    fn errors(from: f32, to: f32, function: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> (f64, f64) {
        let samples = (from.to_bits()..to.to_bits()).step_by(40009).map(f32::from_bits);
        samples.fold((0.0, 0.0), |(relative, absolute): (f64, f64), x| {
            let exact = exact(f64::from(x));
            let error = (f64::from(function(x)) - exact).abs();
            (relative.max(error / exact.abs()), absolute.max(error))
        })
    }

    #[test]
    fn errors_are_inside_the_documented_bounds() {
        let (smallest, large) = (f32::MIN_POSITIVE, 2f32.powi(126));
        assert!(errors(smallest, 126.0, |x| ex2(-x, true), |x| (-x).exp2()).0 <= 2f64.powf(-22.5));
        assert!(errors(smallest, 127.9, |x| ex2(x, true), f64::exp2).0 <= 2f64.powf(-22.5));
        assert!(errors(0.5, 2.0, |x| lg2(x, true), f64::log2).1 <= 2f64.powi(-22));
        assert!(errors(2.0, large, |x| lg2(x, true), f64::log2).0 <= 2f64.powi(-22));
        assert!(errors(smallest, large, |x| rcp(x, true), f64::recip).0 <= 2f64.powi(-23));
        assert!(errors(smallest, large, |x| rsqrt(x, true), |x| x.sqrt().recip()).0 <= 2f64.powf(-22.9));
        assert!(errors(smallest, large, |x| sqrt(x, true), f64::sqrt).0 <= 2f64.powi(-23));
        assert!(errors(smallest, std::f32::consts::PI, |x| sin(x, true), f64::sin).1 <= 2f64.powf(-20.9));
        assert!(errors(smallest, std::f32::consts::PI, |x| cos(x, true), f64::cos).1 <= 2f64.powf(-20.9));
        assert!(errors(smallest, 20.0, tanh, f64::tanh).0 <= 2f64.powi(-11));
    }

    #[test]
    fn powers_are_the_nearest_but_for_some() {
        let samples = (0..u32::MAX).step_by(4001).map(f32::from_bits);
        let other = samples.filter(|&x| !x.is_nan() && ex2(x, false) != f64::from(x).exp2() as f32).count();
        assert!(other <= 4, "{other}");
    }

    #[test]
    fn quotients() {
        assert_eq!(div(1.0, 3.0, true), 1.0 / 3.0);
        assert_eq!(div(1.0, f32::MAX, true).to_bits(), 0);
        assert_eq!(div(INFINITY, -f32::MAX, true).to_bits(), NAN);
        assert_eq!(div(-1e30, 2f32.powi(126), false), -1e30 / 2f32.powi(126));
        assert_eq!(div_full(1e38, f32::MAX, true), 1e38 / f32::MAX);
        assert_eq!(div_full(0.0, SMALL, true).to_bits(), NAN);
        assert_eq!(div_full(-1.0, INFINITY, true).to_bits(), 1 << 31);
    }
}
