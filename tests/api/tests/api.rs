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

fn main() -> ExitCode {
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

/// Compares the items of a package with its list, or writes the list.
fn compare(package: &str, features: &str) -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = folder()?;
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
    cargo.arg("--target-dir").arg(&target).args(["--", "-Z", "unstable-options", "--output-format", "json"]);
    // The compiler's stable releases write JSON to those alone who say that they know it may change; cust is built without CUDA's toolkit for documentation alone.
    done(cargo.current_dir(root).env("RUSTC_BOOTSTRAP", "1").env("DOCS_RS", "1"))?;
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
