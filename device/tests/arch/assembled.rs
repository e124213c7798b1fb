//! The entry points through rustc, the builder and `ptxas`.

use std::sync::LazyLock;

use tilewright_builder::{Arch, Built};

use crate::common::build;

/// The instructions, built once for all tests.
static BUILT: LazyLock<Result<Built, String>> = LazyLock::new(|| build("arch/instructions"));

fn built() -> &'static Built {
    BUILT.as_ref().unwrap_or_else(|missing| panic!("{missing}"))
}

/// The PTX of an entry point.
fn ptx(arch: Arch, entry: &str) -> String {
    let file = built().out.join(format!("{}/{entry}.ptx.z", arch.target()));
    let compressed = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let bytes = miniz_oxide::inflate::decompress_to_vec(&compressed).expect("compressed by the builder");
    String::from_utf8(bytes).expect("PTX is ASCII")
}

#[test]
fn everything_assembles() {
    let count = |arch| built().kernels.iter().filter(|kernel| kernel.arch == arch).count();
    assert!(count(Arch::Sm80) > 15, "{:?}", built().kernels);
    assert!(count(Arch::Sm90a) > 80, "{:?}", built().kernels);
    let unassembled: Vec<_> = built().kernels.iter().filter(|kernel| kernel.registers.is_none()).collect();
    assert!(unassembled.is_empty(), "{unassembled:?}");
}

/// LLVM does not know that a warp's lanes execute these together, and would copy them into both branches.
#[test]
fn what_lanes_execute_together_is_not_copied() {
    let barrier = ptx(Arch::Sm80, "barrier_between_branches");
    assert_eq!(barrier.matches("bar.sync").count(), 1, "{barrier}");
    let shuffle = ptx(Arch::Sm80, "shuffle_between_branches");
    assert_eq!(shuffle.matches("shfl.sync").count(), 1, "{shuffle}");
}
