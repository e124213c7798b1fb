//! What a code's value becomes by its group's scale and zero.

use crate::tile::quantized::format::{DIFFERENCES, Decode, Half};

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

    /// Registers of even and of odd number have by [`unscaled`](Self::unscaled) what is scaled times 2 to the minus so many.
    fn units<T: Half, F: Decode<T>>() -> [i32; 2];
    /// What [`unscaled`](Self::unscaled) takes for this pair of zeros.
    fn unscaled_zero<T: Half, F: Decode<T>>(zero: u32) -> u32;
    /// What is scaled, in the fewest instructions, but for [`units`](Self::units).
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
    fn shift<T: Half>(q: u32, _: u32) -> u32 {
        q
    }
    #[inline(always)]
    fn units<T: Half, F: Decode<T>>() -> [i32; 2] {
        F::UNITS
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

/// True where one fma takes the zero off what is unscaled; of a zero below 2^-5 it loses what is below 2^-16.
#[inline(always)]
fn fused<T: Half, F: Decode<T>>() -> bool {
    F::UNITS[0] > DIFFERENCES
}

impl ZerosFirst for Original {
    #[inline(always)]
    fn shift<T: Half>(q: u32, zero: u32) -> u32 {
        T::sub(q, zero)
    }
    #[inline(always)]
    fn units<T: Half, F: Decode<T>>() -> [i32; 2] {
        if fused::<T, F>() { [DIFFERENCES; 2] } else { [0; 2] }
    }
    #[inline(always)]
    fn unscaled_zero<T: Half, F: Decode<T>>(zero: u32) -> u32 {
        if fused::<T, F>() { T::mul(zero ^ 0x8000_8000, T::power(-DIFFERENCES)) } else { zero }
    }
    #[inline(always)]
    fn unscaled<T: Half, F: Decode<T>>(words: &[u32; 8], register: u32, zero: u32) -> u32 {
        if fused::<T, F>() {
            let unit = F::UNITS[register as usize % 2];
            return T::fma(F::unscaled(words, register), T::power(unit - DIFFERENCES), zero);
        }
        T::sub(F::register(words, register), zero)
    }
}
