//! Divisions whose divisor the host knows.

use crate::abi::{PassedAsIs, Plain};

/// A division by a number known beforehand, as a multiplication (Granlund & Montgomery 1994).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Division {
    /// What is divided by.
    pub divisor: u32,
    multiplier: u32,
    shift: u32,
}

impl Division {
    /// Exact for every numerator below 2^31. A divisor of 0 is taken as 1.
    pub const fn by(divisor: u32) -> Self {
        let divisor = if divisor == 0 { 1 } else { divisor };
        let shift = 31 + (u32::BITS - (divisor - 1).leading_zeros());
        let multiplier = (1u64 << shift).div_ceil(divisor as u64) as u32;
        Division { divisor, multiplier, shift }
    }
    /// What [`plus`](Self::plus) makes this division of `other` with.
    pub const fn minus(self, other: Self) -> Self {
        Division {
            divisor: self.divisor.wrapping_sub(other.divisor),
            multiplier: self.multiplier.wrapping_sub(other.multiplier),
            shift: self.shift.wrapping_sub(other.shift),
        }
    }
    /// The division that `times` times `difference` leads to.
    #[inline(always)]
    pub const fn plus(self, difference: Self, times: u32) -> Self {
        Division {
            divisor: self.divisor.wrapping_add(difference.divisor.wrapping_mul(times)),
            multiplier: self.multiplier.wrapping_add(difference.multiplier.wrapping_mul(times)),
            shift: self.shift.wrapping_add(difference.shift.wrapping_mul(times)),
        }
    }
    /// Quotient and remainder.
    #[inline(always)]
    pub const fn of(self, x: u32) -> (u32, u32) {
        let quotient = ((x as u64 * self.multiplier as u64) >> self.shift) as u32;
        (quotient, x.wrapping_sub(quotient.wrapping_mul(self.divisor)))
    }
}

impl PassedAsIs for Division {}

// SAFETY: numbers to calculate with.
unsafe impl Plain for Division {}
