//! Sums, products, quotients and roots before they are rounded, for the roundings that the CPU has not.
//!
//! PTX ISA, "Floating Point Instructions": `.rz`, `.rm` and `.rp` of f32 and f64. Operands are given as f64, in which every f32
//! is exact.

use super::{Rounding, away_from_zero};

/// A result that is not rounded yet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unrounded {
    /// Zero, an infinity or NaN.
    Special(f64),
    Finite(Finite),
}

/// `magnitude · 2^exponent`, and whether there is more, less than one in the last place of the magnitude.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finite {
    negative: bool,
    magnitude: u128,
    exponent: i32,
    more: bool,
}

/// The fields of a format: bits of its significand, the exponent of its smallest number, the bits of infinity.
const F32: (u32, i32, u64) = (24, -149, 0x7f80_0000);
const F64: (u32, i32, u64) = (53, -1074, 0x7ff << 52);

impl Unrounded {
    /// An integer.
    pub(crate) fn integer(value: i128) -> Self {
        match value {
            0 => Self::Special(0.0),
            _ => Self::Finite(Finite {
                negative: value < 0,
                magnitude: value.unsigned_abs(),
                exponent: 0,
                more: false,
            }),
        }
    }

    /// As f32.
    pub(crate) fn f32(self, rounding: Rounding) -> f32 {
        match self {
            Self::Special(value) => value as f32,
            Self::Finite(finite) => {
                let sign = u32::from(finite.negative) << 31;
                f32::from_bits(finite.round(F32, rounding) as u32 | sign)
            }
        }
    }

    /// As f64.
    pub(crate) fn f64(self, rounding: Rounding) -> f64 {
        match self {
            Self::Special(value) => value,
            Self::Finite(finite) => {
                f64::from_bits(finite.round(F64, rounding) | u64::from(finite.negative) << 63)
            }
        }
    }
}

impl Finite {
    /// The parts of a number that is neither zero nor infinite nor NaN.
    fn new(x: f64) -> Option<Self> {
        let (field, fraction) = (x.to_bits() >> 52 & 0x7ff, x.to_bits() & ((1 << 52) - 1));
        let (magnitude, exponent) = match field {
            0x7ff => return None,
            0 if fraction == 0 => return None,
            0 => (fraction, -1074),
            _ => (fraction | 1 << 52, field as i32 - 1075),
        };
        Some(Self { negative: x.is_sign_negative(), magnitude: magnitude.into(), exponent, more: false })
    }

    /// With the highest bit of the magnitude at this place or, without `more`, anywhere below it.
    fn normal(self, top: u32) -> Self {
        let up = self.magnitude.leading_zeros() - (127 - top);
        Self { magnitude: self.magnitude << up, exponent: self.exponent - up as i32, ..self }
    }

    /// The bits of the magnitude in a format.
    fn round(self, (precision, smallest, infinity): (u32, i32, u64), rounding: Rounding) -> u64 {
        let bits = 128 - self.magnitude.leading_zeros() as i32;
        let unit = (self.exponent + bits - precision as i32).max(smallest);
        let drop = unit - self.exponent;
        let (kept, rest, half) = match drop {
            ..=0 => ((self.magnitude << -drop) as u64, 0, 1),
            1..=127 => {
                let rest = self.magnitude & ((1 << drop) - 1);
                ((self.magnitude >> drop) as u64, rest, 1 << (drop - 1))
            }
            // All of it is less than half.
            _ => (0, 1, 2),
        };
        let inexact = rest != 0 || self.more;
        let up = match rounding {
            Rounding::Nearest => rest > half || rest == half && (self.more || kept & 1 == 1),
            Rounding::Away => rest >= half,
            _ => inexact && away_from_zero(rounding, self.negative, false),
        };
        // A carry out of the significand goes into the exponent, which is clipped above any format's range.
        let result = (((unit - smallest).min(0x7ff) as u64) << (precision - 1)) + kept + u64::from(up);
        if result < infinity {
            result
        } else if away_from_zero(rounding, self.negative, true) {
            infinity
        } else {
            infinity - 1
        }
    }
}

