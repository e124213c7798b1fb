//! `cargo xtask package`: the crates as they would be published, and the proof that they need nothing.

mod archives;
mod crates;
mod prebuilt;
mod programs;
mod proof;
mod stage;
mod toolchain;

use std::path::PathBuf;

use crate::setup::setup;
use crate::shell::{Done, root, say, target};

/// Packages all crates, those of these operators with their kernels compiled, and proves that a project can be built of them
/// by stable Rust alone. Of all operators if none is named.
pub fn package(names: &[&str]) -> Done {
    let all = operators()?;
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|one| one == *name)) {
        return Err(format!("there is no operator `{unknown}`: there are {}", all.join(", ")));
    }
    let chosen: Vec<_> =
        all.into_iter().filter(|one| names.is_empty() || names.contains(&one.as_str())).collect();
    setup()?;
    let folder = target()?.join("packages");
    let (checkout, again) = (folder.join("checkout"), folder.join("again"));
    // What an earlier call has left would not be compiled again.
    stage::clear(&again)?;
    prebuilt::share_dependencies(&target()?, &again)?;
    stage::copy(&checkout)?;
    let mut built = Vec::new();
    for operator in &chosen {
        built.push(prebuilt::pack(operator, &checkout, &again)?);
    }
    let crates = crates::publishable(&checkout)?;
    stage::complete(&crates)?;
    archives::make(&checkout, &crates, &chosen, &folder)?;
    proof::prove(&crates, &chosen, &built, &folder)?;
    let names: Vec<_> = crates.iter().map(|one| format!("-p {}", one.name)).collect();
    say(&format!(
        "nothing is published. What would do it, in this order: cargo publish --no-verify --manifest-path {} {}",
        checkout.join("Cargo.toml").display(),
        names.join(" ")
    ));
    Ok(())
}

/// The operators, by the names of their folders.
pub fn operators() -> Result<Vec<String>, String> {
    let folder = root().join("kernels");
    let entries = folder.read_dir().map_err(|error| format!("{}: {error}", folder.display()))?;
    let is_package = |path: &PathBuf| path.join("Cargo.toml").is_file();
    let packages = entries.flatten().map(|entry| entry.path()).filter(is_package);
    let mut names: Vec<_> =
        packages.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
    names.sort();
    Ok(names)
}

/// The package of an operator's kernels.
pub fn package_of(operator: &str) -> String {
    format!("tilewright-{}", operator.replace('_', "-"))
}
