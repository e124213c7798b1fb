//! `ops::{rope, swiglu, geglu, embedding}` against references in f64.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod case;
mod embedding;
mod errors;
mod gated;
mod rope;

fn main() -> ExitCode {
    Suite::new()
        .device(Arch::Sm80, "gated: every kernel, rows of every length", gated::every_kernel)
        .device(Arch::Sm80, "gated: tensors lie anywhere", gated::places_anywhere)
        .device(Arch::Sm80, "gated: gate and up in one tensor", gated::packed_halves)
        .device(Arch::Sm80, "gated: NaN, infinities and extremes", gated::extremes)
        .device(Arch::Sm80, "gated: nothing to do", gated::nothing)
        .device(Arch::Sm80, "gated: errors name their arguments", errors::gated)
        .device(Arch::Sm80, "embedding: every kernel, rows of every length", embedding::every_kernel)
        .device(Arch::Sm80, "embedding: tensors lie anywhere", embedding::places_anywhere)
        .device(Arch::Sm80, "embedding: indices outside", embedding::outside)
        .device(Arch::Sm80, "embedding: nothing to do", embedding::nothing)
        .device(Arch::Sm80, "embedding: errors name their arguments", errors::embedding)
        .device(Arch::Sm80, "rope: every kernel, columns of every number", rope::every_kernel)
        .device(Arch::Sm80, "rope: q and k, in place and back", rope::both)
        .device(Arch::Sm80, "rope: positions, tables and large angles", rope::positions)
        .device(Arch::Sm80, "rope: tensors lie anywhere", rope::places_anywhere)
        .device(Arch::Sm80, "rope: nothing to do", rope::nothing)
        .device(Arch::Sm80, "rope: errors name their arguments", errors::rope)
        .main()
}
