//! Row-wise operators in f64.

use crate::Real;

/// The distance of results from exact ones, as a share of these, and what it may be where results are computed in f32 and rounded once.
pub fn error<T: Real>(results: &[T], exact: &[f64]) -> [f64; 2] {
    let norm = f64::sqrt;
    let off = T::widen(results).iter().zip(exact).map(|(&y, exact)| (f64::from(y) - exact).powi(2)).sum();
    let all = norm(exact.iter().map(|exact| exact * exact).sum());
    [norm(off) / all, 2.0 * T::ROUNDING + 3e-6 + T::LEAST * norm(exact.len() as f64) / all]
}

/// softmax(scale x) of a row, or its logarithm; of a row that is all -inf, zeros or -inf.
pub fn softmax(row: &[f32], scale: f64, log: bool) -> Vec<f64> {
    softmax_of(&row.iter().map(|&x| f64::from(x) * scale).collect::<Vec<_>>(), log)
}

/// The same of a row of scores.
pub fn softmax_of(row: &[f64], log: bool) -> Vec<f64> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY && !row.iter().any(|x| x.is_nan()) {
        return vec![if log { f64::NEG_INFINITY } else { 0.0 }; row.len()];
    }
    let z: Vec<f64> = row.iter().map(|x| x - max).collect();
    let sum: f64 = z.iter().map(|z| z.exp()).sum();
    z.into_iter().map(|z| if log { z - sum.ln() } else { z.exp() / sum }).collect()
}

/// (s - mean) / sqrt(variance + epsilon) w + b of a row, with the mean taken for 0 unless it is `centred`.
pub fn norm(row: &[f64], [w, b]: [&[f32]; 2], epsilon: f64, centred: bool) -> Vec<f64> {
    let count = row.len() as f64;
    let mean = if centred { row.iter().sum::<f64>() / count } else { 0.0 };
    let variance = row.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / count;
    let by = 1.0 / (variance + epsilon).sqrt();
    let each = row.iter().zip(w.iter().zip(b));
    each.map(|(s, (&w, &b))| (s - mean) * by * f64::from(w) + f64::from(b)).collect()
}

/// The gradient by x of softmax(scale x) = y, or of its logarithm, where dy is that by y.
pub fn softmax_gradient(y: &[f32], dy: &[f32], scale: f64, log: bool) -> Vec<f64> {
    let both = || y.iter().zip(dy).map(|(&y, &dy)| (f64::from(y), f64::from(dy)));
    let sum: f64 = both().map(|(y, dy)| if log { dy } else { y * dy }).sum();
    both().map(|(y, dy)| scale * if log { dy - y.exp() * sum } else { y * (dy - sum) }).collect()
}

/// The gradient by x of [`norm`]'s y of a row, where dy is that by y, and what the row adds to that by w.
pub fn norm_gradient(row: &[f64], [dy, w]: [&[f32]; 2], epsilon: f64, centred: bool) -> (Vec<f64>, Vec<f64>) {
    let count = row.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let level = if centred { mean(row) } else { 0.0 };
    let d: Vec<f64> = row.iter().map(|x| x - level).collect();
    let by = 1.0 / (mean(&d.iter().map(|d| d * d).collect::<Vec<_>>()) + epsilon).sqrt();
    let x: Vec<f64> = d.iter().map(|d| d * by).collect();
    let g: Vec<f64> = dy.iter().zip(w).map(|(&dy, &w)| f64::from(dy) * f64::from(w)).collect();
    let along = mean(&g.iter().zip(&x).map(|(g, x)| g * x).collect::<Vec<_>>());
    let level = if centred { mean(&g) } else { 0.0 };
    let dx = g.iter().zip(&x).map(|(g, x)| by * (g - level - x * along)).collect();
    (dx, x.iter().zip(dy).map(|(x, &dy)| x * f64::from(dy)).collect())
}

/// (1 - s) (L - x\[label\]) + s (L - mean of x) + z L² with L = log Σ exp x, and its gradient by x.
pub fn cross_entropy(row: &[f32], label: usize, [s, z]: [f64; 2]) -> (f64, Vec<f64>) {
    let p = softmax(row, 1.0, false);
    let x: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log = max + x.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
    let (count, mean) = (row.len() as f64, x.iter().sum::<f64>() / row.len() as f64);
    let smooth = if s == 0.0 { 0.0 } else { s * (log - mean) };
    let chosen = |i: usize| if i == label { 1.0 - s } else { 0.0 };
    let gradient =
        p.iter().enumerate().map(|(i, p)| p * (1.0 + 2.0 * z * log) - s / count - chosen(i)).collect();
    ((1.0 - s) * (log - x[label]) + smooth + z * log * log, gradient)
}

