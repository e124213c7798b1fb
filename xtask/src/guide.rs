//! The guide, followed literally: the files that it shows are a package, which is built and run.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{Done, QUICK, QUICKER, cargo, root, run, target};

/// Writes the files of docs/write-a-kernel.md to a folder of their own, and runs the program that they are.
pub fn follow() -> Done {
    let guide = read(&root().join("docs/write-a-kernel.md"))?;
    let folder = target()?.join("guide/norm");
    let checkout = root().display().to_string();
    let files = files(&guide);
    let shown: Vec<_> =
        files.iter().map(|(path, _)| folder.join(path)).chain([folder.join("Cargo.lock")]).collect();
    remove_others(&folder, &shown)?;
    for (path, text) in files {
        // The guide's checkout lies beside its package, this one around it: the package is a workspace of its own.
        let text = text.replace("../../tilewright", &checkout).replace("../tilewright", &checkout);
        let text = if path == "Cargo.toml" { text + "\n[workspace]\n" } else { text };
        write(&folder.join(path), &text)?;
    }
    // The same versions as here, which are compiled already; cargo leaves out what the package does without.
    write(&folder.join("Cargo.lock"), &read(&root().join("Cargo.lock"))?)?;
    let mut command = cargo(&["run", "--release", "--manifest-path"]);
    command.arg(folder.join("Cargo.toml")).arg("--target-dir").arg(target()?);
    run(command.args(QUICK).args(QUICKER))
}

/// The files: a line that begins with a path and ends with a colon, and the block of code behind it.
fn files(guide: &str) -> Vec<(&str, String)> {
    let mut lines = guide.lines();
    let mut files = Vec::new();
    while let Some(line) = lines.next() {
        let path =
            line.strip_prefix('`').filter(|_| line.ends_with(':')).and_then(|rest| rest.split('`').next());
        let Some(path) = path else { continue };
        let block = lines.by_ref().skip_while(|line| !line.starts_with("```")).skip(1);
        files.push((path, block.take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect()));
    }
    files
}

/// Removes what an earlier guide showed.
fn remove_others(folder: &Path, shown: &[PathBuf]) -> Done {
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            remove_others(&path, shown)?;
        } else if !shown.contains(&path) {
            fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a file that has changed, so that only what has is built again.
fn write(path: &Path, text: &str) -> Done {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::files;

    #[test]
    fn files_are_named_before_their_text() {
        let guide = "# Title\n\n`a.rs`, which is first:\n\n```rust\nfn a() {}\n\nfn b() {}\n```\n\nNot `this`:\n\n```sh\nls\n```\n`b/c`:\n```\nc\n```\n";
        assert_eq!(
            files(guide),
            [("a.rs", "fn a() {}\n\nfn b() {}\n".to_owned()), ("b/c", "c\n".to_owned())]
        );
    }

    #[test]
    fn the_guide_has_all_of_its_package() {
        let guide = include_str!("../../docs/write-a-kernel.md");
        let paths: Vec<_> = files(guide).into_iter().map(|(path, _)| path).collect();
        let expected =
            ["Cargo.toml", "kernels/Cargo.toml", "kernels/build.rs", "kernels/src/lib.rs", "src/main.rs"];
        assert_eq!(paths, expected);
    }
}
