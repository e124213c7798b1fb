//! Compiles the kernels, which the library embeds.

use tilewright_builder::{Arch, KernelBuilder};

fn main() {
    KernelBuilder::new(tilewright_device::SOURCE).arch(Arch::Sm80).arch(Arch::Sm90a).build_or_exit();
}
