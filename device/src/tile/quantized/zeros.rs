//! What a code's value becomes by its group's scale and zero.

use super::format::Half;

/// Where the zero of a group enters.
pub trait Zeros: Copy + Default + Send + Sync + 'static {
    /// Its name in kernels' names and messages.
    const NAME: &'static str;
    /// False where groups have no zeros.
    const STORED: bool;
    /// Weights from pairs of values, scales and zeros.
    fn apply<T: Half>(q: u32, scale: u32, zero: u32) -> u32;
}

/// Zeros that come before scales: a scale may then multiply a group's sum.
pub trait ZerosFirst: Zeros {
    /// What is scaled, from pairs of values and zeros.
    fn shift<T: Half>(q: u32, zero: u32) -> u32;
}

/// w = q s.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoZeros;

/// w = (q - z) s.
#[derive(Clone, Copy, Debug, Default)]
pub struct Original;

/// w = q s - z.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rescaled;

impl Zeros for NoZeros {
    const NAME: &'static str = "none";
    const STORED: bool = false;
    #[inline(always)]
    fn apply<T: Half>(q: u32, scale: u32, _: u32) -> u32 {
        T::mul(q, scale)
    }
}

impl Zeros for Original {
    const NAME: &'static str = "original";
    const STORED: bool = true;
    #[inline(always)]
    fn apply<T: Half>(q: u32, scale: u32, zero: u32) -> u32 {
        T::mul(T::sub(q, zero), scale)
    }
}

impl Zeros for Rescaled {
    const NAME: &'static str = "rescaled";
    const STORED: bool = true;
    #[inline(always)]
    fn apply<T: Half>(q: u32, scale: u32, zero: u32) -> u32 {
        T::fma(q, scale, zero ^ 0x8000_8000)
    }
}

impl ZerosFirst for NoZeros {
    #[inline(always)]
    fn shift<T: Half>(q: u32, _: u32) -> u32 {
        q
    }
}

impl ZerosFirst for Original {
    #[inline(always)]
    fn shift<T: Half>(q: u32, zero: u32) -> u32 {
        T::sub(q, zero)
    }
}
