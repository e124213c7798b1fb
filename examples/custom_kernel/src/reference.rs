//! The same operators on the CPU, in f64.

use tilewright::f16;

/// Softmax over rows of `cols` elements.
pub fn softmax_reference(x: &[f16], cols: usize) -> Vec<f64> {
    let row = |row: &[f16]| {
        let most = row.iter().fold(f64::NEG_INFINITY, |most, v| most.max(v.to_f64()));
        let e: Vec<f64> = row.iter().map(|v| (v.to_f64() - most).exp()).collect();
        let sum: f64 = e.iter().sum();
        e.into_iter().map(move |e| e / sum)
    };
    x.chunks(cols.max(1)).flat_map(row).collect()
}

/// x (1 + scale) + shift, for as many of each.
pub fn modulate_reference(x: &[f16], scale: &[f16], shift: &[f16]) -> Vec<f64> {
    let factors = scale.iter().zip(shift);
    x.iter()
        .zip(factors)
        .map(|(x, (scale, shift))| x.to_f64() * (1.0 + scale.to_f64()) + shift.to_f64())
        .collect()
}

/// silu(X Gᵀ) * (X Uᵀ) for row-major matrices with rows of `k` elements.
pub fn swiglu_reference(x: &[f16], gate: &[f16], up: &[f16], k: usize) -> Vec<f64> {
    let wide = |matrix: &[f16]| matrix.iter().map(|v| v.to_f64()).collect::<Vec<_>>();
    let [x, gate, up] = [x, gate, up].map(wide);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut y = Vec::new();
    for x in x.chunks(k.max(1)) {
        for (gate, up) in gate.chunks(k.max(1)).zip(up.chunks(k.max(1))) {
            let gate = dot(x, gate);
            y.push(gate / (1.0 + (-gate).exp()) * dot(x, up));
        }
    }
    y
}

/// W x for the rows of W, of as many elements as x.
pub fn gemv_reference(w: &[f64], x: &[f16]) -> Vec<f64> {
    w.chunks(x.len().max(1)).map(|w| w.iter().zip(x).map(|(w, x)| w * x.to_f64()).sum()).collect()
}

/// The distance of `y` from the reference, relative to the reference's length; NaN if `y` has one.
pub fn relative_error<T: Copy + Into<f64>>(y: &[T], reference: &[f64]) -> f64 {
    assert_eq!(y.len(), reference.len());
    let square = |x: f64| x * x;
    let distance: f64 = y.iter().zip(reference).map(|(y, r)| square((*y).into() - r)).sum();
    (distance / reference.iter().copied().map(square).sum::<f64>()).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(x: &[f32]) -> Vec<f16> {
        x.iter().map(|&x| f16::from_f32(x)).collect()
    }

    #[test]
    fn rows_of_a_softmax_sum_to_one() {
        let y = softmax_reference(&halves(&[1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 60.0, 0.0]), 4);
        assert_eq!(y[..4], [0.25; 4]);
        assert!((y[4..].iter().sum::<f64>() - 1.0).abs() < 1e-12 && y[6] > 0.999);
    }

    #[test]
    fn a_gate_scales_its_product() {
        let (x, gate, up) =
            (halves(&[1.0, 2.0]), halves(&[1.0, 0.0, 0.0, 0.0]), halves(&[3.0, 1.0, 5.0, 5.0]));
        let y = swiglu_reference(&x, &gate, &up, 2);
        let silu = 1.0 / (1.0 + (-1.0f64).exp());
        assert_eq!(y.len(), 2);
        assert!((y[0] - silu * 5.0).abs() < 1e-12 && y[1] == 0.0);
    }

    #[test]
    fn errors_are_relative() {
        assert_eq!(relative_error(&halves(&[3.0, 5.0]), &[3.0, 4.0]), 0.2);
        assert!(relative_error(&[f16::NAN], &[1.0]).is_nan());
    }
}