/// `a · b + c`.
pub(crate) fn fma(a: f64, b: f64, c: f64, rounding: Rounding) -> Unrounded {
    let product = Finite::new(a).zip(Finite::new(b)).map(|(a, b)| Finite {
        negative: a.negative != b.negative,
        magnitude: a.magnitude * b.magnitude,
        exponent: a.exponent + b.exponent,
        more: false,
    });
    match (product, Finite::new(c)) {
        (Some(product), Some(c)) => sum(product, c, rounding),
        (Some(product), None) if c == 0.0 => Unrounded::Finite(product),
        (Some(_), None) => Unrounded::Special(c),
        (None, Some(c)) if a * b == 0.0 => Unrounded::Finite(c),
        // Zeros, infinities and NaN.
        _ => {
            let value = a * b + c;
            let cancels = value == 0.0 && (a * b).is_sign_negative() != c.is_sign_negative();
            Unrounded::Special(if cancels && rounding == Rounding::Down { -0.0 } else { value })
        }
    }
}

/// `a + b`.
pub(crate) fn add(a: f64, b: f64, rounding: Rounding) -> Unrounded {
    fma(a, 1.0, b, rounding)
}

/// `a · b`.
pub(crate) fn mul(a: f64, b: f64, rounding: Rounding) -> Unrounded {
    // Adding a zero of the product's sign changes nothing.
    let zero = if a.is_sign_negative() == b.is_sign_negative() { 0.0 } else { -0.0 };
    fma(a, b, zero, rounding)
}

/// `a / b`.
pub(crate) fn div(a: f64, b: f64) -> Unrounded {
    match Finite::new(a).zip(Finite::new(b)) {
        Some((a, b)) => {
            let a = Finite { negative: a.negative != b.negative, ..a.normal(126) };
            let b = b.normal(52);
            Unrounded::Finite(Finite {
                magnitude: a.magnitude / b.magnitude,
                exponent: a.exponent - b.exponent,
                more: !a.magnitude.is_multiple_of(b.magnitude),
                ..a
            })
        }
        None => Unrounded::Special(a / b),
    }
}

/// √`a`.
pub(crate) fn sqrt(a: f64) -> Unrounded {
    match Finite::new(a).filter(|a| !a.negative) {
        Some(a) => {
            let a = a.normal(if a.normal(126).exponent % 2 == 0 { 126 } else { 125 });
            let root = a.magnitude.isqrt();
            let more = root * root != a.magnitude;
            Unrounded::Finite(Finite { magnitude: root, exponent: a.exponent / 2, more, ..a })
        }
        None => Unrounded::Special(a.sqrt()),
    }
}

/// The sum of two numbers.
fn sum(a: Finite, b: Finite, rounding: Rounding) -> Unrounded {
    let (a, b) = (a.normal(125), b.normal(125));
    let (large, small) = if (a.exponent, a.magnitude) >= (b.exponent, b.magnitude) { (a, b) } else { (b, a) };
    let by = (large.exponent - small.exponent) as u32;
    let (shifted, more) = match by {
        0..=127 => (small.magnitude >> by, small.magnitude & ((1 << by) - 1) != 0),
        _ => (0, true),
    };
    let magnitude = if large.negative == small.negative {
        large.magnitude + shifted
    } else {
        // What was shifted out is missing from the difference.
        large.magnitude - shifted - u128::from(more)
    };
    if magnitude == 0 {
        return Unrounded::Special(if rounding == Rounding::Down { -0.0 } else { 0.0 });
    }
    Unrounded::Finite(Finite { magnitude, more, ..large })
}

#[cfg(test)]
mod tests {
    use rustc_apfloat::ieee::{Double, Single};
    use rustc_apfloat::{Float, Round, StatusAnd};

    use super::*;

    const ROUNDINGS: [(Rounding, Round); 5] = [
        (Rounding::Nearest, Round::NearestTiesToEven),
        (Rounding::Away, Round::NearestTiesToAway),
        (Rounding::Zero, Round::TowardZero),
        (Rounding::Down, Round::TowardNegative),
        (Rounding::Up, Round::TowardPositive),
    ];

    /// Patterns of f64, of small and of all exponents.
    fn patterns() -> impl FnMut() -> f64 {
        let mut random = fastrand::Rng::with_seed(1);
        move || {
            let mut next = || random.u64(..) >> 11;
            let (fraction, choice) = (next(), next() >> 20);
            let exponent = if choice % 3 == 0 { next() >> 20 & 0x7ff } else { 1000 + (next() >> 20) % 50 };
            let fraction = if choice % 5 == 0 { fraction & !0xff_ffff_ffff } else { fraction };
            f64::from_bits(fraction & ((1 << 52) - 1) | exponent << 52 | (choice % 2) << 63)
        }
    }

