//! Activations: what an epilogue applies to every element.

use core::fmt;

use crate::arch::math::{ex2, rcp};

/// log2(e): e^x is 2^(x log2(e)).
const LOG2_E: f32 = core::f32::consts::LOG2_E;

/// A function of every element of a result, applied in f32. NaN gives NaN.
///
/// An [`Epilogue`](crate::tile::Epilogue) is told it at the launch; a kernel that always applies the same one calls
/// [`apply`](Self::apply) of that.
#[repr(u32)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// x.
    #[default]
    Identity,
    /// max(x, 0).
    Relu,
    /// x Φ(x) with the normal distribution's Φ (Hendrycks & Gimpel 2016), not its tanh approximation.
    Gelu,
    /// x / (1 + e^-x), also called swish.
    Silu,
}

impl Activation {
    /// All of them.
    pub const ALL: [Activation; 4] =
        [Activation::Identity, Activation::Relu, Activation::Gelu, Activation::Silu];

    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Activation::Identity => "none",
            Activation::Relu => "relu",
            Activation::Gelu => "gelu",
            Activation::Silu => "silu",
        }
    }

    /// The function.
    #[inline(always)]
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Activation::Identity => x,
            Activation::Relu => relu(x),
            Activation::Gelu => gelu(x),
            Activation::Silu => silu(x),
        }
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[inline(always)]
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// The error function is Abramowitz & Stegun 7.1.26: absolute error at most 1.5e-7.
#[inline(always)]
fn gelu(x: f32) -> f32 {
    let z = x * core::f32::consts::FRAC_1_SQRT_2;
    let size = if z < 0.0 { -z } else { z };
    let t = rcp(1.0 + 0.327_591_1 * size);
    let series =
        t * (0.254_829_6 + t * (-0.284_496_74 + t * (1.421_413_8 + t * (-1.453_152 + t * 1.061_405_4))));
    // 1 - |erf(z)|, the two tails together.
    let tails = series * ex2(-size * size * LOG2_E);
    let twice_phi = if z < 0.0 { tails } else { 2.0 - tails };
    0.5 * x * twice_phi
}

#[inline(always)]
fn silu(x: f32) -> f32 {
    x * rcp(1.0 + ex2(-x * LOG2_E))
}
