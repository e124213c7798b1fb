//! The activations in f64.

use tilewright::ops::{Activation, Gelu, Identity, Relu, Silu};
use tilewright_support::suite::Outcome;

/// An activation with its exact values.
pub trait Exact: Activation {
    /// The function in f64.
    fn exact(x: f64) -> f64;
}

impl Exact for Identity {
    fn exact(x: f64) -> f64 {
        x
    }
}

impl Exact for Relu {
    fn exact(x: f64) -> f64 {
        x.max(0.0)
    }
}

impl Exact for Gelu {
    fn exact(x: f64) -> f64 {
        0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
    }
}

impl Exact for Silu {
    fn exact(x: f64) -> f64 {
        x / (1.0 + (-x).exp())
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

/// Values from tables.
pub fn agrees_with_tables() -> Outcome {
    for (x, value) in [(0.0, 0.0), (0.5, 0.5204998778130465), (-2.0, -0.9953222650189527), (5.5, 1.0)] {
        assert!((erf(x) - value).abs() < 1e-13, "erf({x}) is {}", erf(x));
    }
    assert!((Gelu::exact(1.0) - 0.8413447460685429).abs() < 1e-13);
    assert!((Silu::exact(-1.0) + 0.2689414213699951).abs() < 1e-13);
    assert_eq!((Relu::exact(-3.0), Relu::exact(3.0), Gelu::exact(-50.0)), (0.0, 3.0, 0.0));
    Ok(())
}
