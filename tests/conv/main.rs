//! `ops::conv` and its gradients against references in f64.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod case;
mod epilogue;
mod errors;
mod gradients;
mod kernels;
mod plan;
mod reference;
mod sizes;
mod views;

fn main() -> ExitCode {
    Suite::new()
        .test("a single wrong element is found", reference::finds_what_is_wrong)
        .device(Arch::Sm80, "every kernel computes what it can", kernels::each)
        .device(Arch::Sm80, "filters, strides, paddings and dilations", sizes::geometries)
        .device(Arch::Sm80, "channels and outputs of all numbers", sizes::channels)
        .device(Arch::Sm80, "groups", sizes::groups)
        .device(Arch::Sm80, "a filter for each channel", sizes::depthwise)
        .device(Arch::Sm80, "sequences, causal ones too", sizes::sequences)
        .device(Arch::Sm80, "volumes", sizes::volumes)
        .device(Arch::Sm80, "sums of integers are exact", sizes::integers)
        .device(Arch::Sm80, "nothing to do", sizes::nothing)
        .device(Arch::Sm80, "biases, residuals and activations", epilogue::all)
        .device(Arch::Sm80, "filters of one pixel are products", epilogue::products)
        .device(Arch::Sm80, "tensors lie anywhere", views::everywhere)
        .device(Arch::Sm80, "NaN stays in its images and groups", views::not_numbers)
        .device(Arch::Sm80, "gradients of images", gradients::images)
        .device(Arch::Sm80, "gradients of filters", gradients::filters)
        .device(Arch::Sm80, "gradients of volumes and of their filters", gradients::volumes)
        .device(Arch::Sm80, "gradients of filters repeat to the bit", gradients::repeat)
        .device(Arch::Sm80, "gradients of nothing are zeros", gradients::nothing)
        .device(Arch::Sm80, "a graph replays a convolution and its gradients", gradients::replay)
        .device(Arch::Sm80, "plans run many times", plan::outputs)
        .device(Arch::Sm80, "plans of gradients run many times", plan::gradients)
        .device(Arch::Sm80, "plans run on what they were made for", plan::refuses)
        .test("any order of warps gives the same", kernels::random_orders)
        .device(Arch::Sm80, "refused calls name their argument", errors::each)
        .main()
}
