//! Layers on several devices: GPUs through NCCL, with the feature `nccl`; emulators otherwise.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod collectives;
mod errors;
mod layers;
mod ranks;

fn main() -> ExitCode {
    Suite::new()
        .device(Arch::Sm80, "collectives: sums and parts of integers are exact", collectives::integers)
        .device(Arch::Sm80, "collectives: nothing to move", collectives::nothing)
        .device(Arch::Sm80, "layers: divided by columns and by rows, as on one device", layers::as_on_one)
        .device(Arch::Sm80, "layers: the same bits each time, and in a graph on GPUs", layers::the_same_bits)
        .device(Arch::Sm80, "layers: some of the SMs", layers::some_sms)
        .device(Arch::Sm80, "errors name their arguments", errors::named)
        .device(Arch::Sm80, "ranks that do not agree are told", errors::disagreement)
        .device(Arch::Sm80, "a rank that is gone is told of", errors::gone)
        .main()
}
