//! Kernels whose layouts rustc inferred keep their fragments in registers.

use std::path::Path;

use tilewright_builder::{Arch, Check, KernelBuilder};

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

/// Of many kernels one is compiled, and its PTX is what it is among the others.
#[test]
fn one_of_many_kernels_is_compiled_alone() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics/cases");
    let built = |only: &[&str]| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("built/only").join(only.join("_"));
        std::fs::create_dir_all(&out).unwrap();
        let builder = KernelBuilder::new(&folder).arch(Arch::Sm90a).out_dir(out).check(Check::Warn);
        only.iter().fold(builder, |builder, name| builder.only(*name)).build()
    };
    let all = built(&[]).unwrap();
    for name in ["annotated", "gated_90", "inferred_90"] {
        let one = built(&[name]).unwrap();
        assert_eq!(one.kernels.iter().map(|kernel| kernel.entry.as_str()).collect::<Vec<_>>(), [name]);
        let among = all.kernels.iter().find(|kernel| kernel.entry == name).unwrap();
        assert_eq!(one.ptx(&one.kernels[0]).unwrap(), all.ptx(among).unwrap(), "{name}");
    }
    let missing = built(&["annotated", "nothing"]).unwrap_err().to_string();
    assert!(missing.contains("it has no kernel `nothing`"), "{missing}");
}
