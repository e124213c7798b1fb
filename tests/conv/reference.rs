//! What a convolution and its gradients must be, and how far off they may be.

use tilewright::{bf16, f16};
use tilewright_support::Real;
use tilewright_support::suite::Outcome;

use crate::case::Case;

/// Numbers in f64, each with the sum of its terms' sizes.
pub struct Exact {
    pub sums: Vec<f64>,
    pub scales: Vec<f64>,
}

/// Which of the three tensors is the sum of products of the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    Outputs,
    Images,
    Filters,
}

impl Exact {
    /// The sums for `of`, of all three tensors in row-major order; that of `of` is not looked at.
    pub fn new(case: &Case, of: Of, [x, w, y]: [&[f64]; 3]) -> Self {
        let len = match of {
            Of::Outputs => case.y().iter().product(),
            Of::Images => case.x().iter().product(),
            Of::Filters => case.w().iter().product(),
        };
        let mut exact = Exact { sums: vec![0.0; len], scales: vec![0.0; len] };
        case.each(|at, from, filter| {
            let (to, product) = match of {
                Of::Outputs => (at, x[from] * w[filter]),
                Of::Images => (from, y[at] * w[filter]),
                Of::Filters => (filter, y[at] * x[from]),
            };
            exact.sums[to] += product;
            exact.scales[to] += product.abs();
        });
        exact
    }

    /// Compares `out` with what `finish` makes of the sums: a number and what its terms add to its error.
    pub fn check<T: Real>(&self, out: &[T], finish: impl Fn(usize, f64) -> (f64, f64)) -> Result<(), String> {
        /// Error of a sum of products in f32, relative to its terms: tensor cores round each step toward zero.
        const SUM: f64 = 2e-6;
        /// Half of f16's smallest step.
        const SUBNORMAL: f64 = 3e-8;
        let out = T::widen(out);
        assert_eq!(out.len(), self.sums.len());
        for (at, &out) in out.iter().enumerate() {
            let (exact, terms) = finish(at, self.sums[at]);
            let before = SUM * (self.scales[at] + terms);
            let bound = 1.13 * before + 1e-6 * exact.abs() + T::ROUNDING * (exact.abs() + before) + SUBNORMAL;
            let off = (f64::from(out) - exact).abs();
            if off.is_nan() || off > bound {
                return Err(format!("element {at} is {out}, must be {exact} within {bound:.2e}"));
            }
        }
        Ok(())
    }
}

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
