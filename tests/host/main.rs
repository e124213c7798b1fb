//! The host library on a device.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod capture;
mod devices;
mod faults;
mod kernels;
mod launch;
mod limits;
mod memory;
mod refused;

fn main() -> ExitCode {
    Suite::new()
        .device(Arch::Sm80, "the device says what it is", memory::properties)
        .device(Arch::Sm80, "tensors are filled, written and read", memory::round_trips)
        .device(Arch::Sm80, "foreign memory is checked", memory::foreign)
        .gpu(Arch::Sm80, "memory of another context is refused", memory::other_context)
        .device(Arch::Sm80, "running out of memory is an error", memory::exhaustion)
        .device(Arch::Sm80, "streams are borrowed and ordered by events", memory::streams)
        .device(Arch::Sm80, "a kernel runs", launch::runs)
        .device(
            Arch::Sm80,
            "PTX that does not compile is an error with the compiler's words",
            launch::bad_ptx,
        )
        .device(Arch::Sm80, "several threads launch", launch::threads)
        .device(Arch::Sm80, "two devices work side by side", devices::side_by_side)
        .device(Arch::Sm80, "what belongs to another device is refused", devices::not_mixed)
        .device(Arch::Sm90a, "clusters and dependent launches run", launch::clusters)
        .device(Arch::Sm90a, "tensor maps address what views say", launch::tensor_maps)
        .device(Arch::Sm80, "launches are captured and replayed", capture::replays)
        .device(Arch::Sm80, "kernels are loaded during capture", capture::loads)
        .device(Arch::Sm80, "allocating during capture is an error", capture::allocation)
        .gpu(Arch::Sm80, "memory allocated during capture is used", capture::foreign_allocation)
        .device(Arch::Sm80, "calls that wait are refused during capture", capture::waiting)
        .device(
            Arch::Sm80,
            "a stream that another thread captures is not waited for",
            capture::of_other_threads,
        )
        .device(Arch::Sm80, "a capture goes from stream to stream by events", capture::forks)
        .device(Arch::Sm80, "events do not cross a capture's boundary", capture::isolation)
        .device(Arch::Sm80, "a view that the host has no room for is an error", memory::no_room)
        .test("what the emulator finds wrong is reported", faults::are_reported)
        .test("the emulator's limits end launches", limits::end_launches)
        .test("launches are cancelled", limits::are_cancelled)
        .test("rustc says in few lines what is wrong with arguments", refused::in_few_lines)
        .main()
}
