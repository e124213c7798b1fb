//! What a product must be, and how far off it may be.

use tilewright::ops::Activation;
use tilewright::{bf16, f16};
use tilewright_support::Real;
use tilewright_support::activation::{STEEPEST, exact};
use tilewright_support::random::normal;
use tilewright_support::reference::{product, sample};
use tilewright_support::suite::Outcome;

use crate::bias::Bias;
use crate::operand::Values;

/// A B in f64, of all rows or of some.
pub struct Reference {
    pub shape: [usize; 3],
    pub depth: usize,
    rows: Vec<usize>,
    /// The rows of every matrix, one behind the other.
    sums: Vec<f64>,
    /// Of every element, the product of the lengths of A's row and B's column: no partial sum is larger.
    scales: Vec<f64>,
}

impl Reference {
    /// Of at most `most` rows of each matrix.
    pub fn new(a: &Values, b: &Values, batch: usize, most: usize) -> Self {
        let ([_, m, k], [_, inner, n]) = (a.shape(), b.shape());
        assert_eq!(k, inner, "the depths of A and B");
        let rows = sample(m, most);
        let (mut sums, mut scales) = (Vec::new(), Vec::new());
        for number in 0..batch {
            sums.extend(product(a.matrix(number), b.matrix(number), &rows));
            let ([lines, _], [_, columns]) = (a.lengths(number), b.lengths(number));
            scales.extend(rows.iter().flat_map(|&row| columns.iter().map(move |column| lines[row] * column)));
        }
        Self { shape: [batch, m, n], depth: k, rows, sums, scales }
    }

    /// Error of a sum of products in f32, relative to its scale: tensor cores round each step toward zero.
    fn accumulation(&self) -> f64 {
        3e-7 + 8e-8 * (self.depth as f64).sqrt()
    }

    /// Compares `out`, all of C in row-major order.
    pub fn check<U: Real>(&self, out: &[U], epilogue: &Epilogue<'_, U>) -> Result<(), String> {
        let [_, m, n] = self.shape;
        let out = U::widen(out);
        if let Some(at) = out.iter().position(|x| x.is_nan()) {
            return Err(format!("C{:?} is NaN or was not written", [at / n / m, at / n % m, at % n]));
        }
        let (mut distance, mut length) = (0.0, 0.0);
        for (i, (&sum, &scale)) in self.sums.iter().zip(&self.scales).enumerate() {
            let place = [i / n / self.rows.len(), self.rows[i / n % self.rows.len()], i % n];
            let at = (place[0] * m + place[1]) * n + place[2];
            let (exact, bound) = epilogue.apply(sum, scale * self.accumulation(), place, at);
            let off = (f64::from(out[at]) - exact).abs();
            if off > bound {
                return Err(format!("C{place:?} is {}, must be {exact} within {bound:.2e}", out[at]));
            }
            distance += off * off;
            length += exact * exact;
        }
        // Elements may each be off by half a step of their type; in the mean they are by less.
        let most = 0.6 * U::ROUNDING + 3e-6 + 5e-9 * self.depth as f64;
        let error = (distance / length).sqrt();
        if self.sums.len() >= 1024 && length > 0.0 && error > most {
            return Err(format!("C is off by {error:.2e} in the norm, may be by {most:.2e}"));
        }
        Ok(())
    }
}

/// What is done with the product.
pub struct Epilogue<'a, U> {
    pub alpha: f32,
    pub beta: f32,
    /// C as it was, in row-major order; not looked at when beta is 0.
    pub old: &'a [f32],
    pub bias: Option<&'a Bias<U>>,
    pub activation: Activation,
}

impl<U: Real> Epilogue<'_, U> {
    /// The element at `place`, which is number `at`, and how far off it may be, given the product's error.
    fn apply(&self, sum: f64, error: f64, place: [usize; 3], at: usize) -> (f64, f64) {
        /// What f32 makes of an operation's result.
        const STEP: f64 = 1.2e-7;
        /// The error of an activation itself, relative to its argument.
        const ACTIVATION: f64 = 1e-6;
        /// Half of f16's smallest step.
        const SUBNORMAL: f64 = 3e-8;
        let scaled = f64::from(self.alpha) * sum;
        let kept = if self.beta == 0.0 { 0.0 } else { f64::from(self.beta) * f64::from(self.old[at]) };
        let bias = self.bias.map_or(0.0, |bias| bias.at(place));
        let x = scaled + kept + bias;
        let terms = scaled.abs() + kept.abs() + bias.abs();
        let before = f64::from(self.alpha.abs()) * error + 3.0 * STEP * terms;
        let exact = exact(self.activation, x);
        let after = STEEPEST * before + ACTIVATION * x.abs();
        (exact, after + U::ROUNDING * (exact.abs() + after) + SUBNORMAL)
    }
}

/// What f32 gives is accepted; one element that lacks one product, or is of another place, is not.
pub fn finds_what_is_wrong() -> Outcome {
    fn plain<U>() -> Epilogue<'static, U> {
        Epilogue { alpha: 1.0, beta: 0.0, old: &[], bias: None, activation: Activation::Identity }
    }
    let [m, n, k] = [70, 130, 300];
    let (left, right) = (normal::<f16>(1, m * k), normal::<f16>(2, k * n));
    let reference = Reference::new(&Values::new([1, m, k], &left), &Values::new([1, k, n], &right), 1, m);
    let product = |i: usize, x: usize| left[i / n * k + x].to_f32() * right[x * n + i % n].to_f32();
    let out: Vec<f32> = (0..m * n).map(|i| (0..k).map(|x| product(i, x)).sum()).collect();
    reference.check(&out, &plain())?;
    reference.check(&f16::round(&out), &plain())?;
    let coarse = bf16::widen(&bf16::round(&out));
    reference.check(&f16::round(&coarse), &plain()).expect_err("sums rounded too much");

    let with = |at: usize, x: f32| {
        let mut out = out.clone();
        out[at] = x;
        reference.check(&out, &plain())
    };
    for at in [0, n - 1, m * n - 1, 37 * n + 64] {
        let place = format!("C{:?}", [0, at / n, at % n]);
        let found = |result: Result<(), String>| result.is_err_and(|text| text.starts_with(&place));
        assert!(found(with(at, f32::NAN)) && found(with(at, f32::INFINITY)));
        assert!(found(with(at, out[at] - product(at, k - 1))), "{}", product(at, k - 1));
        assert!(found(with(at, out[(at + 8) % out.len()])));
    }
    Ok(())
}
