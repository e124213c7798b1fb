//! The proof: a project in a folder of its own, offline, with stable Rust and nothing that compiles kernels.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use tilewright_builder::Built;

use super::archives::archive;
use super::crates::Crate;
use super::package_of;
use super::prebuilt::same;
use super::programs::files;
use super::toolchain::{answer, stable};
use crate::shell::{Done, cargo, run, say};

/// What links programs: all that the proof takes of the machine beside Rust.
const LINKING: [&str; 5] = ["cc", "ld", "as", "ar", "gcc"];

/// Builds and runs a project that depends on the packages of these operators, which carry the kernels that are in `built`.
pub fn prove(crates: &[Crate], operators: &[String], built: &[PathBuf], folder: &Path) -> Done {
    let Some(tilewright) = crates.iter().find(|one| one.name == "tilewright") else {
        return Err("there is no crate tilewright".to_owned());
    };
    let vendor = folder.join("vendor");
    registry(crates, folder, &vendor)?;
    let project = Project::new()?;
    for (path, text) in files(&tilewright.version, operators) {
        write(&project.root.join(path), &text)?;
    }
    let source = format!(
        "[source.crates-io]\nreplace-with = \"packages\"\n\n[source.packages]\ndirectory = {:?}\n\n[net]\noffline = true\n",
        vendor.display().to_string()
    );
    write(&project.root.join("home/config.toml"), &source)?;
    let rust = stable(&tilewright.rust_version)?;
    say(&format!("the proof is made with {}", answer(Command::new(rust.join("rustc")).arg("--version"))?));
    let begun = Instant::now();
    run(&mut project.command(&rust)?)?;
    say(&format!("built and run in {:.0} s", begun.elapsed().as_secs_f64()));
    for (operator, built) in operators.iter().zip(built) {
        same(built, &project.output(operator)?)?;
    }
    say("it embeds the kernels that the checkout's build does");
    Ok(())
}

/// Writes the crates and all that they depend on to a folder that cargo takes for a registry.
fn registry(crates: &[Crate], folder: &Path, vendor: &Path) -> Done {
    run(cargo(&["vendor", "--quiet", "--locked", "--versioned-dirs"]).arg(vendor))?;
    for one in crates {
        let root = vendor.join(format!("{}-{}", one.name, one.version));
        if root.is_dir() {
            fs::remove_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        }
        answer(Command::new("tar").arg("-xzf").arg(archive(one, folder)).arg("-C").arg(vendor))?;
        write(&root.join(".cargo-checksum.json"), "{\"files\":{}}")?;
    }
    Ok(())
}

/// The project's folder, which is gone when it is dropped.
struct Project {
    root: PathBuf,
}

impl Project {
    fn new() -> Result<Self, String> {
        let root = std::env::temp_dir().join(format!("tilewright-proof-{}", std::process::id()));
        if root.exists() {
            return Err(format!("{} is there already", root.display()));
        }
        Ok(Self { root })
    }

    /// `cargo run` with these programs of Rust's, what links programs, and nothing else of the environment.
    fn command(&self, rust: &Path) -> Result<Command, String> {
        let programs = self.root.join("programs");
        fs::create_dir_all(&programs).map_err(|error| format!("{}: {error}", programs.display()))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        for name in LINKING {
            let found =
                std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
            if let Some(found) = found {
                link(&found, &programs.join(name))?;
            }
        }
        let path = std::env::join_paths([rust, &programs]).map_err(|error| error.to_string())?;
        let nothing = self.root.join("nothing");
        let mut command = Command::new(rust.join("cargo"));
        command.arg("run").current_dir(&self.root).env_clear().env("PATH", path);
        command.env("HOME", self.root.join("home")).env("CARGO_HOME", self.root.join("home"));
        command.env("TILEWRIGHT_DEVICE", "emulator");
        // Who looks for them all the same fails.
        command.env("TILEWRIGHT_RUSTC", &nothing).env("TILEWRIGHT_PTXAS", &nothing);
        Ok(command)
    }

    /// The output folder of the build script of an operator's kernels.
    fn output(&self, operator: &str) -> Result<PathBuf, String> {
        let (builds, name) = (self.root.join("target/debug/build"), package_of(operator) + "-");
        let entries = builds.read_dir().map_err(|error| format!("{}: {error}", builds.display()))?;
        let is_of =
            |path: &PathBuf| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&name));
        let mut outputs =
            entries.flatten().map(|entry| entry.path()).filter(is_of).map(|path| path.join("out"));
        outputs.find(|out| Built::is_in(out)).ok_or_else(|| format!("the proof has no kernels of {operator}"))
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // What stays lies among temporary files.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Names a program in another folder.
#[cfg(unix)]
fn link(program: &Path, name: &Path) -> Done {
    std::os::unix::fs::symlink(program, name).map_err(|error| format!("{}: {error}", name.display()))
}

/// Windows links by Visual Studio's own linker, which Rust finds by itself.
#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> Done {
    Ok(())
}

fn write(path: &Path, text: &str) -> Done {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}
