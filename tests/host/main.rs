//! The host library on a GPU.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod capture;
mod kernels;
mod launch;
mod memory;

fn main() -> ExitCode {
    Suite::new()
        .gpu(Arch::Sm80, "the device says what it is", memory::properties)
        .gpu(Arch::Sm80, "tensors are filled, written and read", memory::round_trips)
        .gpu(Arch::Sm80, "foreign memory is checked", memory::foreign)
        .gpu(Arch::Sm80, "memory of another context is refused", memory::other_context)
        .gpu(Arch::Sm80, "running out of memory is an error", memory::exhaustion)
        .gpu(Arch::Sm80, "streams are borrowed and ordered by events", memory::streams)
        .gpu(Arch::Sm80, "a kernel runs", launch::runs)
        .gpu(Arch::Sm80, "PTX that does not compile is an error with the compiler's words", launch::bad_ptx)
        .gpu(Arch::Sm80, "several threads launch", launch::threads)
        .gpu(Arch::Sm90a, "clusters and dependent launches run", launch::clusters)
        .gpu(Arch::Sm90a, "tensor maps address what views say", launch::tensor_maps)
        .gpu(Arch::Sm80, "launches are captured and replayed", capture::replays)
        .gpu(Arch::Sm80, "kernels are loaded during capture", capture::loads)
        .gpu(Arch::Sm80, "allocating during capture is an error", capture::allocation)
        .main()
}
