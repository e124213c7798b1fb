//! Every compiled kernel by name.

use tilewright::{Device, bf16, f16};
use tilewright_support::attention::Scores;
use tilewright_support::suite::Outcome;
use tilewright_support::watched;

use crate::case::{Case, Input, Sizes};

/// Of every kernel: a partial tile, whole tiles, and more tiles than blocks of keys fit the pipeline.
pub fn each(device: &Device) -> Outcome {
    each_of::<f16>(device)?;
    each_of::<bf16>(device)
}

fn each_of<T: Input>(device: &Device) -> Outcome {
    let lengths = if device.is_emulator() || watched::is_watched() {
        &[(70, 200), (130, 300)][..]
    } else {
        &[(70, 200), (256, 512), (1000, 1500)]
    };
    for &(queries, keys) in lengths {
        // A head dimension of 64 fits all kernels; beyond 192 one of each kind is left.
        for columns in [[64, 64], [200, 256]] {
            for causal in [false, true] {
                for softcap in [None, Some(1.5)] {
                    let case = Case::<T>::new(Sizes::new(queries, keys, columns));
                    let scores = Scores { causal, softcap, ..case.scores };
                    case.scores(scores).check_all(device)?;
                }
            }
        }
    }
    Ok(())
}

/// Of every kernel: more tiles than CTAs, so that staging buffers, stages and turns pass from one tile to the next.
pub fn several_tiles_a_cta(device: &Device) -> Outcome {
    // An SM holds at most five CTAs of a kernel.
    let heads = 6 * device.sm_count() as usize;
    // Narrow columns fit all kernels; of wide ones all are stored, in as many steps as a tile takes.
    for columns in [[64, 64], [128, 128], [136, 136], [256, 256]] {
        let sizes = Sizes { heads, kv_heads: heads, ..Sizes::new(8, 6, columns) };
        let case = Case::<f16>::new(sizes);
        case.check_all(device)?;
        let scores = Scores { softcap: Some(1.5), ..case.scores };
        Case::<bf16>::new(sizes).scores(scores).check_all(device)?;
    }
    Ok(())
}
