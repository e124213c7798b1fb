//! Gradients, against references in f64.

mod case;
mod terms;

use tilewright::ops::{Attention, AttentionGradient};
use tilewright::{Arch, Device, Error, Tensor, TensorView, bf16, f16};
use tilewright_support::Real;
use tilewright_support::attention::Scores;
use tilewright_support::attention_gradient::agrees;
use tilewright_support::suite::Outcome;

use crate::case::Input;
use crate::operand::Place;
use case::Case;
pub use terms::{added, added_errors, nobody, planned, shared_biases};

/// Of every kernel: partial and whole tiles, unequal lengths, masks, capped scores.
pub fn kernels(device: &Device) -> Outcome {
    kernels_of::<f16>(device)?;
    kernels_of::<bf16>(device)
}

fn kernels_of<T: Input>(device: &Device) -> Outcome {
    for columns in [[64, 64], [128, 128], [200, 256]] {
        Case::<T>::new(&[[130, 200]], false, columns).check(device)?;
        let causal = |scores| Scores { causal: true, ..scores };
        Case::<T>::new(&[[150, 140]], false, columns).scores(causal).check(device)?;
        let capped = |scores| Scores { softcap: Some(1.5), causal: true, ..scores };
        Case::<T>::new(&[[70, 129]], false, columns).scores(capped).check(device)?;
    }
    Ok(())
}

/// Head dimensions that kernels are not made for, unequal ones; batches; heads that share keys; windows.
pub fn sizes(device: &Device) -> Outcome {
    for columns in [[1, 1], [8, 64], [80, 96], [136, 40], [192, 128]] {
        Case::<f16>::new(&[[65, 33]; 2], false, columns).check(device)?;
    }
    for heads in [[1, 1], [6, 2], [4, 4]] {
        Case::<bf16>::of_heads(&[[70, 80]; 2], false, [64, 64], heads).check(device)?;
    }
    for window in [[0, 0], [10, 0], [usize::MAX, 3], [70, 100]] {
        let scores = |scores| Scores { window: Some(window), ..scores };
        Case::<f16>::new(&[[150, 200]], false, [64, 64]).scores(scores).check(device)?;
    }
    Ok(())
}

/// Tiles of several heads that CTAs take together, the longest first.
pub fn together(device: &Device) -> Outcome {
    let causal = |scores| Scores { causal: true, ..scores };
    for (i, columns) in [[64, 64], [128, 128], [256, 256]].into_iter().enumerate() {
        for (j, heads) in [[4, 4], [6, 3], [5, 5]].into_iter().enumerate() {
            // A third of them on the emulator, each of both once.
            if device.is_emulator() && i != j {
                continue;
            }
            let case = Case::<bf16>::of_heads(&[[300, 280]; 2], false, columns, heads).scores(causal);
            case.check(device)?;
        }
    }
    // Three tiles for each CTA that a GPU holds, which takes them one after the other.
    let heads = [device.sm_count() as usize / 2; 2];
    for columns in [[64, 64], [128, 128], [256, 256]] {
        Case::<f16>::of_heads(&[[300, 280]; 2], false, columns, heads).check(device)?;
    }
    let window = |scores| Scores { window: Some([100, 30]), ..scores };
    let lengths = [[70, 70], [300, 290], [0, 5], [129, 257]];
    Case::<f16>::of_heads(&lengths, true, [128, 128], [4, 2]).scores(window).check(device)
}

/// Sequences of many lengths one after the other, empty ones among them, and queries that see no key.
pub fn packed(device: &Device) -> Outcome {
    let lengths = [[70, 70], [0, 0], [1, 129], [200, 30], [0, 5], [9, 0], [128, 128], [65, 257], [1, 1]];
    for columns in [[64, 64], [192, 128]] {
        Case::<f16>::new(&lengths, true, columns).check(device)?;
        let causal = |scores| Scores { causal: true, ..scores };
        Case::<bf16>::new(&lengths, true, columns).scores(causal).check(device)?;
    }
    let window = |scores| Scores { window: Some([40, 3]), softcap: Some(3.0), ..scores };
    Case::<f16>::new(&lengths, true, [128, 128]).scores(window).check(device)
}

