//! `ops::softmax` and its kin against references in f64.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod case;
mod cross_entropy;
mod errors;
mod masked_softmax;
mod norm;
mod norm_gradient;
mod plan;
mod softmax;
mod softmax_gradient;

fn main() -> ExitCode {
    Suite::new()
        .device(Arch::Sm80, "softmax: every kernel, rows of every length", softmax::every_kernel)
        .device(Arch::Sm80, "softmax: several tiles a CTA", softmax::several_tiles)
        .device(Arch::Sm80, "softmax: rows lie anywhere", softmax::places)
        .device(Arch::Sm80, "softmax: other dimensions", softmax::dimensions)
        .device(Arch::Sm80, "softmax: scales and logarithms", softmax::scales)
        .device(Arch::Sm80, "softmax: NaN, infinities and extremes", softmax::extremes)
        .device(Arch::Sm80, "softmax: nothing to do", softmax::nothing)
        .device(Arch::Sm80, "softmax: a graph replays it", softmax::replay)
        .device(Arch::Sm80, "softmax: errors name their arguments", errors::softmax)
        .device(
            Arch::Sm80,
            "masked softmax: every kernel, rows of every length",
            masked_softmax::every_kernel,
        )
        .device(Arch::Sm90a, "masked softmax: rows that begin anywhere", masked_softmax::ragged)
        .device(Arch::Sm80, "masked softmax: rows lie anywhere", masked_softmax::places)
        .device(Arch::Sm80, "masked softmax: masks that repeat", masked_softmax::broadcast)
        .device(Arch::Sm80, "masked softmax: NaN, infinities, nothing left", masked_softmax::extremes)
        .device(Arch::Sm80, "masked softmax: errors name their arguments", errors::masked_softmax)
        .device(
            Arch::Sm80,
            "softmax gradient: every kernel, rows of every length",
            softmax_gradient::every_kernel,
        )
        .device(Arch::Sm80, "softmax gradient: several tiles a CTA", softmax_gradient::several_tiles)
        .device(Arch::Sm80, "softmax gradient: rows lie anywhere", softmax_gradient::places)
        .device(Arch::Sm80, "softmax gradient: NaN, infinities and extremes", softmax_gradient::extremes)
        .device(Arch::Sm80, "softmax gradient: errors name their arguments", errors::softmax_gradient)
        .device(Arch::Sm80, "norms: every kernel, rows of every length", norm::every_kernel)
        .device(Arch::Sm80, "norms: several tiles a CTA", norm::several_tiles)
        .device(Arch::Sm80, "norms: rows lie anywhere", norm::places)
        .device(Arch::Sm80, "norms: views", norm::views)
        .device(Arch::Sm80, "norms: weights begin anywhere", norm::weights_anywhere)
        .device(Arch::Sm80, "norms: NaN, infinities and extremes", norm::extremes)
        .device(Arch::Sm80, "norms: nothing to do", norm::nothing)
        .device(Arch::Sm80, "norms: errors name their arguments", errors::norm)
        .device(Arch::Sm80, "norm gradients: every kernel, rows of every length", norm_gradient::every_kernel)
        .device(Arch::Sm80, "norm gradients: several tiles a CTA", norm_gradient::several_tiles)
        .device(Arch::Sm80, "norm gradients: rows lie anywhere", norm_gradient::places)
        .device(Arch::Sm80, "norm gradients: NaN and what lies outside", norm_gradient::extremes)
        .device(Arch::Sm80, "norm gradients: nothing to do", norm_gradient::nothing)
        .device(Arch::Sm80, "norm gradients: a graph replays them", norm_gradient::replay)
        .device(Arch::Sm80, "norm gradients: errors name their arguments", errors::norm_gradient)
        .device(Arch::Sm80, "cross-entropy: every kernel, rows of every length", cross_entropy::every_kernel)
        .device(Arch::Sm80, "cross-entropy: several tiles a CTA", cross_entropy::several_tiles)
        .device(Arch::Sm80, "cross-entropy: rows lie anywhere", cross_entropy::places)
        .device(Arch::Sm80, "cross-entropy: NaN, infinities and extremes", cross_entropy::extremes)
        .device(Arch::Sm80, "cross-entropy: labels of all types", cross_entropy::labels_of_all_types)
        .device(Arch::Sm80, "cross-entropy: nothing to do", cross_entropy::nothing)
        .device(Arch::Sm80, "cross-entropy: errors name their arguments", errors::cross_entropy)
        .device(Arch::Sm80, "plans: softmax and its gradient run many times", plan::softmax)
        .device(Arch::Sm80, "plans: norms and their gradients run many times", plan::norms)
        .device(Arch::Sm80, "plans: cross-entropy runs many times", plan::cross_entropy)
        .device(Arch::Sm80, "plans: launches lie anywhere", plan::launches)
        .device(Arch::Sm80, "plans: what they were not made for is refused", plan::refuses)
        .main()
}
