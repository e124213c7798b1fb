//! `ops::reduce`, `ops::argmax` and `ops::top_k` against references in f64.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod argmax;
mod case;
mod errors;
mod parts;
mod plan;
mod top_k;
mod values;

fn main() -> ExitCode {
    Suite::new()
        .device(Arch::Sm80, "reduce: every kernel, lines of every length", values::every_kernel)
        .device(Arch::Sm80, "reduce: every dimension of tensors anywhere", values::dimensions)
        .device(Arch::Sm80, "reduce: five dimensions, repeated elements", values::five_dimensions)
        .device(Arch::Sm80, "reduce: integers are exact", values::integers)
        .device(Arch::Sm80, "reduce: NaN, infinities and extremes", values::extremes)
        .device(Arch::Sm80, "reduce: no elements, no results", values::nothing)
        .device(Arch::Sm80, "reduce: parts in memory", parts::few_results)
        .device(Arch::Sm80, "reduce: the same bits each time", parts::the_same_bits)
        .device(Arch::Sm80, "reduce: a graph replays it", parts::replay)
        .device(Arch::Sm80, "reduce: plans run many times", plan::runs)
        .device(Arch::Sm80, "reduce: plans run on what they were made for", plan::refuses)
        .device(Arch::Sm80, "reduce: errors name their arguments", errors::reduce)
        .device(Arch::Sm80, "argmax: every kernel, rows of every length", argmax::every_kernel)
        .device(Arch::Sm80, "argmax: rows lie anywhere", argmax::places)
        .device(Arch::Sm80, "argmax: other dimensions, and argmin", argmax::dimensions)
        .device(Arch::Sm80, "argmax: NaN, infinities and extremes", argmax::extremes)
        .device(Arch::Sm80, "argmax: nothing to do, and errors", argmax::nothing)
        .device(Arch::Sm80, "top-k: every kernel, rows of every length", top_k::every_kernel)
        .device(Arch::Sm80, "top-k: short rows", top_k::short_rows)
        .device(Arch::Sm80, "top-k: indices of each type", top_k::indices)
        .device(Arch::Sm80, "top-k: long rows, and equal elements", top_k::long_rows)
        .device(Arch::Sm80, "top-k: rows lie anywhere", top_k::places_anywhere)
        .device(Arch::Sm80, "top-k: NaN, infinities and extremes", top_k::extremes)
        .device(Arch::Sm80, "top-k: nothing to do, and errors", top_k::nothing)
        .main()
}