#[cfg(test)]
mod tests {
    use super::{cross_entropy, error, norm, norm_gradient, softmax, softmax_gradient};

    /// What moving each of x by a little changes in the sum of y dy.
    fn differences(x: &[f64], dy: &[f32], f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
        let of = |x: &[f64]| f(x).iter().zip(dy).map(|(y, &dy)| y * f64::from(dy)).sum::<f64>();
        let step = 1.0 / 1024.0;
        let moved = |i: usize, by: f64| {
            let mut x = x.to_vec();
            x[i] += by;
            of(&x)
        };
        (0..x.len()).map(|i| (moved(i, step) - moved(i, -step)) / (2.0 * step)).collect()
    }

    #[test]
    fn gradients_are_what_differences_are() {
        let (x, dy, w) = ([0.5, -1.0, 2.0, 0.25], [1.0, -0.5, 0.75, 2.0], [1.0, 0.5, -2.0, 1.5]);
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
        let narrow = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<_>>();
        for on in [false, true] {
            let f = |x: &[f64]| softmax(&narrow(x), 0.5, on);
            let gradient = softmax_gradient(&narrow(&f(&x)), &dy, 0.5, on);
            assert!(near(&gradient, &differences(&x, &dy, f)), "{on}: {gradient:?}");
            let f = |x: &[f64]| norm(x, [&w, &[0.0; 4]], 0.01, on);
            let (gradient, by_weight) = norm_gradient(&x, [&dy, &w], 0.01, on);
            assert!(near(&gradient, &differences(&x, &dy, f)), "{on}: {gradient:?}");
            let ones: Vec<f64> = norm(&x, [&[1.0; 4], &[0.0; 4]], 0.01, on);
            let expected: Vec<f64> = ones.iter().zip(dy).map(|(x, dy)| x * f64::from(dy)).collect();
            assert!(near(&by_weight, &expected));
        }
    }

    #[test]
    fn cross_entropies_of_known_rows() {
        let (loss, gradient) = cross_entropy(&[2.0, 2.0], 1, [0.0, 0.0]);
        assert!((loss - 2f64.ln()).abs() < 1e-12 && gradient == [0.5, -0.5]);
        let (log, (loss, gradient)) = (1.0 + 2f64.ln(), cross_entropy(&[1.0, 1.0], 0, [1.0, 0.5]));
        assert!((loss - 2f64.ln() - 0.5 * log * log).abs() < 1e-12);
        assert!(gradient.iter().all(|g| (g - 0.5 * log).abs() < 1e-12), "{gradient:?}");
    }

    #[test]
    fn errors_are_shares_of_the_whole() {
        let [found, allowed] = error::<f32>(&[3.0, 4.5], &[3.0, 4.0]);
        assert!((found - 0.1).abs() < 1e-9 && allowed < 1e-5, "{found}, {allowed}");
        assert!(error::<f32>(&[f32::NAN, 1.0], &[1.0, 1.0])[0].is_nan());
    }

    #[test]
    fn norms_of_known_rows() {
        let (ones, zeros) = ([1.0; 2], [0.0; 2]);
        assert_eq!(norm(&[3.0, 1.0], [&ones, &zeros], 0.0, true), [1.0, -1.0]);
        assert_eq!(norm(&[2.0, -2.0], [&[1.0, 3.0], &[0.5, 0.0]], 0.0, false), [1.5, -3.0]);
        assert_eq!(norm(&[0.0, 0.0], [&ones, &ones], 1e-5, true), [1.0, 1.0]);
    }

    #[test]
    fn softmax_of_known_rows() {
        assert_eq!(softmax(&[3.0, 3.0], 2.0, false), [0.5, 0.5]);
        assert_eq!(softmax(&[1e30, 0.0, f32::NEG_INFINITY], 1.0, false), [1.0, 0.0, 0.0]);
        assert_eq!(softmax(&[f32::NEG_INFINITY; 2], 1.0, true), [f64::NEG_INFINITY; 2]);
        let log = softmax(&[0.0, 3f32.ln()], 1.0, true);
        assert!((log[1] - 0.75f64.ln()).abs() < 1e-7 && (log[0] - 0.25f64.ln()).abs() < 1e-7);
        assert!(softmax(&[f32::NAN, f32::NEG_INFINITY], 1.0, false).iter().all(|y| y.is_nan()));
        assert!(softmax(&[f32::INFINITY, 0.0], 1.0, false).iter().any(|y| y.is_nan()));
    }
}
