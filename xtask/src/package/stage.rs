//! The checkout's copy that is packaged: what git tracks, and what only packages have.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::crates::Crate;
use crate::shell::{Done, root};

/// The licences, which each package has a copy of.
pub const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Removes a folder, if it is there.
pub fn clear(folder: &Path) -> Done {
    if folder.is_dir() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    Ok(())
}

/// Copies a folder, files with their ages: cargo takes what it has compiled there for fresh in the copy too.
pub fn copy_folder(from: &Path, to: &Path) -> Done {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(to).map_err(|error| failed(to, error))?;
    for entry in from.read_dir().map_err(|error| failed(from, error))?.flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &to)?;
            continue;
        }
        let copied = fs::copy(&path, &to).and_then(|_| {
            let age = path.metadata()?.modified()?;
            fs::File::options().append(true).open(&to)?.set_modified(age)
        });
        copied.map_err(|error| failed(&to, error))?;
    }
    Ok(())
}

/// Copies the files that git tracks, as they are now, to this folder, and nothing else.
pub fn copy(to: &Path) -> Done {
    let mut git = Command::new("git");
    let output = git.args(["ls-files", "-z"]).current_dir(root()).output();
    let output = output.map_err(|error| format!("cannot run `git ls-files`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`git ls-files` failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    clear(to)?;
    for file in String::from_utf8_lossy(&output.stdout).split('\0').filter(|file| !file.is_empty()) {
        let (from, to) = (root().join(file), to.join(file));
        // What is tracked may just have been removed.
        if from.is_file() {
            write(&to, |to| fs::copy(&from, to).map(|_| ()))?;
        }
    }
    Ok(())
}

/// Gives each package the licences, and a page where it has none.
pub fn complete(crates: &[Crate]) -> Done {
    for one in crates {
        for licence in LICENCES {
            let from = root().join(licence);
            if !one.folder.join(licence).is_file() {
                write(&one.folder.join(licence), |to| fs::copy(&from, to).map(|_| ()))?;
            }
        }
        let readme = one.folder.join("README.md");
        if !readme.is_file() {
            write(&readme, |to| fs::write(to, page(one)))?;
        }
    }
    Ok(())
}

fn page(one: &Crate) -> String {
    let Crate { name, description, .. } = one;
    let kernels = "It carries its kernels compiled to PTX, so that building it takes stable Rust alone. `TILEWRIGHT_BUILD=source` in the \
                   environment of a build compiles them from the sources that are here too; what is embedded is the same.\n\n";
    let kernels = if one.folder.join("prebuilt").is_dir() { kernels } else { "" };
    format!(
        "# {name}\n\n{description}.\n\n{kernels}A part of [Tilewright](https://crates.io/crates/tilewright), whose page says how its parts go together; \
         [docs.rs/{name}](https://docs.rs/{name}) documents this one.\n"
    )
}

/// Writes a file by `how`, in a folder that is made if need be.
fn write(to: &Path, how: impl FnOnce(&Path) -> std::io::Result<()>) -> Done {
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder).and_then(|()| how(to)).map_err(|error| format!("{}: {error}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_copied_with_their_ages() {
        let root = std::env::temp_dir().join(format!("xtask-package-copy-{}", std::process::id()));
        let (from, to) = (root.join("from"), root.join("to"));
        fs::create_dir_all(from.join("deps")).unwrap();
        fs::write(from.join("deps/core"), "1").unwrap();
        let age = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        fs::File::options().append(true).open(from.join("deps/core")).unwrap().set_modified(age).unwrap();
        copy_folder(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("deps/core")).unwrap(), "1");
        assert_eq!(to.join("deps/core").metadata().unwrap().modified().unwrap(), age);
        fs::remove_dir_all(&root).unwrap();
    }
}
