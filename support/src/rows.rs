//! Row-wise operators in f64.

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

#[cfg(test)]
mod tests {
    use super::softmax;

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
