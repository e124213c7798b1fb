//! The public items of the crates that are published are those of the lists in `tests/api`.
//!
//! A change of a list is a change that users see: `UPDATE_SNAPSHOTS=yes cargo test -p tilewright-api-tests` writes them anew. Items come
//! from rustdoc's JSON, whose format goes with the compiler: where it is not the one that `public-api` reads, nothing is compared and the
//! tests are reported as ignored.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};

/// Packages, and their features without kernels, which take minutes to compile and are not what is listed.
const PACKAGES: [(&str, &str); 5] = [
    (
        "tilewright",
        "attention,conv,cudarc,cust,dequant_gemm,dlpack,emulator,gemm,grouped_gemm,linear_attention,mla,pointwise,reduce,rows,scaled_gemm,ssd",
    ),
    ("tilewright-builder", ""),
    ("tilewright-device", ""),
    ("tilewright-emulator", ""),
    ("tilewright-ptx", ""),
];

/// Set where cargo runs this program in rustdoc's place.
const AS_RUSTDOC: &str = "TILEWRIGHT_API_AS_RUSTDOC";

fn main() -> ExitCode {
    if std::env::var_os(AS_RUSTDOC).is_some() {
        return as_rustdoc();
    }
    let unknown = known().err();
    if let Some(reason) = &unknown {
        println!("not compared: {reason}");
    }
    let trials = PACKAGES
        .map(|(package, features)| {
            Trial::test(package, move || compare(package, features).map_err(Failed::from))
                .with_ignored_flag(unknown.is_some())
        })
        .into();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Whether this compiler's JSON is of the format that is read: that of an empty crate is tried.
fn known() -> Result<(), Box<dyn Error>> {
    let folder = folder()?;
    let empty = folder.join("empty.rs");
    std::fs::write(&empty, "")?;
    let mut rustdoc = Command::new("rustdoc");
    rustdoc.args([
        "--crate-name",
        "empty",
        "--edition",
        "2024",
        "-Z",
        "unstable-options",
        "--output-format",
        "json",
        "-o",
    ]);
    done(rustdoc.arg(&folder).arg(&empty).env("RUSTC_BOOTSTRAP", "1"))?;
    items(&folder.join("empty.json")).map(drop)
}

/// Runs rustdoc as it is run here. The compiler's stable releases write JSON to those alone who say that they know it may change; were all of cargo told
/// so, it would compile every dependency anew.
fn as_rustdoc() -> ExitCode {
    let mut rustdoc = Command::new("rustdoc");
    let status = rustdoc.args(std::env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("rustdoc: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Compares the items of a package with its list, or writes the list.
fn compare(package: &str, features: &str) -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Where dependencies are compiled already.
    let target =
        Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("a folder for temporary files alone")?;
    let mut cargo = Command::new("cargo");
    cargo.args([
        "rustdoc",
        "--release",
        "--lib",
        "--no-default-features",
        "--features",
        features,
        "--package",
        package,
    ]);
    cargo.arg("--target-dir").arg(target).args(["--", "-Z", "unstable-options", "--output-format", "json"]);
    // cust is built without CUDA's toolkit for documentation alone.
    cargo.envs([("DOCS_RS", "1"), (AS_RUSTDOC, "1")]).env("RUSTDOC", std::env::current_exe()?);
    done(cargo.current_dir(root))?;
    let json = target.join("doc").join(package.replace('-', "_")).with_extension("json");
    snapshot_testing::assert_eq_or_update(items(&json)?, root.join(package).with_extension("txt"));
    Ok(())
}

/// The public items that a JSON file has, a line each, without what each type derives. An item that many types have alike is one line.
fn items(json: &Path) -> Result<String, Box<dyn Error>> {
    let builder = public_api::Builder::from_rustdoc_json(json);
    let own = builder.omit_blanket_impls(true).omit_auto_trait_impls(true).omit_auto_derived_impls(true);
    let lines: BTreeSet<String> = own.build()?.items().map(|item| format!("{item}\n")).collect();
    Ok(lines.into_iter().collect())
}

/// A folder for what is built here.
fn folder() -> Result<PathBuf, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("api");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Runs a command; an error has what it wrote.
fn done(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{command:?}:\n{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(())
}
