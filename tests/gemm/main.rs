//! `ops::gemm` against references in f64.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod batches;
mod bias;
mod capture;
mod case;
mod chains;
mod constant;
mod divided;
mod epilogue;
mod errors;
mod full;
mod gated;
mod kernels;
mod kinds;
mod lines;
mod operand;
mod reference;
mod sizes;
mod streams;
mod views;

fn main() -> ExitCode {
    Suite::new()
        .test("a single wrong element is found", reference::finds_what_is_wrong)
        .device(Arch::Sm80, "every kernel loads, on many threads at a time", kernels::load_on_threads)
        .device(
            Arch::Sm80,
            "every kernel computes partial, whole and many tiles",
            kernels::each_on_every_shape,
        )
        .device(Arch::Sm90a, "warpgroups take tiles in turn", kernels::in_turn)
        .device(Arch::Sm80, "all sizes from 1 to 4097, lines padded", sizes::with_padding)
        .device(Arch::Sm80, "all sizes from 1 to 4097, lines packed", sizes::without_padding)
        .device(Arch::Sm80, "matrices lie anywhere", views::everywhere)
        .device(Arch::Sm80, "every kernel writes and reads C anywhere", views::outputs_of_every_kernel)
        .device(Arch::Sm80, "elements of A repeat", views::repetition)
        .device(Arch::Sm80, "heads of a fused projection", views::methods)
        .device(
            Arch::Sm80,
            "a plan of several launches runs wherever matrices begin",
            batches::planned_off_and_run_on,
        )
        .device(Arch::Sm80, "batches, strided and interleaved", batches::strided)
        .device(Arch::Sm80, "batches that share A or B", batches::shared)
        .device(Arch::Sm80, "batches of more dimensions", batches::of_more_dimensions)
        .device(Arch::Sm80, "batches of many small matrices", batches::many)
        .device(Arch::Sm80, "alpha and beta of every kind", epilogue::scales)
        .device(Arch::Sm80, "biases of every shape", epilogue::biases)
        .device(Arch::Sm80, "a bias that was broadcast", epilogue::broadcast_views)
        .device(Arch::Sm90a, "gated units of every kernel that has them", gated::units)
        .device(Arch::Sm90a, "gated units that there are not", gated::refused)
        .device(Arch::Sm80, "products of depth 0", epilogue::no_depth)
        .device(Arch::Sm80, "products without elements launch nothing", epilogue::nothing)
        .device(Arch::Sm80, "NaN and infinity stay in their rows", epilogue::not_numbers)
        .device(Arch::Sm80, "exact sums are exact", epilogue::rounding)
        .device(Arch::Sm90a, "all CTAs divide tiles, with any workspace", divided::workspaces)
        .device(Arch::Sm90a, "captured products that would divide tiles", divided::captured)
        .device(Arch::Sm80, "operands that are copied into aligned lines", lines::copied)
        .device(Arch::Sm80, "a graph replays a product", capture::replay)
        .device(Arch::Sm80, "recording runs nothing", capture::recording_runs_nothing)
        .gpu(Arch::Sm80, "calls take no memory", capture::memory)
        .device(Arch::Sm80, "borrowed streams", streams::borrowed)
        .device(Arch::Sm80, "several streams and threads", streams::several)
        .device(Arch::Sm80, "streams ordered by events", streams::ordered_by_events)
        .device(Arch::Sm90a, "overlapping chains of products", chains::of_products)
        .device(Arch::Sm90a, "overlapping chains in graphs", chains::in_graphs)
        .device(Arch::Sm90a, "overlapping chains of sums", chains::of_sums)
        .device(Arch::Sm90a, "overlapping chains whose weights are constant", constant::chains)
        .device(Arch::Sm80, "f32 in full precision, on every kernel", full::kernels_of_f32)
        .device(Arch::Sm80, "f32 whose depth CTAs divide, with memory for sums and without", full::divided)
        .device(Arch::Sm80, "f32 keeps the bits that tf32 has not", full::precision)
        .device(Arch::Sm80, "refused calls leave everything alone", errors::leave_everything_alone)
        .device(Arch::Sm80, "one operator on two devices", errors::two_devices)
        .device(Arch::Sm80, "memory that is too small", errors::too_small)
        .gpu(Arch::Sm80, "memory of another context", errors::foreign)
        .gpu(Arch::Sm80, "a second GPU's tensors", errors::second_device)
        .main()
}
