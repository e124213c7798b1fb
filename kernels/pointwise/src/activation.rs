//! Activations as gates have them: told by a number at the launch, with their derivatives.

use tilewright_device::tile::{Activation, math};

const LOG2_E: f32 = core::f32::consts::LOG2_E;

/// `f` with the activation of this number: each has its own instance of `f`, so that no element asks which it is.
#[inline(always)]
pub(crate) fn with(number: u32, mut f: impl FnMut(Activation)) {
    let mut i = 0;
    while i < Activation::ALL.len() {
        if Activation::ALL[i] as u32 == number {
            f(Activation::ALL[i]);
        }
        i += 1;
    }
}

/// The function and its derivative at `x`; that of ReLU at 0 is 0.
#[inline(always)]
pub(crate) fn with_slope(activation: Activation, x: f32) -> [f32; 2] {
    let y = activation.apply(x);
    let slope = match activation {
        Activation::Identity => 1.0,
        Activation::Relu if x > 0.0 => 1.0,
        // NaN stays.
        Activation::Relu => y,
        // Φ(x) + x φ(x); Φ is y / x, of which there is none at 0.
        Activation::Gelu => {
            let phi = if x < 1e-3 && x > -1e-3 { 0.5 + 0.398_942_3 * x } else { y * math::rcp(x) };
            phi + x * 0.398_942_3 * math::ex2(-0.5 * LOG2_E * x * x)
        }
        Activation::Silu => {
            let s = math::rcp(1.0 + math::ex2(-x * LOG2_E));
            s + s * x * (1.0 - s)
        }
    };
    [y, slope]
}
