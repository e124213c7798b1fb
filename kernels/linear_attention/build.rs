//! Compiles the kernels, which the library embeds.

fn main() {
    #[cfg(feature = "build")]
    {
        use tilewright_builder::{Arch, KernelBuilder};
        KernelBuilder::this_package().arch(Arch::Sm80).arch(Arch::Sm90a).build_or_exit();
    }
    #[cfg(not(feature = "build"))]
    println!("cargo::rerun-if-changed=build.rs");
}
