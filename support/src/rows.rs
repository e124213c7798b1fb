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
    let max = row.iter().fold(f64::NEG_INFINITY, |max, &x| max.max(f64::from(x)));
    if max == f64::NEG_INFINITY && !row.iter().any(|x| x.is_nan()) {
        return vec![if log { f64::NEG_INFINITY } else { 0.0 }; row.len()];
    }
    let z: Vec<f64> = row.iter().map(|&x| (f64::from(x) - max) * scale).collect();
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
    use super::{cross_entropy, error, norm, softmax};

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
