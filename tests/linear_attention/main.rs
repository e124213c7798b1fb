//! `ops::linear_attention` on a GPU or the emulator, against the recurrence in f64.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod case;
mod channels;
mod chunks;
mod delta;
mod errors;
mod gradient;
mod gradients;
mod plan;
mod schedules;
mod states;
mod steps;

fn main() -> ExitCode {
    Suite::new()
        .device(Arch::Sm80, "every kernel, of whole and partial chunks", chunks::each)
        .device(Arch::Sm80, "decays of heads", chunks::decays)
        .device(Arch::Sm80, "gates of rows", chunks::gates)
        .device(Arch::Sm80, "lengths from 0", chunks::lengths)
        .device(Arch::Sm80, "head dimensions", chunks::head_dimensions)
        .device(Arch::Sm80, "sequences in segments", chunks::segments)
        .device(Arch::Sm80, "sequences one after the other", chunks::packed)
        .device(Arch::Sm80, "gates of channels, every kernel", channels::each)
        .device(Arch::Sm80, "gates of channels of all strengths", channels::strengths)
        .device(Arch::Sm80, "gates of channels and large elements", channels::large)
        .device(Arch::Sm80, "gates of channels, lengths", channels::lengths)
        .device(Arch::Sm80, "gates of channels in segments", channels::segments)
        .device(Arch::Sm80, "gates of channels and V that is not aligned", channels::unaligned)
        .device(Arch::Sm80, "the delta rule, every kernel", delta::each)
        .device(Arch::Sm80, "the delta rule with decays", delta::strengths)
        .device(Arch::Sm80, "the delta rule, lengths", delta::lengths)
        .device(Arch::Sm80, "the delta rule, wide keys", delta::wide)
        .device(Arch::Sm80, "the delta rule in segments", delta::segments)
        .device(Arch::Sm80, "the delta rule, long", delta::long)
        .device(Arch::Sm80, "few heads are divided", delta::divided)
        .device(Arch::Sm80, "rows one by one", steps::each)
        .device(Arch::Sm80, "gradients, every kernel", gradients::each)
        .device(Arch::Sm80, "gradients, decays of all strengths", gradients::strengths)
        .device(Arch::Sm80, "gradients by decays of heads", gradients::decays)
        .device(Arch::Sm80, "gradients, lengths", gradients::lengths)
        .device(Arch::Sm80, "gradients, head dimensions", gradients::head_dimensions)
        .device(Arch::Sm80, "gradients in segments", gradients::segments)
        .device(Arch::Sm80, "gradients, sequences one after the other", gradients::packed)
        .device(Arch::Sm80, "gradients of a sequence in two halves", gradients::halves)
        .device(Arch::Sm80, "gradients, NaN stays in its sequence", gradients::neighbours)
        .device(Arch::Sm80, "gradients in random orders of warps", gradients::random)
        .device(Arch::Sm80, "gradients, errors name their argument", gradients::errors)
        .device(Arch::Sm80, "a sequence in two halves", states::round_trip)
        .device(Arch::Sm80, "NaN stays in its sequence", states::neighbours)
        .device(Arch::Sm80, "tensors lie anywhere", states::views)
        .device(Arch::Sm80, "random orders of warps", schedules::random)
        .device(Arch::Sm80, "calls in a graph", schedules::captured)
        .device(Arch::Sm80, "plans run many times", plan::runs)
        .device(Arch::Sm80, "plans of steps run many times", plan::steps)
        .device(Arch::Sm80, "plans run on what they were made for", plan::refuses)
        .device(Arch::Sm80, "errors name their argument", errors::named)
        .device(Arch::Sm80, "reasons for which kernels cannot", errors::reasons)
        .main()
}
