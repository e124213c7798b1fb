//! Kernels whose layouts rustc inferred keep their fragments in registers.

use tilewright_builder::Arch;

use crate::common::build;

/// The builder refuses local memory, spills and serialised `wgmma`.
#[test]
fn inferred_kernels_are_made_of_registers() {
    let built = build("diagnostics/cases").unwrap_or_else(|problem| panic!("{problem}"));
    let found: Vec<_> = built.kernels.iter().map(|kernel| (kernel.arch, kernel.entry.as_str())).collect();
    let expected = [
        (Arch::Sm80, "chained_80"),
        (Arch::Sm80, "gated_80"),
        (Arch::Sm80, "inferred_80"),
        (Arch::Sm90a, "annotated"),
        (Arch::Sm90a, "chained_90"),
        (Arch::Sm90a, "columns"),
        (Arch::Sm90a, "gated_90"),
        (Arch::Sm90a, "inferred_90"),
    ];
    assert_eq!(found, expected);
    assert!(built.kernels.iter().all(|kernel| kernel.registers.is_some()), "{:?}", built.kernels);
}