/// Without queries, or without keys, gradients are zeros.
pub fn none(device: &Device) -> Outcome {
    for lengths in [[0, 70], [70, 0], [0, 0]] {
        Case::<f16>::new(&[lengths; 2], false, [64, 64]).check(device)?;
    }
    Case::<f16>::new(&[], true, [64, 64]).check(device)
}

/// Tensors lie anywhere: \[batch, length, heads, columns\], with gaps, unaligned.
pub fn places(device: &Device) -> Outcome {
    let places: [fn([usize; 4]) -> Place; 4] = [
        Place::bshd,
        |shape| Place::ordered(shape, [0, 2, 1, 3], 8),
        |shape| Place::ordered(shape, [0, 1, 2, 3], 3),
        |shape| Place::bhsd(shape).shifted(1),
    ];
    for place in places {
        Case { place, ..Case::<f16>::new(&[[70, 90]; 2], false, [64, 64]) }.check(device)?;
    }
    Ok(())
}

/// Scores far from 0, and far apart: weights of 1 and of 0.
pub fn large(device: &Device) -> Outcome {
    let mut case = Case::<bf16>::new(&[[130, 130]], false, [64, 64]);
    case.scores.scale = 10.0;
    case.check(device)?;
    case.scores.causal = true;
    case.scores.softcap = Some(50.0);
    case.check(device)
}

/// Scores next to 0, by whose scale nothing may be divided and by whose scale something may.
pub fn small(device: &Device) -> Outcome {
    for scale in [1e-30, 1e-15] {
        let mut case = Case::<bf16>::new(&[[70, 130]], false, [128, 128]);
        case.scores.scale = scale;
        case.check(device)?;
    }
    Ok(())
}

/// NaN in a sequence's tensors does not reach its neighbours.
pub fn not_numbers(device: &Device) -> Outcome {
    let lengths = [[70, 70], [30, 30], [65, 65]];
    let exact = Case::<f16>::new(&lengths, true, [64, 64]).exact();
    for input in 0..4 {
        let mut case = Case::<f16>::new(&lengths, true, [64, 64]);
        let side = usize::from(input == 1 || input == 2);
        // The first row of the middle sequence, which lies behind the first one's last.
        let first = case.first_row(side, 1, 0) * 64;
        case.inputs[input][first..first + 64].fill(f16::NAN);
        for kernel in case.kernels(device, &exact)? {
            let results = case.run(device, &exact, Some(&kernel))?;
            for (of, (result, exact_of)) in
                results.of_inputs.iter().zip([&exact.q, &exact.k, &exact.v]).enumerate()
            {
                let side = usize::from(of > 0);
                for s in [0, 2] {
                    let rows =
                        case.first_row(side, s, 0) * 64..(case.first_row(side, s, 0) + lengths[s][side]) * 64;
                    let out = &f16::widen(result)[rows.clone()];
                    agrees::<f16>(out, &exact_of[rows], exact.reach, 64, 0.0)
                        .map_err(|error| format!("{kernel}, NaN in input {input}, gradient {of}: {error}"))?;
                }
            }
        }
    }
    Ok(())
}

