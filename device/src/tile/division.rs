//! Divisions whose divisor the host knows.

/// A division by a number known beforehand, as a multiplication (Granlund & Montgomery 1994).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Division {
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
    /// Quotient and remainder.
    #[inline(always)]
    pub const fn of(self, x: u32) -> (u32, u32) {
        let quotient = ((x as u64 * self.multiplier as u64) >> self.shift) as u32;
        (quotient, x.wrapping_sub(quotient.wrapping_mul(self.divisor)))
    }
}
