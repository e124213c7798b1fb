//! Activations: what an epilogue applies to every element.

use crate::abi::KernelArg;
use crate::arch::math::{ex2, rcp};
use crate::layout::FragmentLayout;
use crate::tile::fragment::Fragment;

/// log2(e): e^x is 2^(x log2(e)).
const LOG2_E: f32 = core::f32::consts::LOG2_E;

/// A function of one `f32`, chosen as a type parameter of a kernel.
///
/// NaN gives NaN.
pub trait Activation: Copy + Default + Send + Sync + 'static {
    /// The function's name in kernel names and messages.
    const NAME: &'static str;
    /// The function.
    fn apply(x: f32) -> f32;
}

/// x.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

/// max(x, 0).
#[derive(Clone, Copy, Debug, Default)]
pub struct Relu;

/// x Φ(x) with the normal distribution's Φ (Hendrycks & Gimpel 2016), not its tanh approximation.
///
/// The error function is Abramowitz & Stegun 7.1.26: absolute error at most 1.5e-7.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gelu;

/// x / (1 + e^-x), also called swish.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silu;

impl Activation for Identity {
    const NAME: &'static str = "none";
    #[inline(always)]
    fn apply(x: f32) -> f32 {
        x
    }
}

impl Activation for Relu {
    const NAME: &'static str = "relu";
    #[inline(always)]
    fn apply(x: f32) -> f32 {
        if x < 0.0 { 0.0 } else { x }
    }
}

impl Activation for Gelu {
    const NAME: &'static str = "gelu";
    #[inline(always)]
    fn apply(x: f32) -> f32 {
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
}

impl Activation for Silu {
    const NAME: &'static str = "silu";
    #[inline(always)]
    fn apply(x: f32) -> f32 {
        x * rcp(1.0 + ex2(-x * LOG2_E))
    }
}

/// An activation that a kernel is told at its launch, not by its type.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnyActivation(u32);

impl AnyActivation {
    /// [`Identity`].
    pub const IDENTITY: Self = Self(0);
    /// [`Relu`].
    pub const RELU: Self = Self(1);
    /// [`Gelu`].
    pub const GELU: Self = Self(2);
    /// [`Silu`].
    pub const SILU: Self = Self(3);

    /// The function.
    #[inline(always)]
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Self::RELU => Relu::apply(x),
            Self::GELU => Gelu::apply(x),
            Self::SILU => Silu::apply(x),
            _ => x,
        }
    }
}

impl KernelArg for AnyActivation {
    type Abi = Self;
    #[inline(always)]
    unsafe fn load(at: *const Self) -> Self {
        // SAFETY: the caller passes an initialised parameter.
        unsafe { *at }
    }
}

impl<const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<f32, M, N, L> {
    /// The activation of every element: one branch for all of them.
    #[inline(always)]
    pub fn activate(self, activation: AnyActivation) -> Self {
        match activation {
            AnyActivation::RELU => self.map(Relu::apply),
            AnyActivation::GELU => self.map(Gelu::apply),
            AnyActivation::SILU => self.map(Silu::apply),
            _ => self,
        }
    }
}
