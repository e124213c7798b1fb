//! Lengths, head dimensions and numbers of heads.

use tilewright::ops::Attention;
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::suite::Outcome;

use crate::case::{Case, Sizes};

const LENGTHS: [usize; 9] = [1, 2, 63, 64, 65, 127, 200, 1000, 4096];

/// Scores that are computed at most: on the emulator long sequences meet short ones only.
fn most(device: &Device) -> usize {
    if device.is_emulator() { 1 << 17 } else { usize::MAX }
}

/// All lengths of queries and keys with each other.
pub fn all(device: &Device) -> Outcome {
    for (i, queries) in LENGTHS.into_iter().enumerate() {
        for (j, keys) in LENGTHS.into_iter().enumerate().filter(|(_, keys)| queries * keys <= most(device)) {
            // Types and head dimensions in turn.
            let columns = [[64, 64], [128, 128]][(i + j) % 2];
            let sizes = Sizes::new(queries, keys, columns);
            if i % 2 == 0 {
                Case::<f16>::new(sizes).check(device)?
            } else {
                Case::<bf16>::new(sizes).check(device)?
            }
        }
    }
    Ok(())
}

/// Without keys O is 0; without queries, heads or batch nothing is done.
pub fn none(device: &Device) -> Outcome {
    for columns in [[64, 64], [256, 256]] {
        Case::<f16>::new(Sizes::new(70, 0, columns)).check_all(device)?;
        for sizes in [
            Sizes::new(0, 70, columns),
            Sizes::new(0, 0, columns),
            Sizes { batch: 0, ..Sizes::new(70, 70, columns) },
            Sizes { heads: 0, kv_heads: 0, ..Sizes::new(70, 70, columns) },
        ] {
            let [q, k, v, o] = sizes.shapes().map(|shape| Tensor::<f16>::zeros(device, &shape));
            let stream = Stream::new(device)?;
            Attention::new().run(&stream, &q?.view(), &k?.view(), &v?.view(), &mut o?.view_mut())?;
            stream.synchronize()?;
        }
    }
    Ok(())
}

/// Head dimensions that kernels are made for, and between them; lines of all alignments.
pub fn head_dimensions(device: &Device) -> Outcome {
    let own = [[64, 64], [128, 128], [192, 128], [192, 192], [256, 256]];
    let between = [
        [80, 80],
        [96, 96],
        [160, 160],
        [64, 128],
        [128, 64],
        [256, 8],
        [8, 256],
        [1, 1],
        [7, 130],
        [100, 100],
    ];
    for columns in own.into_iter().chain(between) {
        Case::<f16>::new(Sizes::new(100, 150, columns)).check(device)?;
        Case::<bf16>::new(Sizes::new(100, 150, columns)).check(device)?;
    }
    Ok(())
}

/// As many heads of keys and values as heads, fewer, and one; more sequences.
pub fn shared_heads(device: &Device) -> Outcome {
    for (batch, heads, kv_heads) in [(1, 3, 3), (3, 2, 2), (2, 6, 2), (2, 5, 1), (1, 12, 4)] {
        let sizes = Sizes { batch, heads, kv_heads, ..Sizes::new(130, 140, [64, 64]) };
        let case = Case::<f16>::new(sizes);
        case.check(device)?;
        let scores = tilewright_support::attention::Scores { causal: true, ..case.scores };
        case.scores(scores).check(device)?;
    }
    if device.is_emulator() {
        return Ok(());
    }
    // More tiles than the GPU holds at a time, in groups of several heads.
    for (batch, queries) in [(4, 1000), (1, 4096), (16, 512)] {
        let sizes = Sizes { batch, heads: 16, kv_heads: 4, ..Sizes::new(queries, queries, [128, 128]) };
        let case = Case::<bf16>::new(sizes);
        let scores = tilewright_support::attention::Scores { causal: true, ..case.scores };
        case.scores(scores).check(device)?;
    }
    Ok(())
}
