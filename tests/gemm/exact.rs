//! The activations in f64.

use tilewright::ops::Activation;
use tilewright_support::reference::erf;
use tilewright_support::suite::Outcome;

/// The activation's exact value.
pub fn exact(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

/// Values from tables.
pub fn agrees_with_tables() -> Outcome {
    for (x, value) in [(0.0, 0.0), (0.5, 0.5204998778130465), (-2.0, -0.9953222650189527), (5.5, 1.0)] {
        assert!((erf(x) - value).abs() < 1e-13, "erf({x}) is {}", erf(x));
    }
    let [relu, gelu, silu] = [Activation::Relu, Activation::Gelu, Activation::Silu];
    assert!((exact(gelu, 1.0) - 0.8413447460685429).abs() < 1e-13);
    assert!((exact(silu, -1.0) + 0.2689414213699951).abs() < 1e-13);
    assert_eq!((exact(relu, -3.0), exact(relu, 3.0), exact(gelu, -50.0)), (0.0, 3.0, 0.0));
    Ok(())
}
