//! Compiles a small device crate with the device toolchain, which `cargo xtask setup` installs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tilewright_builder::{Arch, BuildError, Built, Check, Complaint, KernelBuilder};

const FIXTURE: &str = "tests/fixtures/kernels";

fn out(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn builder(name: &str) -> KernelBuilder {
    KernelBuilder::new(FIXTURE).out_dir(out(name))
}

fn built(builder: KernelBuilder) -> Built {
    builder.build().unwrap_or_else(|error| panic!("{error}"))
}

fn complaints(builder: KernelBuilder) -> Vec<Complaint> {
    match builder.build() {
        Err(BuildError::Kernels { complaints, .. }) => complaints,
        Err(error) => panic!("{error}"),
        Ok(built) => panic!("should be refused: {built:?}"),
    }
}

fn times(folder: &Path) -> Vec<(PathBuf, SystemTime)> {
    let mut files: Vec<_> = ["manifest.json", "kernels.rs", "sm_80/fill.ptx.z", "sm_90a/fill.ptx.z"]
        .iter()
        .map(|name| folder.join(name))
        .map(|path| (path.clone(), path.metadata().unwrap().modified().unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn both_architectures_are_built_once() {
    let both = || builder("both").arch(Arch::Sm90a).arch(Arch::Sm80);
    let first = built(both());
    let names: Vec<_> = first.kernels.iter().map(|k| (k.arch, k.entry.as_str())).collect();
    assert_eq!(names, [(Arch::Sm80, "fill"), (Arch::Sm90a, "clustered"), (Arch::Sm90a, "fill")]);
    let clustered = &first.kernels[1];
    assert_eq!((clustered.threads, clustered.cluster), (384, [2, 1, 1]));
    assert_eq!(clustered.registers.is_some(), first.ptxas.is_some());

    let compressed = fs::read(first.out.join("sm_90a/clustered.ptx.z")).unwrap();
    let ptx = String::from_utf8(miniz_oxide::inflate::decompress_to_vec(&compressed).unwrap()).unwrap();
    assert_eq!(ptx.len(), clustered.ptx_bytes);
    assert!(ptx.contains(".target sm_90a") && ptx.contains(".align 64"), "{ptx}");
    assert!(ptx.contains(".maxntid 384, 1, 1\n.minnctapersm 1\n.reqnctapercluster 2, 1, 1\n{"), "{ptx}");
    assert!(!ptx.contains("fill"), "each kernel stands alone: {ptx}");

    let written = times(&first.out);
    let second = built(both());
    assert_eq!(second.kernels, first.kernels);
    assert_eq!(times(&second.out), written, "nothing is written again");

    // The same kernels again after someone cleaned up behind cargo's back: of this crate alone, others share the folder.
    let ptx = first.out.parent().unwrap().parent().unwrap().join("tilewright/ptx/sm_90a");
    let files = ptx.read_dir().unwrap().map(|file| file.unwrap().path());
    let own: Vec<_> = files.filter(|path| path.to_string_lossy().contains("fixture_kernels")).collect();
    assert!(!own.is_empty(), "{ptx:?}");
    own.iter().for_each(|path| fs::remove_file(path).unwrap());
    fs::remove_file(first.out.join("sm_80/fill.ptx.z")).unwrap();
    assert_eq!(built(both()).kernels, first.kernels);
    assert!(first.out.join("sm_80/fill.ptx.z").is_file());
}

#[test]
fn architectures_that_are_not_wanted_are_left_out_and_not_missed() {
    let none = built(builder("none_wanted").arch_if(Arch::Sm80, false).arch_if(Arch::Sm90a, false));
    assert!(none.kernels.is_empty());
    assert_eq!(fs::read_to_string(none.out.join("kernels.rs")).unwrap(), "&[\n]");
    // One of the kernels is for sm_90a alone: no architecture that was forgotten.
    let one = built(builder("one_wanted").arch(Arch::Sm80).arch_if(Arch::Sm90a, false));
    let names: Vec<_> = one.kernels.iter().map(|k| (k.arch, k.entry.as_str())).collect();
    assert_eq!(names, [(Arch::Sm80, "fill")]);
}

#[test]
fn kernels_name_their_source_lines_when_asked() {
    let lines = |debug_lines| {
        let name = if debug_lines { "lines" } else { "no_lines" };
        let built = built(builder(name).arch(Arch::Sm80).debug_lines(debug_lines));
        let compressed = fs::read(built.out.join("sm_80/fill.ptx.z")).unwrap();
        let ptx = String::from_utf8(miniz_oxide::inflate::decompress_to_vec(&compressed).unwrap()).unwrap();
        (
            ptx.contains(".loc"),
            ptx.lines().any(|l| l.starts_with(".file") && l.contains("kernels/src/lib.rs")),
        )
    };
    assert_eq!(lines(true), (true, true));
    assert_eq!(lines(false), (false, false));
}

#[test]
fn dependencies_know_when_every_lane_arrives() {
    const VARIABLE: &str = "TILEWRIGHT_SANITIZE";
    let ptx = |name: &str| {
        let built = built(builder(name).arch(Arch::Sm80));
        let compressed = fs::read(built.out.join("sm_80/fill.ptx.z")).unwrap();
        String::from_utf8(miniz_oxide::inflate::decompress_to_vec(&compressed).unwrap()).unwrap()
    };
    // Environments belong to processes: the build that is asked is this test in another one.
    if std::env::var_os(VARIABLE).is_some() {
        assert!(ptx("every_lane").contains("every lane"));
        return;
    }
    let mut asked = std::process::Command::new(std::env::current_exe().unwrap());
    asked.args(["--exact", "dependencies_know_when_every_lane_arrives"]).env(VARIABLE, "1");
    assert!(asked.status().unwrap().success());
    assert!(!ptx("one_lane").contains("every lane"));
}

#[test]
fn slow_kernels_are_named() {
    let slow = || builder("slow").arch(Arch::Sm80).feature("slow");
    let found = complaints(slow());
    assert!(
        found.iter().all(|complaint| complaint.kernel == "slow" && complaint.arch == Arch::Sm80),
        "{found:?}"
    );
    assert!(found[0].problem.contains("256 bytes in local memory"), "{found:?}");
    assert!(out("slow").join("refused/sm_80/slow.ptx").is_file());
    let allowed = built(slow().check(Check::Warn));
    assert_eq!(allowed.warnings, found);
    assert_eq!(allowed.kernels.len(), 2);
}

#[test]
fn unfit_kernels_are_named() {
    let found = complaints(builder("refused").arch(Arch::Sm80).feature("refused").check(Check::Warn));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].to_string(), "kernel `refused` (sm_80): a tile is read before it is full");
    let found = complaints(builder("undeclared").arch(Arch::Sm80).feature("undeclared"));
    assert!(found[0].problem.contains("kernels are made by #[kernel]"), "{found:?}");
    let found = complaints(builder("other").arch(Arch::Sm80).feature("other"));
    assert!(found[0].problem.contains("add `.arch(Arch::Sm90a)` to the build script"), "{found:?}");
}

#[test]
fn errors_of_rustc_come_through() {
    let error = builder("broken").arch(Arch::Sm80).feature("broken").build().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("error[E0308]: mismatched types"), "{text}");
    assert!(text.contains("expected `u32`, found `&str`"), "{text}");
    assert!(text.contains("fixtures/kernels do not compile for sm_80 (rustc 1."), "{text}");
}

#[test]
fn what_is_missing_is_said() {
    let error = builder("none").build().unwrap_err().to_string();
    assert!(error.contains("say `.arch(Arch::Sm80)`"), "{error}");
    let error =
        KernelBuilder::new("nowhere").out_dir(out("none")).arch(Arch::Sm80).build().unwrap_err().to_string();
    assert!(error.contains("nowhere: No such file"), "{error}");
    let error =
        KernelBuilder::new("src").out_dir(out("none")).arch(Arch::Sm80).build().unwrap_err().to_string();
    assert!(error.contains("there is no Cargo.toml"), "{error}");
}
