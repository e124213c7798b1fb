//! Rows of results, in f64.

use tilewright::ops::Activation;
use tilewright_support::activation::exact;

use crate::case::HEAD;

/// silu(gate) up.
pub fn gated(gate: &[f64], up: &[f64]) -> Vec<f64> {
    gate.iter().zip(up).map(|(&gate, up)| exact(Activation::Silu, gate) * up).collect()
}

/// The gradient by the gate.
pub fn by_gate(gate: &[f64], up: &[f64], dy: &[f64]) -> Vec<f64> {
    let slope = |x: f64| {
        let s = 1.0 / (1.0 + (-x).exp());
        s + x * s * (1.0 - s)
    };
    gate.iter().zip(up.iter().zip(dy)).map(|(&gate, (up, dy))| dy * up * slope(gate)).collect()
}

/// A token's heads, rotated by angles of theta 10000.
pub fn rotated(x: &[f64], position: usize, interleaved: bool) -> Vec<f64> {
    let mut y = x.to_vec();
    for head in y.chunks_mut(HEAD) {
        for pair in 0..HEAD / 2 {
            let [a, b] = if interleaved { [2 * pair, 2 * pair + 1] } else { [pair, pair + HEAD / 2] };
            let (sin, cos) = angle(position, pair).sin_cos();
            (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[b] * cos + head[a] * sin);
        }
    }
    y
}

/// The angle of a pair at a position.
pub fn angle(position: usize, pair: usize) -> f64 {
    position as f64 * 1e4f64.powf(-2.0 * pair as f64 / HEAD as f64)
}
