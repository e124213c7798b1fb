//! `ops::gemm` on a GPU, against references in f64.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod batches;
mod bias;
mod capture;
mod case;
mod chains;
mod epilogue;
mod errors;
mod exact;
mod kernels;
mod kinds;
mod operand;
mod reference;
mod sizes;
mod streams;
mod views;

fn main() -> ExitCode {
    Suite::new()
        .test("activations in f64 agree with tables", exact::agrees_with_tables)
        .test("a single wrong element is found", reference::finds_what_is_wrong)
        .gpu(Arch::Sm80, "every kernel loads, on many threads at a time", kernels::load_on_threads)
        .gpu(Arch::Sm80, "every kernel computes partial, whole and many tiles", kernels::each_on_every_shape)
        .gpu(Arch::Sm80, "all sizes from 1 to 4097, lines padded", sizes::with_padding)
        .gpu(Arch::Sm80, "all sizes from 1 to 4097, lines packed", sizes::without_padding)
        .gpu(Arch::Sm80, "matrices lie anywhere", views::everywhere)
        .gpu(Arch::Sm80, "every kernel writes and reads C anywhere", views::outputs_of_every_kernel)
        .gpu(Arch::Sm80, "elements of A repeat", views::repetition)
        .gpu(Arch::Sm80, "heads of a fused projection", views::methods)
        .gpu(Arch::Sm80, "batches, strided and interleaved", batches::strided)
        .gpu(Arch::Sm80, "batches that share A or B", batches::shared)
        .gpu(Arch::Sm80, "batches of many small matrices", batches::many)
        .gpu(Arch::Sm80, "alpha and beta of every kind", epilogue::scales)
        .gpu(Arch::Sm80, "biases of every shape", epilogue::biases)
        .gpu(Arch::Sm80, "a bias that was broadcast", epilogue::broadcast_views)
        .gpu(Arch::Sm80, "products of depth 0", epilogue::no_depth)
        .gpu(Arch::Sm80, "products without elements launch nothing", epilogue::nothing)
        .gpu(Arch::Sm80, "NaN and infinity stay in their rows", epilogue::not_numbers)
        .gpu(Arch::Sm80, "exact sums are exact", epilogue::rounding)
        .gpu(Arch::Sm80, "a graph replays a product", capture::replay)
        .gpu(Arch::Sm80, "recording runs nothing", capture::recording_runs_nothing)
        .gpu(Arch::Sm80, "calls take no memory", capture::memory)
        .gpu(Arch::Sm80, "borrowed streams", streams::borrowed)
        .gpu(Arch::Sm80, "several streams and threads", streams::several)
        .gpu(Arch::Sm80, "streams ordered by events", streams::ordered_by_events)
        .gpu(Arch::Sm90a, "overlapping chains of products", chains::of_products)
        .gpu(Arch::Sm90a, "overlapping chains in graphs", chains::in_graphs)
        .gpu(Arch::Sm90a, "overlapping chains of sums", chains::of_sums)
        .gpu(Arch::Sm80, "refused calls leave everything alone", errors::leave_everything_alone)
        .gpu(Arch::Sm80, "memory that is too small or foreign", errors::memory)
        .gpu(Arch::Sm80, "a second GPU's tensors", errors::second_device)
        .main()
}
