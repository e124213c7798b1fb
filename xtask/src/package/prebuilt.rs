//! An operator's kernels, compiled twice and packed.

use std::fs;
use std::path::{Path, PathBuf};

use tilewright_builder::{Built, setup};

use super::{package_of, stage};
use crate::code::builds::{BUILT_FOR_ALL, folders_in};
use crate::record::verify;
use crate::shell::{Done, root, say, target};

/// Gives the target folder `again` what kernels depend on as `target` has it, if it does: `core` and the device library, whose functions
/// are compiled where kernels call them. Kernels are what is compiled twice.
pub fn share_dependencies(target: &Path, again: &Path) -> Done {
    let builds = Path::new("tilewright/build");
    for arch in target.join(builds).read_dir().into_iter().flatten().flatten() {
        let folder = builds.join(arch.file_name()).join("dependencies");
        if target.join(&folder).is_dir() {
            stage::copy_folder(&target.join(&folder), &again.join(&folder))?;
        }
    }
    Ok(())
}

/// Compiles the operator's kernels, once more in the target folder `again`, compares the two, and packs them into the copy of
/// the checkout. Gives the first build's output folder.
pub fn pack(operator: &str, checkout: &Path, again: &Path) -> Result<PathBuf, String> {
    let manifest = root().join("kernels").join(operator).join("Cargo.toml");
    let first = one(folders_in(&manifest, &target()?, &BUILT_FOR_ALL)?, operator)?;
    let built = Built::read(&first).map_err(|error| error.to_string())?;
    let ptxas = setup::ptxas(&first).map_err(|error| error.to_string())?;
    let Some(ptxas) = ptxas.filter(|_| built.ptxas.is_some()) else {
        return Err(format!(
            "the kernels of {operator} were not checked by ptxas: such are not to be packaged"
        ));
    };
    let mut variables = BUILT_FOR_ALL.to_vec();
    variables.push(("TILEWRIGHT_PTXAS", Some(ptxas.path.as_os_str())));
    let second = one(folders_in(&manifest, again, &variables)?, operator)?;
    same(&first, &second)?;
    verify(&built, &ptxas, |_| true)?;
    say(&format!("{}: {} kernels, the same in both builds", package_of(operator), built.kernels.len()));
    built.pack(checkout.join("kernels").join(operator)).map_err(|error| error.to_string())?;
    Ok(first)
}

fn one(mut folders: Vec<PathBuf>, operator: &str) -> Result<PathBuf, String> {
    match (folders.pop(), folders.is_empty()) {
        (Some(folder), true) => Ok(folder),
        _ => Err(format!("the build of {operator} has the kernels of other crates too")),
    }
}

/// Whether two builds wrote the same: what is known of the kernels, what embeds them, and their code.
pub fn same(first: &Path, second: &Path) -> Done {
    let built = Built::read(first).map_err(|error| error.to_string())?;
    let kernels =
        built.kernels.iter().map(|kernel| format!("{}/{}.ptx.z", kernel.arch.target(), kernel.entry));
    let files = ["manifest.json", "kernels.rs"].map(str::to_owned).into_iter().chain(kernels);
    let read = |path: PathBuf| fs::read(&path).map_err(|error| format!("{}: {error}", path.display()));
    let mut different = Vec::new();
    for file in files {
        if read(first.join(&file))? != read(second.join(&file))? {
            different.push(file);
        }
    }
    if different.is_empty() {
        return Ok(());
    }
    let (first, second) = (first.display(), second.display());
    Err(format!("{first} and {second} differ, in {}", different.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_compared_by_all_that_is_embedded() {
        let root = std::env::temp_dir().join(format!("xtask-package-same-{}", std::process::id()));
        let write = |folder: &str, code: &str| {
            let folder = root.join(folder);
            fs::create_dir_all(folder.join("sm_80")).unwrap();
            let manifest = r#"{"compiler": "rustc", "ptxas": null, "kernels": [{"entry": "k", "arch": "sm_80", "threads": 1, "min_ctas": 1,
                "cluster": [1, 1, 1], "shared_bytes": 0, "registers": null, "ptx_bytes": 1, "compressed_bytes": 1}]}"#;
            fs::write(folder.join("manifest.json"), manifest).unwrap();
            fs::write(folder.join("kernels.rs"), "&[]").unwrap();
            fs::write(folder.join("sm_80/k.ptx.z"), code).unwrap();
            folder
        };
        let [a, b, c] = [("a", "1"), ("b", "1"), ("c", "2")].map(|(folder, code)| write(folder, code));
        assert_eq!(same(&a, &b), Ok(()));
        let error = same(&a, &c).unwrap_err();
        assert!(error.ends_with("differ, in sm_80/k.ptx.z"), "{error}");
        fs::remove_dir_all(&root).unwrap();
    }
}
