//! Which compiler is taken, on machines made up in temporary folders.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::{ptxas, slots};

/// A machine of files in a folder; a fake rustc's or ptxas's text is its version.
struct Fake {
    root: PathBuf,
    variables: HashMap<&'static str, OsString>,
    memory: u64,
}

impl Fake {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("tilewright-builder-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let variables = HashMap::from([("HOME", root.join("home").into())]);
        Self { root, variables, memory: 16 << 30 }
    }

    fn file(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A toolchain at this place, with sources or without.
    fn toolchain(&self, place: &str, version: &str, sources: bool) -> PathBuf {
        if sources {
            self.file(&format!("{place}/lib/rustlib/src/rust/library/core/src/lib.rs"), "");
        }
        self.file(&format!("{place}/bin/rustc"), version)
    }

    /// A toolchain of rustup's.
    fn rustup(&self, name: &str, version: &str, sources: bool) -> PathBuf {
        self.toolchain(&format!("home/.rustup/toolchains/{name}-x86_64-unknown-linux-gnu"), version, sources)
    }

    fn system(&self, version: &str, sources: bool) -> PathBuf {
        self.toolchain("usr", version, sources)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Environment for Fake {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).cloned()
    }

    fn rustc(&self, path: &Path) -> Result<Rustc, String> {
        let version = fs::read_to_string(path).map_err(|error| error.to_string())?;
        Ok(Rustc { version, sysroot: path.parent().unwrap().parent().unwrap().to_owned() })
    }

    fn ptxas(&self, path: &Path) -> Result<String, String> {
        fs::read_to_string(path).map_err(|error| error.to_string())
    }

    fn system_rustc(&self) -> PathBuf {
        self.root.join("usr/bin/rustc")
    }

    fn memory(&self) -> Option<u64> {
        Some(self.memory)
    }
}

fn tried(fake: &Fake) -> Vec<(String, String)> {
    match find(fake) {
        Err(BuildError::NoToolchain { tried }) => tried.into_iter().map(|t| (t.place, t.because)).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_environment_comes_first() {
    let mut fake = Fake::new("first");
    fake.system("1.96.0", true);
    fake.rustup("nightly-2026-05-20", "1.97.0-nightly", true);
    let own = fake.toolchain("own", "1.98.0-dev", true);
    assert_eq!(find(&fake).unwrap().version, "1.97.0-nightly");
    fake.variables.insert("TILEWRIGHT_RUSTC", own.clone().into());
    assert_eq!(find(&fake).unwrap().rustc, own);
}

#[test]
fn rustup_comes_before_the_distribution() {
    let fake = Fake::new("rustup");
    let system = fake.system("1.96.0", true);
    fake.rustup("nightly", "1.99.0-nightly", false);
    fake.rustup("nightly-2026-06-01", "1.98.0-nightly (sources)", true);
    fake.rustup("nightly-2026-07-01", "1.98.0-nightly (no sources)", false);
    assert_eq!(find(&fake).unwrap().version, "1.98.0-nightly (sources)");
    fake.rustup("nightly-2026-05-20", "1.97.0-nightly", true);
    assert_eq!(find(&fake).unwrap().version, "1.98.0-nightly (sources)");
    fs::remove_dir_all(fake.root.join("home")).unwrap();
    assert_eq!(find(&fake).unwrap().rustc, system);
}

#[test]
fn the_toolchain_that_runs_comes_before_others() {
    let mut fake = Fake::new("runs");
    fake.system("1.99.0", true);
    fake.rustup("nightly", "1.98.0-nightly", true);
    let stable = fake.rustup("stable", "1.97.0", true);
    fake.toolchain("home/.rustup/toolchains/stage1", "1.98.0-dev", true);
    let running = fake.rustup("1.95.0", "1.95.0", true);
    assert_eq!(find(&fake).unwrap().rustc, stable);
    fake.variables.insert("CARGO", running.with_file_name("cargo").into());
    assert_eq!(find(&fake).unwrap().rustc, running);
    assert_eq!(without_sources(&fake), None, "it has them");
}

#[test]
fn a_toolchain_that_lacks_sources_alone_is_known() {
    let mut fake = Fake::new("lacks");
    let system = fake.system("1.96.0", true);
    let running = fake.rustup("stable", "1.95.0", false);
    assert_eq!(without_sources(&fake), None, "nothing says what runs");
    fake.variables.insert("CARGO", running.with_file_name("cargo").into());
    assert_eq!(find(&fake).unwrap().rustc, system);
    assert_eq!(without_sources(&fake), Some(running));
    let old = fake.rustup("1.90.0", "1.90.0", false);
    fake.variables.insert("CARGO", old.with_file_name("cargo").into());
    assert_eq!(without_sources(&fake), None, "it is too old");
}

#[test]
fn cargo_is_the_neighbour_or_the_one_that_runs() {
    let mut fake = Fake::new("cargo");
    fake.system("1.96.0", true);
    let old = fake.file("usr/bin/cargo", "a distribution's, of another age");
    assert_eq!(find(&fake).unwrap().cargo, Path::new("cargo"));
    fake.variables.insert("CARGO", "/stable/bin/cargo".into());
    assert_eq!(find(&fake).unwrap().cargo, Path::new("/stable/bin/cargo"));
    assert_ne!(find(&fake).unwrap().cargo, old);
    let nightly = fake.rustup("nightly", "1.97.0-nightly", true);
    let neighbour = nightly.with_file_name("cargo");
    fs::write(&neighbour, "").unwrap();
    assert_eq!(find(&fake).unwrap().cargo, neighbour);
}

#[test]
fn what_does_not_do_is_listed_with_the_reason() {
    let mut fake = Fake::new("listed");
    let expect = |fake: &Fake, reasons: &[&str]| {
        let tried = tried(fake);
        assert_eq!(tried.len(), reasons.len(), "{tried:?}");
        for ((_, because), reason) in tried.iter().zip(reasons) {
            assert!(because.contains(reason), "{tried:?}");
        }
    };
    expect(&fake, &["not set", "not there"]);
    let running = fake.rustup("stable", "1.94.0", true);
    fake.rustup("nightly", "1.97.0-nightly (e50aa6fba 2026-05-19)", false);
    fake.system("1.63.0", true);
    let old = ["not set", "1.94.0 is too old", "without its library's sources", "1.63.0 is too old"];
    expect(&fake, &old);
    // The one that runs is looked at once.
    fake.variables.insert("CARGO", running.with_file_name("cargo").into());
    expect(&fake, &old);
    let error = find(&fake).unwrap_err().to_string();
    assert!(
        error.contains("rustup toolchain nightly-x86_64-unknown-linux-gnu: rustc 1.97.0 without"),
        "{error}"
    );
    assert!(error.contains("rustup toolchain install stable --profile minimal --component rust-src"));
    assert!(error.contains("apt-get update && apt-get install rustc-web rust-web-src"));
    fake.system("1.96.0", true);
    fake.variables.insert("TILEWRIGHT_RUSTC", fake.root.join("absent").into());
    expect(&fake, &["No such file"]);
}

#[cfg(unix)]
#[test]
fn sources_of_another_version_do_not_do() {
    let fake = Fake::new("mismatch");
    fake.system("1.96.0", false);
    fake.file("usr/src/rustc-1.95.0/library/core/src/lib.rs", "");
    fs::create_dir_all(fake.root.join("usr/lib/rustlib/src")).unwrap();
    std::os::unix::fs::symlink("../../../src/rustc-1.95.0", fake.root.join("usr/lib/rustlib/src/rust"))
        .unwrap();
    let because = tried(&fake).pop().unwrap().1;
    assert!(because.contains("rustc 1.96.0 with the library sources of 1.95.0"), "{because}");
}

#[test]
fn as_many_compilations_run_as_cargo_asks_for_and_memory_holds() {
    let mut fake = Fake::new("slots");
    fake.variables.insert("NUM_JOBS", "4".into());
    assert_eq!(slots::count(&fake), 4);
    fake.memory = 7 << 30;
    assert_eq!(slots::count(&fake), 3);
    fake.memory = 1 << 30;
    assert_eq!(slots::count(&fake), 1);
}

#[test]
fn ptxas_is_found_in_order() {
    let mut fake = Fake::new("ptxas");
    let shared = fake.root.join("target/tilewright");
    let found = |fake: &Fake| ptxas::find(fake, &shared).unwrap().map(|ptxas| ptxas.version);
    let release = |number: &str| format!("release {number}, V{number}.99");
    // The machine that the tests run on may have one in /usr/local/cuda; it is no file of the fake's.
    fake.file("path/ptxas", &release("12.2"));
    fake.variables.insert("PATH", fake.root.join("path").into());
    if !Path::new("/usr/local/cuda/bin/ptxas").is_file() {
        assert_eq!(found(&fake), Some(release("12.2")));
    }
    fake.file("cuda/bin/ptxas", &release("12.4"));
    fake.variables.insert("CUDA_HOME", fake.root.join("cuda").into());
    assert_eq!(found(&fake), Some(release("12.4")));
    fake.file("target/tilewright/ptxas/nvidia/cu13/bin/ptxas", &release("11.8"));
    assert_eq!(found(&fake), Some(release("12.4")), "one that is too old is passed over");
    fake.file("target/tilewright/ptxas/nvidia/cu13/bin/ptxas", &release("13.0"));
    assert_eq!(found(&fake), Some(release("13.0")));
    let old = fake.file("old/ptxas", &release("11.8"));
    fake.variables.insert("TILEWRIGHT_PTXAS", old.into());
    let error = ptxas::find(&fake, &shared).unwrap_err().to_string();
    assert!(error.contains("12.1 or later is needed"), "{error}");
}
