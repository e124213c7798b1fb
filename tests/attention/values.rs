//! Unusual values.

use std::ops::Range;

use tilewright::{Device, bf16, f16};
use tilewright_support::Real;
use tilewright_support::attention::Scores;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Input, Sizes};
use crate::packed;

/// Caps below, around and above the scores.
pub fn capped(device: &Device) -> Outcome {
    for softcap in [1e-20, 0.1, 1.0, 30.0, 1024.0] {
        for columns in [[64, 64], [128, 128], [256, 256]] {
            let case = Case::<bf16>::new(Sizes::new(130, 200, columns));
            let scores = Scores { softcap: Some(softcap), causal: softcap < 30.0, ..case.scores };
            case.scores(scores).check(device)?;
        }
    }
    // Scores far beyond the cap, where tanh is flat.
    let case = Case::<f16>::new(Sizes::new(70, 200, [64, 64]));
    let scores = Scores { softcap: Some(2.0), scale: 50.0, ..case.scores };
    case.scores(scores).check_all(device)
}

/// A scale of 50: weights of nearly 0 and 1.
pub fn large(device: &Device) -> Outcome {
    fn of<T: Input>(device: &Device) -> Outcome {
        for causal in [false, true] {
            let case = Case::<T>::new(Sizes::new(130, 300, [64, 64]));
            let scores = Scores { scale: 50.0, causal, ..case.scores };
            case.scores(scores).check_all(device)?;
        }
        Ok(())
    }
    of::<f16>(device)?;
    of::<bf16>(device)
}

/// NaN and infinities in Q: their rows are NaN, as in the reference, and no others.
pub fn not_numbers(device: &Device) -> Outcome {
    let mut case = Case::<f16>::new(Sizes::new(130, 200, [64, 64]));
    for (row, x) in
        [(3, f32::NAN), (64, f32::INFINITY), (127, f32::NEG_INFINITY), (129, f32::NAN), (150, f32::INFINITY)]
    {
        case.inputs[0][row * 64 + row % 64] = f16::round(&[x])[0];
    }
    case.check_all(device)?;
    let scores = Scores { causal: true, ..case.scores };
    case.scores(scores).check_all(device)
}

/// Queries and keys of which only the last query sees the last key.
pub const MASKED: usize = 260;
/// Queries that may share a tile with the last: none of the first 128 does, whatever the tiles' sizes.
pub const BESIDE: Range<usize> = 128..MASKED - 1;

/// NaN in what only the last query sees. In a key it stays in that query's row; in a value it reaches its column of all rows of the
/// tile, whose weights of 0 it is multiplied by. So it is in every kernel: with all keys at once, in parts, and packed.
pub fn behind_the_mask(device: &Device) -> Outcome {
    let case = || {
        let case = Case::<f16>::new(Sizes { heads: 1, ..Sizes::new(MASKED, MASKED, [64, 64]) });
        Case { scores: Scores { causal: true, ..case.scores }, ..case }
    };
    let last = (MASKED - 1) * 64 + 5;
    let mut key = case();
    key.inputs[1][last] = f16::NAN;
    key.check_all(device)?;
    key.splits(2).check_all(device)?;
    let mut value = Case { beside_nan: BESIDE, ..case() };
    value.inputs[2][last] = f16::NAN;
    value.check_all(device)?;
    value.splits(2).check_all(device)?;
    packed::behind_the_mask(device)
}
