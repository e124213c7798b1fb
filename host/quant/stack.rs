//! Matrices of narrow weights below each other.

use super::{Halves, QuantizedWeights, ZeroPoints};
use crate::{Error, Result};

impl QuantizedWeights {
    /// Matrices \[N, K\] below each other as one: the experts of a layer, each of which a checkpoint has by itself, for
    /// `ops::GroupedDequantGemm`.
    ///
    /// Fails when there are none, and when one has another scheme or other columns than the first, which the error names.
    pub fn stack(name: impl Into<String>, matrices: &[Self]) -> Result<Self> {
        let [first, others @ ..] = matrices else {
            return Err(Error::argument("matrices", "none", "one or more"));
        };
        let ([_, k], scheme) = (first.shape(), first.scheme());
        for matrix in others {
            let wrong = |argument, was, allowed: String| {
                Err(matrix.scheme().error(matrix.name(), argument, was, allowed))
            };
            if matrix.shape()[1] != k {
                let [rows, columns] = matrix.shape();
                return wrong(
                    "shape",
                    format!("[{rows}, {columns}]"),
                    format!("of {k} columns, as `{}`", first.name()),
                );
            }
            if matrix.scheme() != scheme {
                let was = format!("{:?}", matrix.scheme());
                return wrong("scheme", was, format!("{scheme:?}, as that of `{}`", first.name()));
            }
        }
        let mut zeros = first.zeros().clone();
        for matrix in others {
            // They are of one scheme, and so of one mode.
            match (&mut zeros, matrix.zeros()) {
                (ZeroPoints::Packed(all), ZeroPoints::Packed(more)) => all.extend_from_slice(more),
                (ZeroPoints::Original(all), ZeroPoints::Original(more))
                | (ZeroPoints::Rescaled(all), ZeroPoints::Rescaled(more)) => all.append(more),
                _ => {}
            }
        }
        let mut scales = first.scales().clone();
        others.iter().for_each(|matrix| scales.append(matrix.scales()));
        let codes = matrices.iter().flat_map(QuantizedWeights::codes).copied().collect();
        let rows = matrices.iter().map(|matrix| matrix.shape()[0]).sum();
        QuantizedWeights::new(name, scheme.format, scheme.group, [rows, k], codes, scales, zeros)
    }
}

impl Halves {
    /// Those of the same type behind these.
    fn append(&mut self, more: &Self) {
        match (self, more) {
            (Halves::F16(all), Halves::F16(more)) => all.extend_from_slice(more),
            (Halves::BF16(all), Halves::BF16(more)) => all.extend_from_slice(more),
            _ => {}
        }
    }
}
