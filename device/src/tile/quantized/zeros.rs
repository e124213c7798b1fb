//! What a code's value becomes by its group's scale and zero.

use crate::tile::quantized::format::{Decode, Half};

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
    /// What registers of even and of odd number have by [`unscaled`](Self::unscaled) is to be multiplied by: powers of two.
    fn factors<T: Half, F: Decode<T>>() -> [f32; 2];
    /// What [`unscaled`](Self::unscaled) takes for this pair of zeros.
    fn unscaled_zero<T: Half, F: Decode<T>>(zero: u32) -> u32;
    /// What is scaled, in the fewest instructions, but for [`factors`](Self::factors).
    fn unscaled<T: Half, F: Decode<T>>(words: &[u32; 8], register: u32, zero: u32) -> u32;
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
    fn factors<T: Half, F: Decode<T>>() -> [f32; 2] {
        F::UNITS.map(power)
    }
    #[inline(always)]
    fn unscaled_zero<T: Half, F: Decode<T>>(_: u32) -> u32 {
        0
    }
    #[inline(always)]
    fn unscaled<T: Half, F: Decode<T>>(words: &[u32; 8], register: u32, _: u32) -> u32 {
        F::unscaled(words, register)
    }
}

/// 2 to the `e`.
#[inline(always)]
fn power(e: i32) -> f32 {
    f32::from_bits(((e + 127) as u32) << 23)
}

/// True where one fma takes the zero off codes; of f16's zeros below 2^-5 it loses what is below 2^-16.
#[inline(always)]
fn fused<T: Half, F: Decode<T>>() -> bool {
    F::CODES[0] > T::DIFFERENCES
}

impl ZerosFirst for Original {
    #[inline(always)]
    fn factors<T: Half, F: Decode<T>>() -> [f32; 2] {
        [if fused::<T, F>() { power(T::DIFFERENCES) } else { 1.0 }; 2]
    }
    #[inline(always)]
    fn unscaled_zero<T: Half, F: Decode<T>>(zero: u32) -> u32 {
        if fused::<T, F>() { T::mul(zero ^ 0x8000_8000, T::power(-T::DIFFERENCES)) } else { zero }
    }
    #[inline(always)]
    fn unscaled<T: Half, F: Decode<T>>(words: &[u32; 8], register: u32, zero: u32) -> u32 {
        if fused::<T, F>() {
            let unit = F::CODES[register as usize % 2];
            return T::fma(F::codes(words, register), T::power(unit - T::DIFFERENCES), zero);
        }
        T::sub(F::register(words, register), zero)
    }
}
