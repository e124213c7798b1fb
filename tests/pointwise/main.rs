//! `ops::{elementwise, cast, copy, transpose, rope, swiglu, geglu, embedding}` against references in f64.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod case;
mod cast;
mod elementwise;
mod embedding;
mod errors;
mod gated;
mod plan;
mod rope;
mod rope_append;
mod transpose;

fn main() -> ExitCode {
    Suite::new()
        .device(Arch::Sm80, "gated: every kernel, rows of every length", gated::every_kernel)
        .device(Arch::Sm80, "gated: tensors lie anywhere", gated::places_anywhere)
        .device(Arch::Sm80, "gated: rows of every pitch", gated::rows_anywhere)
        .device(Arch::Sm80, "gated: gate and up in one tensor", gated::packed_halves)
        .device(Arch::Sm80, "gated: NaN, infinities and extremes", gated::extremes)
        .device(Arch::Sm80, "gated: nothing to do", gated::nothing)
        .device(Arch::Sm80, "gated: plans", plan::gated)
        .device(Arch::Sm80, "gated: errors name their arguments", errors::gated)
        .device(Arch::Sm80, "elementwise: every kernel, rows of every length", elementwise::every_kernel)
        .device(Arch::Sm80, "elementwise: every function", elementwise::every_function)
        .device(Arch::Sm80, "elementwise: tensors lie anywhere", elementwise::places_anywhere)
        .device(Arch::Sm80, "elementwise: rows begin anywhere", elementwise::begins_anywhere)
        .device(Arch::Sm80, "elementwise: rows of every pitch", elementwise::rows_anywhere)
        .device(Arch::Sm80, "elementwise: inputs that repeat", elementwise::broadcasts)
        .device(Arch::Sm80, "elementwise: scale and bias", elementwise::affine)
        .device(Arch::Sm80, "elementwise: NaN, infinities and extremes", elementwise::extremes)
        .device(Arch::Sm80, "elementwise: nothing to do", elementwise::nothing)
        .device(Arch::Sm80, "elementwise, cast: errors name their arguments", errors::elementwise)
        .device(Arch::Sm80, "cast: every type to every type", cast::every_pair)
        .device(Arch::Sm80, "cast: every kernel", cast::every_kernel)
        .device(Arch::Sm80, "cast: every number of 8 bits", cast::eight_bits)
        .device(Arch::Sm80, "cast: tensors lie anywhere", cast::places_anywhere)
        .device(Arch::Sm80, "transpose: every kernel, matrices of every size", transpose::every_kernel)
        .device(Arch::Sm80, "transpose: tensors lie anywhere", transpose::places_anywhere)
        .device(Arch::Sm80, "transpose: every order of dimensions", transpose::orders)
        .device(Arch::Sm80, "transpose: no bank conflicts", transpose::conflicts)
        .device(Arch::Sm80, "transpose: nothing to do", transpose::nothing)
        .device(Arch::Sm80, "transpose: errors name their arguments", errors::transpose)
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
        .device(Arch::Sm80, "rope: every kernel that appends to a cache", rope_append::every_kernel)
        .device(Arch::Sm80, "rope: caches of 8 bits", rope_append::codes)
        .device(Arch::Sm80, "rope: plans", plan::rope)
        .device(Arch::Sm80, "rope: plans that append to a cache", plan::append)
        .device(Arch::Sm80, "rope: errors of appending name their arguments", rope_append::errors)
        .device(Arch::Sm80, "rope: errors name their arguments", errors::rope)
        .main()
}
