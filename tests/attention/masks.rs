//! Masks.

use tilewright::{Device, bf16, f16};
use tilewright_support::attention::Scores;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Input, Sizes};

/// Lengths at the edges of tiles and blocks, and beyond each other: queries that see no key have 0 and -inf.
const LENGTHS: [(usize, usize); 9] =
    [(1, 1), (64, 64), (128, 128), (129, 127), (200, 63), (63, 200), (1, 300), (300, 1), (256, 384)];

pub fn causal(device: &Device) -> Outcome {
    fn of<T: Input>(device: &Device, columns: [usize; 2]) -> Outcome {
        LENGTHS.into_iter().try_for_each(|(queries, keys)| {
            let case = Case::<T>::new(Sizes::new(queries, keys, columns));
            let scores = Scores { causal: true, ..case.scores };
            case.scores(scores).check_all(device)
        })
    }
    of::<f16>(device, [64, 64])?;
    of::<bf16>(device, [128, 128])?;
    if device.is_emulator() {
        return Ok(());
    }
    for (queries, keys) in [(4096, 4096), (1000, 4096), (4096, 1000)] {
        for columns in [[64, 64], [128, 128], [192, 128], [256, 256]] {
            let case = Case::<bf16>::new(Sizes::new(queries, keys, columns));
            let scores = Scores { causal: true, ..case.scores };
            case.scores(scores).check(device)?;
        }
    }
    Ok(())
}

pub fn windows(device: &Device) -> Outcome {
    let windows = [
        [0, 0],
        [1, 0],
        [0, 1],
        [63, 64],
        [64, 63],
        [130, 20],
        [100, usize::MAX],
        [usize::MAX, 5],
        [1000, 1000],
    ];
    for (queries, keys) in [(200, 200), (130, 400), (400, 130)] {
        for (i, window) in windows.into_iter().enumerate() {
            let case = Case::<f16>::new(Sizes::new(queries, keys, [[64, 64], [128, 128]][i % 2]));
            let scores = Scores { window: Some(window), causal: i % 3 == 0, ..case.scores };
            let case = case.scores(scores);
            if device.is_emulator() { case.check(device)? } else { case.check_all(device)? }
        }
    }
    Ok(())
}
