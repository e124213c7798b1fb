//! Compiles the operators' kernels, which the library embeds.

fn main() {
    #[cfg(feature = "ops")]
    {
        use tilewright_builder::{Arch, KernelBuilder};
        KernelBuilder::new(tilewright_device::SOURCE).arch(Arch::Sm80).arch(Arch::Sm90a).build_or_exit();
    }
    // Without operators there is nothing to do, whatever changes.
    #[cfg(not(feature = "ops"))]
    println!("cargo::rerun-if-changed=build.rs");
}
