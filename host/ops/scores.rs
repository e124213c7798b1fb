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
