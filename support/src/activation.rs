//! The activations in f64.

use tilewright_device::tile::Activation;

use crate::reference::erf;

/// No activation is steeper.
pub const STEEPEST: f64 = 1.13;

/// The activation's exact value.
pub fn exact(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_agree_with_tables() {
        for (x, value) in [(0.0, 0.0), (0.5, 0.5204998778130465), (-2.0, -0.9953222650189527), (5.5, 1.0)] {
            assert!((erf(x) - value).abs() < 1e-13, "erf({x}) is {}", erf(x));
        }
        let [relu, gelu, silu] = [Activation::Relu, Activation::Gelu, Activation::Silu];
        assert!((exact(gelu, 1.0) - 0.8413447460685429).abs() < 1e-13);
        assert!((exact(silu, -1.0) + 0.2689414213699951).abs() < 1e-13);
        assert_eq!((exact(relu, -3.0), exact(relu, 3.0), exact(gelu, -50.0)), (0.0, 3.0, 0.0));
    }

    #[test]
    fn none_is_steeper() {
        for activation in Activation::ALL {
            let slope = |i: i32| {
                let x = f64::from(i) * 1e-3;
                (exact(activation, x + 1e-3) - exact(activation, x)) / 1e-3
            };
            let steepest = (-9000..9000).map(slope).fold(0.0, f64::max);
            assert!((0.99..STEEPEST).contains(&steepest), "{activation}: {steepest}");
        }
    }
}
