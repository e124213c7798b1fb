//! The element types that stand for real numbers.

use half::{bf16, f16};
use rayon::prelude::*;
use tilewright::{Element, F8E4M3};

/// An element type with conversions, done in software on the host.
///
/// They take whole slices, so that they are compiled here, optimised, and not in every test.
pub trait Real: Element {
    /// Half the distance from 1 to the next value: the relative error of rounding.
    const ROUNDING: f64;
    /// The absolute error of rounding to a number below the normal ones; f32's and bf16's may be taken for 0.
    const LEAST: f64;
    /// What outputs are filled with before a kernel writes them.
    const POISON: Self;

    /// The values, exactly.
    fn widen(values: &[Self]) -> Vec<f32>;
    /// The nearest values.
    fn round(values: &[f32]) -> Vec<Self>;
}

macro_rules! real {
    ($($t:ty, $digits:literal, $least:expr, $nan:expr, $to:expr, $from:expr;)*) => { $(
        impl Real for $t {
            const ROUNDING: f64 = 1.0 / (1u64 << $digits) as f64;
            const LEAST: f64 = $least;
            const POISON: Self = $nan;
            fn widen(values: &[Self]) -> Vec<f32> {
                let to: fn($t) -> f32 = $to;
                values.par_iter().with_min_len(1 << 12).map(|&x| to(x)).collect()
            }
            fn round(values: &[f32]) -> Vec<Self> {
                values.par_iter().with_min_len(1 << 12).map(|&x| $from(x)).collect()
            }
        }
    )* };
}
real! {
    f16, 11, 1.0 / (1u64 << 25) as f64, f16::NAN, |x| x.to_f32(), f16::from_f32;
    bf16, 8, f32::MIN_POSITIVE as f64, bf16::NAN, |x| x.to_f32(), bf16::from_f32;
    f32, 24, f32::MIN_POSITIVE as f64, f32::NAN, |x| x, f32::from;
    F8E4M3, 4, 1.0 / 1024.0, F8E4M3::from_bits(0x7f), |x| x.to_f32(), F8E4M3::from_f32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_half_a_step() {
        assert_eq!(f16::ROUNDING * 2.0, f64::from(f16::EPSILON.to_f32()));
        assert_eq!(bf16::ROUNDING * 2.0, f64::from(bf16::EPSILON.to_f32()));
        assert_eq!(f32::ROUNDING * 2.0, f64::from(f32::EPSILON));
        assert_eq!(f16::LEAST * 2.0, f64::from(f16::MIN_POSITIVE_SUBNORMAL.to_f32()));
    }

    #[test]
    fn conversions_go_there_and_back() {
        let values = [0.0, 1.5, -3.0, 1.0e-3];
        assert_eq!(f32::widen(&values), values);
        let halves = f16::round(&values);
        assert_eq!(f16::round(&f16::widen(&halves)), halves);
        assert_eq!(bf16::round(&[257.0])[0].to_f32(), 256.0);
    }
}
