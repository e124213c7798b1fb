//! The element types that stand for real numbers.

use half::{bf16, f16};
use tilewright::Element;

/// An element type with conversions, done in software on the host.
pub trait Real: Element {
    /// Half the distance from 1 to the next value: the relative error of rounding.
    const ROUNDING: f64;
    /// What outputs are filled with before a kernel writes them.
    const POISON: Self;

    /// The nearest value.
    fn from_f64(x: f64) -> Self;
    /// The value, exactly.
    fn to_f32(self) -> f32;
}

macro_rules! real {
    ($($t:ty, $digits:literal, $from:expr, $to:expr;)*) => { $(
        impl Real for $t {
            const ROUNDING: f64 = 1.0 / (1u64 << $digits) as f64;
            const POISON: Self = <$t>::NAN;
            fn from_f64(x: f64) -> Self {
                $from(x)
            }
            fn to_f32(self) -> f32 {
                let to: fn($t) -> f32 = $to;
                to(self)
            }
        }
    )* };
}
real! {
    f16, 11, f16::from_f64, |x| x.to_f32();
    bf16, 8, bf16::from_f64, |x| x.to_f32();
    f32, 24, |x| x as f32, |x| x;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_half_a_step() {
        assert_eq!(f16::ROUNDING * 2.0, f64::from(f16::EPSILON.to_f32()));
        assert_eq!(bf16::ROUNDING * 2.0, f64::from(bf16::EPSILON.to_f32()));
        assert_eq!(f32::ROUNDING * 2.0, f64::from(f32::EPSILON));
    }
}
