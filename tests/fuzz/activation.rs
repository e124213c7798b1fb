//! Activations: how a call is given one, and their exact values.

/// `$run` with the operator `$op`, which has the activation of this number, as `$with`.
macro_rules! activated {
    ($number:expr, $op:expr, |$with:ident| $run:expr) => {
        match $number {
            1 => {
                let $with = $op.activation::<tilewright::ops::Relu>();
                $run
            }
            2 => {
                let $with = $op.activation::<tilewright::ops::Gelu>();
                $run
            }
            3 => {
                let $with = $op.activation::<tilewright::ops::Silu>();
                $run
            }
            _ => {
                let $with = $op;
                $run
            }
        }
    };
}
pub(crate) use activated;

/// Numbers of activations; 0 is none.
pub const COUNT: usize = 4;
/// No activation is steeper.
pub const STEEPEST: f64 = 1.13;

/// The value of the activation of this number.
pub fn exact(number: usize, x: f64) -> f64 {
    match number {
        1 => x.max(0.0),
        2 => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        3 => x / (1.0 + (-x).exp()),
        _ => x,
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