    fn same(a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
    }

    #[test]
    fn rounded_to_nearest_they_are_the_cpus() {
        let mut next = patterns();
        for _ in 0..300_000 {
            let (a, b, c) = (next(), next(), next());
            let nearest = Rounding::Nearest;
            assert!(same(add(a, b, nearest).f64(nearest), a + b), "{a:e} + {b:e}");
            assert!(same(mul(a, b, nearest).f64(nearest), a * b), "{a:e} · {b:e}");
            assert!(same(fma(a, b, c, nearest).f64(nearest), a.mul_add(b, c)), "{a:e} · {b:e} + {c:e}");
            assert!(same(fma(a, b, -(a * b), nearest).f64(nearest), a.mul_add(b, -(a * b))), "{a:e} · {b:e}");
            assert!(same(div(a, b).f64(nearest), a / b), "{a:e} / {b:e}");
            assert!(same(sqrt(a).f64(nearest), a.sqrt()), "√{a:e}");
            let (x, y) = (a as f32, b as f32);
            assert!(same(div(x.into(), y.into()).f32(nearest).into(), (x / y).into()), "{x:e} / {y:e}");
            assert!(same(sqrt(x.into()).f32(nearest).into(), x.sqrt().into()), "√{x:e}");
        }
    }

    #[test]
    fn in_every_rounding_they_are_those_of_another_implementation() {
        let mut next = patterns();
        for i in 0..300_000 {
            let (rounding, other) = ROUNDINGS[i % ROUNDINGS.len()];
            let (x, y, z) = (next(), next(), next());
            let [a, b, c] = [x, y, z].map(|x| Double::from_bits(x.to_bits().into()));
            let check = |what, found: Unrounded, expected: StatusAnd<Double>| {
                let (found, expected) =
                    (found.f64(rounding), f64::from_bits(expected.value.to_bits() as u64));
                assert!(same(found, expected), "{what} of {x:e}, {y:e}, {z:e} {rounding:?}");
            };
            check("sum", add(x, y, rounding), a.add_r(b, other));
            check("product", mul(x, y, rounding), a.mul_r(b, other));
            check("quotient", div(x, y), a.div_r(b, other));
            check("fused product", fma(x, y, z, rounding), a.mul_add_r(b, c, other));
            let [x, y, z] = [x, y, z].map(|x| x as f32);
            let [a, b, c] = [x, y, z].map(|x| Single::from_bits(x.to_bits().into()));
            let [x, y, z] = [x, y, z].map(f64::from);
            let check = |what, found: Unrounded, expected: StatusAnd<Single>| {
                let (found, expected) =
                    (found.f32(rounding), f32::from_bits(expected.value.to_bits() as u32));
                assert!(same(found.into(), expected.into()), "{what} of {x:e}, {y:e}, {z:e} {rounding:?}");
            };
            check("sum", add(x, y, rounding), a.add_r(b, other));
            check("product", mul(x, y, rounding), a.mul_r(b, other));
            check("quotient", div(x, y), a.div_r(b, other));
            check("fused product", fma(x, y, z, rounding), a.mul_add_r(b, c, other));
        }
    }

    #[test]
    fn edges() {
        let (down, up, zero) = (Rounding::Down, Rounding::Up, Rounding::Zero);
        assert!(same(add(1.0, -1.0, down).f64(down), -0.0) && same(add(1.0, -1.0, up).f64(up), 0.0));
        assert!(same(add(-0.0, -0.0, up).f64(up), -0.0) && same(mul(-0.0, 1.0, down).f64(down), -0.0));
        assert!(same(mul(0.0, 1.0, down).f64(down), 0.0));
        assert_eq!(mul(f64::MAX, 2.0, zero).f64(zero), f64::MAX);
        assert_eq!(mul(f64::MAX, -2.0, down).f64(down), f64::NEG_INFINITY);
        assert_eq!(mul(f64::MIN_POSITIVE, 2f64.powi(-60), up).f64(up), f64::from_bits(1));
        assert_eq!(add(1.0, 1e-300, up).f32(up), 1.0f32.next_up());
        assert_eq!(div(1.0, 3.0).f32(zero), 0.333_333_3);
        assert_eq!(Unrounded::integer(-16_777_217).f32(up), -16_777_216.0);
        assert_eq!(Unrounded::integer(i128::from(u64::MAX)).f64(zero), 18_446_744_073_709_549_568.0);
    }
}
