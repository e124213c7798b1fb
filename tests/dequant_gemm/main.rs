//! `ops::dequant_gemm` against references in f64.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod case;
mod codes;
mod epilogue;
mod errors;
mod gated;
mod grouped;
mod int8;
mod plan;
mod quantize;
mod reuse;
mod shapes;
mod wide;

fn main() -> ExitCode {
    let suite = Suite::new()
        .device(Arch::Sm80, "every format, group and mode of zeros", codes::of_every_scheme)
        .device(Arch::Sm80, "codes that are all lowest and all highest", codes::extremes)
        .device(Arch::Sm80, "exact products are exact", codes::exact)
        .device(Arch::Sm80, "every kernel, ragged shapes", shapes::ragged)
        .device(Arch::Sm80, "every kernel takes several tiles a CTA", shapes::several_tiles_a_cta)
        .device(Arch::Sm90a, "streams of many rows and panels", shapes::streamed)
        .device(Arch::Sm90a, "deep tiles", shapes::deep)
        .device(Arch::Sm80, "tiles that are divided among CTAs, twice the same bits", shapes::divided)
        .device(Arch::Sm80, "activations and outputs lie anywhere", shapes::anywhere)
        .device(Arch::Sm80, "scale, bias and activations on every kernel", epilogue::all)
        .device(Arch::Sm80, "a workspace may hold anything", epilogue::workspace)
        .device(Arch::Sm90a, "gated units of every kernel that streams weights", gated::units)
        .device(Arch::Sm90a, "gated units that there are not", gated::refused)
        .device(Arch::Sm80, "a plan runs with other weights, in any memory", plan::runs)
        .device(Arch::Sm80, "a plan of streams and graphs of their own", plan::streams)
        .device(Arch::Sm80, "a plan refuses what it was not made for", plan::refuses)
        .device(Arch::Sm80, "weights are quantised as on the host, to the bit", quantize::as_on_the_host)
        .device(Arch::Sm80, "weights that lie anywhere are quantised", quantize::anywhere)
        .device(Arch::Sm80, "weights that cannot be quantised are named", quantize::refused)
        .device(Arch::Sm80, "weights in memory of somebody else's", quantize::memory)
        .device(Arch::Sm80, "weights made wide are as on the host", wide::as_on_the_host)
        .device(Arch::Sm80, "products of weights that are made wide in slabs", wide::slabs)
        .device(Arch::Sm80, "weights that cannot be made wide are named", wide::refused)
        .device(Arch::Sm80, "one operator on two devices", reuse::on_two_devices)
        .device(Arch::Sm80, "an operator's own memory is not captured", reuse::own_memory_in_a_capture)
        .device(Arch::Sm80, "a workspace lies apart from A", reuse::workspace_apart)
        .device(Arch::Sm80, "refused calls name what is wrong", errors::name_it)
        .device(Arch::Sm90a, "a kernel that scales sums refuses small groups", errors::small_groups)
        .device(Arch::Sm80, "grouped: uneven sizes, one behind the other, on every kernel", grouped::offsets)
        .device(Arch::Sm80, "grouped: matrices of their own", grouped::counts)
        .device(Arch::Sm80, "grouped: one group to 128, all rows in one of them", grouped::groups)
        .device(Arch::Sm80, "grouped: tensors lie anywhere", grouped::anywhere)
        .device(Arch::Sm80, "grouped: exact products are exact", grouped::exact)
        .device(Arch::Sm80, "grouped: NaN stays in its row", grouped::not_a_number)
        .device(Arch::Sm80, "grouped: no rows", grouped::nothing)
        .device(Arch::Sm80, "grouped: numbers that are not as they must be", grouped::wrong_numbers)
        .device(Arch::Sm80, "grouped: schedules of other seeds", grouped::seeds)
        .device(Arch::Sm80, "grouped: plans and graphs", grouped::planned)
        .device(Arch::Sm80, "grouped: refused calls name what is wrong", grouped::refused)
        .device(Arch::Sm80, "int8: every format, group and mode of zeros", int8::of_every_scheme)
        .device(Arch::Sm80, "int8: codes and activations that are all lowest and all highest", int8::extremes)
        .device(Arch::Sm80, "int8: every kernel, ragged shapes", int8::ragged)
        .device(Arch::Sm80, "int8: tiles that are divided among CTAs", int8::divided)
        .device(Arch::Sm80, "int8: scales of rows, bias and activations on every kernel", int8::epilogues)
        .device(Arch::Sm80, "int8: rows apart, bias, activation, outputs anywhere", int8::anywhere)
        .device(Arch::Sm80, "int8: refused calls name what is wrong", int8::errors);
    // A kernel in front is another operator's.
    #[cfg(feature = "pointwise")]
    let suite = suite.device(
        Arch::Sm80,
        "grouped: numbers that the kernel in front writes",
        grouped::written_in_front,
    );
    suite.main()
}
