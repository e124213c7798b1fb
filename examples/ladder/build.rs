//! Compiles the kernels in `device`, which `tilewright::include_kernels!` embeds.

use tilewright_builder::{Arch, KernelBuilder};

fn main() {
    KernelBuilder::new("device").arch(Arch::Sm80).arch(Arch::Sm90a).build_or_exit();
}
