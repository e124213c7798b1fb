//! Weights rounded to codes.

use std::borrow::Cow;

use half::{bf16, f16};
use tilewright_device::quantize::Fitter;

use super::{Halves, QuantizedWeights, Scheme, ZeroPoints, Zeros};
use crate::{Element, Result};

/// Element types of weights that are quantised: `f32`, `f16` and `bf16`.
pub trait WeightElement: Element + sealed::Widen {}

mod sealed {
    pub trait Widen {
        /// The value, exactly.
        fn widen(self) -> f32;
    }
}

macro_rules! weight_elements {
    ($($t:ty)*) => { $(
        impl sealed::Widen for $t {
            fn widen(self) -> f32 {
                self.into()
            }
        }
        impl WeightElement for $t {}
    )* };
}
weight_elements!(f32 f16 bf16);

/// What was found for some rows, one after the other.
#[derive(Default)]
struct Rows {
    codes: Vec<u8>,
    scales: Vec<f64>,
    zeros: Vec<f64>,
}

impl QuantizedWeights {
    /// Rounds weights \[N, K\], row-major, to the nearest codes.
    ///
    /// Each group's scale and zero are chosen for it alone, without calibration data:
    /// - of an integer format they make the sum of squared errors small: from the group's range, whole and narrowed (which
    ///   clips the extremes), the best is refined by least squares in turn with rounding. Never worse than the whole range.
    /// - of nf4, fp4 and fp8 the scale takes the largest magnitude (with zeros: the range) to the format's largest value.
    ///
    /// Without zeros a group is symmetric around 0, so an unsigned format holds its positive weights alone. Scales and zeros
    /// are rounded to their type first, then codes are chosen for the rounded ones.
    ///
    /// Fails when a weight is infinite, NaN or beyond the range of the scales' type, to which kernels round, when a scale overflows
    /// its type, and for zeros that the format cannot have.
    pub fn quantize<T: WeightElement>(
        name: impl Into<String>,
        weights: &[T],
        shape: [usize; 2],
        scheme: Scheme,
    ) -> Result<Self> {
        let ([n, k], name) = (shape, name.into());
        scheme.check(&name)?;
        let (count, _) = scheme.count(&name, n, k)?;
        if weights.len() != count {
            let allowed = format!("{count} values: one for each weight of [{n}, {k}]");
            return Err(scheme.error(&name, "weights", format!("{} values", weights.len()), allowed));
        }
        let some = |rows: &[T], first: usize| some_rows(&name, rows, first, k, scheme);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let each = n.div_ceil(threads);
        let parts: Vec<Result<Rows>> = std::thread::scope(|scope| {
            let parts = weights.chunks(each * k).enumerate();
            let running: Vec<_> = parts.map(|(i, rows)| scope.spawn(move || some(rows, i * each))).collect();
            let ended = running.into_iter().map(|thread| thread.join());
            ended.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        let mut all = Rows::default();
        for part in parts {
            let part = part?;
            all.codes.extend(part.codes);
            all.scales.extend(part.scales);
            all.zeros.extend(part.zeros);
        }
        let halves = |values| Halves::round(scheme.scales, values);
        let zeros = match scheme.zeros {
            Zeros::None => ZeroPoints::None,
            Zeros::Original => ZeroPoints::Original(halves(all.zeros)),
            Zeros::Rescaled => ZeroPoints::Rescaled(halves(all.zeros)),
            // The fit keeps them in the format's range.
            Zeros::Packed => ZeroPoints::Packed(all.zeros.into_iter().map(|zero| zero as i16).collect()),
        };
        Self::new(name, scheme.format, scheme.group, shape, all.codes, halves(all.scales), zeros)
    }
}

/// Quantises rows of `k` weights, the first of which is row `first`.
fn some_rows<T: WeightElement>(
    name: &str,
    weights: &[T],
    first: usize,
    k: usize,
    scheme: Scheme,
) -> Result<Rows> {
    let rules = scheme.rules();
    let fitter = Fitter::new(rules);
    let mut rows = Rows::default();
    rows.codes.reserve(weights.len());
    let mut group = Vec::new();
    for (row, weights) in weights.chunks(k).enumerate() {
        for (number, weights) in weights.chunks(scheme.group.len(k)).enumerate() {
            group.clear();
            group.extend(weights.iter().map(|x| f64::from(x.widen())));
            let col = number * scheme.group.len(k);
            if let Some(i) = group.iter().position(|&x| !scheme.scales.round(x).is_finite()) {
                let was = format!("{} at [{}, {}]", group[i], first + row, col + i);
                let allowed = match group[i].is_finite() {
                    true => {
                        format!("in the range of {}, the type of the scales", scheme.scales.dtype()).into()
                    }
                    false => Cow::Borrowed("finite"),
                };
                return Err(scheme.error(name, "weights", was, allowed));
            }
            let Some(line) = fitter.fit(&group[..]) else {
                let largest = group.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
                let was = format!("{largest} at most in the group from [{}, {col}]", first + row);
                let allowed = format!("of a range whose scale is in {}'s", scheme.scales.dtype());
                return Err(scheme.error(name, "weights", was, allowed));
            };
            rows.codes.extend(group.iter().map(|&x| rules.code(line, x) as u8));
            rows.scales.push(line.scale);
            rows.zeros.push(line.zero);
        }
    }
    Ok(rows)
}
