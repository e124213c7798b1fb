//! `ops::causal_conv1d`, `ops::Ssd` and `ops::SsdStep` against the recurrences themselves in f64, gradients against their adjoints.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod adjoint;
mod case;
mod conv;
mod conv_gradient;
mod errors;
mod gradient;
mod gradient_case;
mod plan;
mod reference;
mod scan;
mod step;

fn main() -> ExitCode {
    Suite::new()
        .device(Arch::Sm80, "causal convolution: every kernel, lengths, widths", conv::every_kernel)
        .device(Arch::Sm80, "causal convolution: states of two halves and of steps", conv::states)
        .device(Arch::Sm80, "causal convolution: packed sequences", conv::packed)
        .device(Arch::Sm80, "causal convolution: tensors lie anywhere", conv::places)
        .device(Arch::Sm80, "causal convolution: errors name their arguments", errors::conv)
        .device(Arch::Sm80, "scan: every kernel, lengths", scan::every_kernel)
        .device(Arch::Sm80, "scan: a long sequence, in chunks and whole", scan::long)
        .device(Arch::Sm80, "scan: chunks", scan::chunks)
        .device(Arch::Sm80, "scan: D, gate, bias, softplus, limits", scan::options)
        .device(Arch::Sm80, "scan: decays of 0, 1 and exp(-80)", scan::decays)
        .device(Arch::Sm80, "scan: two halves are the whole", scan::halves)
        .device(Arch::Sm80, "scan: packed sequences", scan::packed)
        .device(Arch::Sm80, "scan: offsets that are wrong", scan::wrong_offsets)
        .device(Arch::Sm80, "scan: NaN stays in its sequence", scan::nan)
        .device(Arch::Sm80, "scan: tensors lie anywhere, heads of other sizes", scan::places)
        .device(Arch::Sm80, "scan: whatever goes together", scan::random)
        .device(Arch::Sm80, "scan: nothing to do", scan::nothing)
        .device(Arch::Sm80, "scan: a graph replays it", scan::replay)
        .device(Arch::Sm80, "scan: errors name their arguments", errors::scan)
        .device(Arch::Sm80, "gradient: every kernel, lengths", gradient::every_kernel)
        .device(Arch::Sm80, "gradient: long sequences", gradient::long)
        .device(Arch::Sm80, "gradient: D, gate, bias, softplus, limits, groups", gradient::options)
        .device(Arch::Sm80, "gradient: decays of 0, 1 and exp(-80)", gradient::decays)
        .device(Arch::Sm80, "gradient: two halves are the whole", gradient::halves)
        .device(Arch::Sm80, "gradient: packed sequences", gradient::packed)
        .device(Arch::Sm80, "gradient: NaN stays in its sequence", gradient::nan)
        .device(Arch::Sm80, "gradient: tensors lie anywhere, heads of other sizes", gradient::places)
        .device(Arch::Sm80, "gradient: whatever goes together", gradient::random)
        .device(Arch::Sm80, "gradient: random orders of warps", gradient::schedules)
        .device(Arch::Sm80, "gradient: nothing to do", gradient::nothing)
        .device(Arch::Sm80, "gradient: offsets that are wrong", gradient::wrong_offsets)
        .device(Arch::Sm80, "gradient: a graph replays it", gradient::replay)
        .device(Arch::Sm80, "gradients: errors name their arguments", errors::gradients)
        .device(Arch::Sm80, "convolution's gradient: lengths, widths, types", conv_gradient::lengths)
        .device(Arch::Sm80, "convolution's gradient: packed sequences", conv_gradient::packed)
        .device(Arch::Sm80, "convolution's gradient: a graph replays it", conv_gradient::captured)
        .device(Arch::Sm80, "step: every kernel", step::every_kernel)
        .device(Arch::Sm80, "step: tokens one by one are the scan", step::tokens)
        .device(Arch::Sm80, "scan: plans run many times", plan::scans)
        .device(Arch::Sm80, "step: plans run many times", plan::steps)
        .device(Arch::Sm80, "step: errors name their arguments", errors::step)
        .main()
}
