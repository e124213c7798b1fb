//! That the reference finds what is wrong.

use tilewright::{bf16, f16};
use tilewright_support::Real;
use tilewright_support::convolution::{Case, Exact, Of};
use tilewright_support::suite::Outcome;

/// What f16 gives is accepted; what bf16 gives, and a sum that lacks a tap, is not.
pub fn finds_what_is_wrong() -> Outcome {
    let case = Case { images: 2, pixels: [5, 4], channels: 6, outputs: 3, filter: [3, 2], ..Case::default() };
    let numbers = |len: usize| (0..len).map(|i| (i * 7 % 23) as f64 / 7.0 - 1.5).collect::<Vec<_>>();
    let (x, w) = (numbers(case.x().iter().product()), numbers(case.w().iter().product()));
    let exact = Exact::new(&case, Of::Outputs, [&x, &w, &[]]);
    let plain = |_, sum| (sum, 0.0);
    let out: Vec<f32> = exact.sums.iter().map(|&sum| sum as f32).collect();
    exact.check(&f16::round(&out), plain)?;
    exact.check(&f16::round(&bf16::widen(&bf16::round(&out))), plain).expect_err("rounded too much");
    let mut lacks = out.clone();
    lacks[7] -= (x[0] * w[0]) as f32;
    let error = exact.check(&f16::round(&lacks), plain).expect_err("a tap is missing");
    assert!(error.starts_with("element 7 is"), "{error}");
    lacks[7] = f32::NAN;
    exact.check(&f16::round(&lacks), plain).expect_err("NaN");
    Ok(())
}
