//! Every compiled kernel by name.

use tilewright::{Device, bf16, f16};
use tilewright_support::suite::Outcome;

use crate::case::{Case, Input, Sizes};

/// Of every kernel: a partial tile, whole tiles, and more tiles than blocks of keys fit the pipeline.
pub fn each(device: &Device) -> Outcome {
    each_of::<f16>(device)?;
    each_of::<bf16>(device)
}

fn each_of<T: Input>(device: &Device) -> Outcome {
    let lengths = if device.is_emulator() {
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
                    let scores = tilewright_support::attention::Scores { causal, softcap, ..case.scores };
                    case.scores(scores).check_all(device)?;
                }
            }
        }
    }
    Ok(())
}
