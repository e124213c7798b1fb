//! Compiles the kernels, which the library embeds.

fn main() {
    #[cfg(feature = "build")]
    {
        use tilewright_builder::{Arch, KernelBuilder};
        KernelBuilder::this_package()
            .arch_if(Arch::Sm80, cfg!(feature = "sm_80"))
            .arch_if(Arch::Sm90a, cfg!(feature = "sm_90a"))
            .build_or_exit();
    }
    #[cfg(not(feature = "build"))]
    println!("cargo::rerun-if-changed=build.rs");
}
