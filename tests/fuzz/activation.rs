//! Activations: how a call is given one, and their exact values.

use tilewright::ops::Activation;

/// The activation of this number.
pub fn of(number: usize) -> Activation {
    Activation::ALL.get(number).copied().unwrap_or_default()
}

/// Numbers of activations; 0 is none.
pub const COUNT: usize = Activation::ALL.len();
/// No activation is steeper.
pub const STEEPEST: f64 = 1.13;

/// The value of the activation of this number.
pub fn exact(number: usize, x: f64) -> f64 {
    match of(number) {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

/// The error function by its series of positive terms (DLMF 7.6.2), which loses nothing to cancellation.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > sum.abs() * 1e-17 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI
}