/// The same bits, run by run: of tiles of keys that add to dQ in turn, and of kernels that add nothing up. Some of many more tiles than run at a time.
pub fn deterministic(device: &Device) -> Outcome {
    let check = |case: Case<bf16>| Case { deterministic: true, ..case }.check(device);
    let causal = |scores| Scores { causal: true, ..scores };
    let window = |scores| Scores { window: Some([100, 30]), ..scores };
    let lengths = [[70, 70], [300, 290], [0, 5], [129, 257], [40, 600], [9, 0]];
    for columns in [[64, 64], [128, 128], [200, 256]] {
        check(Case::new(&[[300, 300]; 2], false, columns))?;
        check(Case::of_heads(&[[300, 280]; 2], false, columns, [6, 3]).scores(causal))?;
        check(Case::of_heads(&lengths, true, columns, [4, 2]).scores(window))?;
        if !device.is_emulator() {
            check(Case::of_heads(&[[65, 1100]], false, columns, [20, 20]))?;
            check(Case::of_heads(&[[130, 140]], false, columns, [80, 80]).scores(causal))?;
        }
    }
    if device.runs(Arch::Sm90a) {
        let case = Case { deterministic: true, ..Case::<bf16>::new(&[[300, 300]; 2], false, [128, 128]) };
        let names = case.kernels(device, &case.exact())?;
        assert!(names.iter().any(|name| name.contains("_all_")), "{names:?}");
        assert!(names.iter().any(|name| name.contains("_keys_values_")), "{names:?}");
    }
    Ok(())
}

/// Walks of tiles of keys that CTAs divide: in parts of heads, and of more than one; of more parts than blocks; keys that nobody sees and sequences without any.
pub fn divided(device: &Device) -> Outcome {
    let causal = |scores| Scores { causal: true, ..scores };
    let lengths = [[70, 70], [0, 5], [129, 257], [9, 0]];
    for (i, columns) in [[64, 64], [128, 128], [200, 256]].into_iter().enumerate() {
        for (j, (heads, splits)) in [([6, 1], 3), ([4, 2], 5), ([3, 3], 2)].into_iter().enumerate() {
            // A third of them on the emulator, each of both once.
            if device.is_emulator() && i != j {
                continue;
            }
            for deterministic in [false, true] {
                let divided = |case: Case<bf16>| Case { splits: Some(splits), deterministic, ..case };
                divided(Case::of_heads(&[[280, 280]; 2], false, columns, heads).scores(causal))
                    .check(device)?;
                divided(Case::of_heads(&lengths, true, columns, heads)).check(device)?;
            }
        }
        let whole = Case::<f16>::of_heads(&[[70, 150]], false, columns, [4, 1]);
        Case { splits: Some(1), ..whole.clone() }.check(device)?;
        Case { splits: Some(20), ..whole }.check(device)?;
    }
    Ok(())
}

/// What does not fit is refused, by name.
pub fn errors(device: &Device) -> Outcome {
    let case = Case::<f16>::new(&[[8, 8]], false, [64, 64]);
    let exact = case.exact();
    let mut lse = Tensor::<f32>::zeros(device, &[1, 2, 8])?;
    let short = Tensor::<f16>::zeros(device, &[1, 2, 7, 64])?;
    let (_, outputs) = case.with(device, &exact, |stream, gradient, [q, k, v, o, d_o], given, outputs| {
        let [d_q, d_k, d_v] = outputs;
        let (mut d_q, mut d_k, mut d_v) = (d_q.view_mut()?, d_k.view_mut()?, d_v.view_mut()?);
        let mut refused = |name: &str, mut of: AttentionGradient<'_>, d_o: &TensorView<'_, f16>| {
            let outputs = [&mut d_q, &mut d_k, &mut d_v];
            match of.run(stream, [q, k, v], (o, given), d_o, outputs) {
                Err(Error::Argument { argument, .. }) if argument == name => {}
                other => panic!("not an error about `{name}`: {other:?}"),
            }
        };
        refused("d_o", gradient, &short.view());
        refused("kernel", Attention::new().gradient().kernel("none such"), d_o);
        refused("longest_keys", Attention::new().gradient().longest_keys(3), d_o);
        refused("splits", Attention::new().gradient().splits(0), d_o);
        refused("splits", Attention::new().gradient().splits(1025), d_o);
        refused("splits", Attention::new().splits(2).gradient(), d_o);
        refused("lse", Attention::new().lse(&mut lse.view_mut()).gradient(), d_o);
        Ok(())
    })?;
    for output in outputs.of_inputs {
        assert!(output.read()?.0.iter().all(|x| x.is_nan()), "a refused call wrote something");
    }
    Ok(())
}
