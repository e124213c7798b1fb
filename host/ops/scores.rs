//! What attention's scores are multiplied with and capped at: ranges in which kernels compute them rightly.

use crate::{Error, Result};

/// The largest scale. With it the products of any `f16` vectors of 576 columns stay below 10^30, the reference of rows that
/// have no score yet, and so in f32's range also as powers of two.
const MAX_SCALE: f32 = 1e17;

/// The least and the largest cap.
///
/// Kernels compute tanh(x) as 1 - 2 / (1 + e^2x), which is off by up to 3 * 2^-23: an approximate power of two, an addition and
/// an approximate reciprocal, of 1 to 2 each. Times the largest cap that is below 2^-11, with which `f16` rounds weights anyway;
/// beyond, scores would drown in it. At the least cap the largest scale over it is in f32's range.
const CAPS: std::ops::RangeInclusive<f32> = 1e-20..=1024.0;

/// The factor of Q Kᵀ: what was asked for, or one over the square root of the columns.
pub(super) fn scale(asked: Option<f32>, columns: usize) -> Result<f32> {
    let scale = asked.unwrap_or(1.0 / (columns as f32).sqrt());
    if scale > 0.0 && scale <= MAX_SCALE {
        return Ok(scale);
    }
    Err(Error::argument("scale", format!("{scale:?}"), format!("above 0 and at most {MAX_SCALE:?}")))
}

/// The cap of scores.
pub(super) fn softcap(cap: f32) -> Result<f32> {
    if CAPS.contains(&cap) {
        return Ok(cap);
    }
    let (least, most) = (CAPS.start(), CAPS.end());
    let allowed = format!("from {least:?} to {most:?}: f32 is too coarse to cap scores at more");
    Err(Error::argument("softcap", format!("{cap:?}"), allowed))
}

#[cfg(test)]
mod tests {
    use std::f32::consts::LOG2_E;

    use super::*;

    /// tanh as kernels compute it, with errors of the power of two and of the reciprocal as PTX bounds them.
    fn tanh(x: f32, [power, reciprocal]: [f64; 2]) -> f32 {
        let off = |exact: f64, by: f64| (exact * (1.0 + by)) as f32;
        let twice = off(f64::from(x * (2.0 * LOG2_E)).exp2(), power * 2f64.powi(-22));
        1.0 - 2.0 * off(f64::from(1.0 + twice).recip(), reciprocal * 2f64.powi(-23))
    }

    #[test]
    fn at_the_largest_cap_scores_are_off_by_less_than_a_rounding_of_weights() {
        let errors = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]];
        let off = |x: f32, by| (f64::from(tanh(x, by)) - f64::from(x).tanh()).abs();
        let scores = (-100_000..100_000).map(|i| i as f32 * 1e-4);
        let worst = scores.flat_map(|x| errors.map(|by| off(x, by))).fold(0.0, f64::max);
        // f16 has 11 bits of significand; at twice the cap the error would show beside its rounding.
        let rounding = 2f64.powi(-11);
        let most = f64::from(*CAPS.end());
        assert!((0.5..1.0).contains(&(worst * most / rounding)), "{worst:e}");
    }

    #[test]
    fn at_the_largest_scale_no_score_of_f16_is_lost() {
        let largest = 576.0 * 65504f64.powi(2) * f64::from(MAX_SCALE) * f64::from(LOG2_E);
        // What rows without scores are relative to.
        assert!(largest < 1e30, "{largest:e}");
        assert!((MAX_SCALE / CAPS.start()).is_finite());
    }
}
