//! From the device crate to PTX: cargo and rustc's NVPTX backend.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment::{clean, without_wrappers};
use crate::files::{hash, make_folder, while_doing};
use crate::progress::{Phase, Progress};
use crate::slots::Slot;
use crate::sources::DeviceCrate;
use crate::toolchain::Toolchain;
use crate::{Arch, BuildError};
use crate::{dependencies, diagnostics};

/// The target that kernels are compiled for, as rustc names it.
pub(crate) const TARGET: &str = "nvptx64-nvidia-cuda";

/// What LLVM must be told for kernels, and what each is for.
const LLVM: [&str; 4] = [
    // Loops over a fragment's registers must vanish: memory holds whatever is indexed by a variable.
    "-unroll-threshold=20000",
    // Loops with a length known only at run time stay as they are written: the threshold would multiply them.
    "-unroll-runtime=false",
    // Closures that hold fragments must be inlined, for the same reason.
    "-inline-threshold=100000",
    // `a * b + c` is one instruction, as in CUDA.
    "-fp-contract=fast",
];

/// What rustc must be told for PTX that says which source line each instruction was made of, and where that was inlined. Code of
/// macros gets the line that calls them: that of an instruction's own macro would be the same for all.
const DEBUG_LINES: [&str; 2] = ["-Cdebuginfo=limited", "-Ccollapse-macro-debuginfo=yes"];

/// One compilation.
pub(crate) struct Job<'a> {
    pub toolchain: &'a Toolchain,
    pub device: &'a DeviceCrate,
    pub arch: Arch,
    /// The folder for all builds of this target folder.
    pub shared: &'a Path,
    /// cargo's arguments that choose the crate's features.
    pub features: &'a [String],
    /// Whether the crate's kernels print and assert.
    pub debug: bool,
    pub debug_lines: bool,
    /// Whether every lane arrives at mbarriers: said to all crates, since it is tilewright-device that asks.
    pub sanitize: bool,
    /// The kernels to compile, if not all.
    pub only: &'a [String],
    pub rustc_arguments: &'a [String],
    /// How many compilations may run at a time.
    pub slots: usize,
    pub progress: &'a Progress,
}

/// What came of one.
pub(crate) struct Compiled {
    /// Where the PTX is.
    pub ptx: PathBuf,
    /// What rustc warns of, where the host's rustc does not see it.
    pub warnings: Vec<String>,
}

impl Job<'_> {
    /// Compiles; a moment's work when nothing changed.
    pub fn run(&self) -> Result<Compiled, BuildError> {
        let ptx = self.ptx_path()?;
        let builds = self.shared.join("build").join(self.arch.target());
        let own = builds.join(format!("{}-{}", self.device.package, hash(&self.device.manifest)));
        self.progress.enter(self.arch, Phase::Dependencies);
        let common = builds.join("dependencies");
        let stamp = dependencies::stamp(&self.settings(), &self.device.depended);
        dependencies::bring(&common, &own, &self.device.package, &stamp, || {
            self.compile_dependencies(&common)
        })?;
        self.progress.enter(self.arch, Phase::Waiting);
        let _slot = Slot::take(self.shared, self.slots)?;
        self.progress.enter(self.arch, Phase::Compiling);
        let warnings = self.compile(&own, &ptx)?;
        if !ptx.is_file() {
            // Cargo thinks that all is built, but someone took the file away. A path that it has not seen makes
            // it run rustc again.
            let other = ptx.with_extension(format!("{}.s", std::process::id()));
            self.compile(&own, &other)?;
            fs::rename(&other, &ptx).map_err(while_doing("looking for the compiled kernels:", &other))?;
        }
        Ok(Compiled { ptx, warnings })
    }

    /// A file of its own for each crate and each way to compile it, since cargo keeps builds of all of them.
    fn ptx_path(&self) -> Result<PathBuf, BuildError> {
        let folder = self.shared.join("ptx").join(self.arch.target());
        make_folder(&folder)?;
        if folder.to_string_lossy().contains(',') {
            let problem = format!(
                "rustc takes no output path with a comma, and the target folder is {}",
                folder.display()
            );
            return Err(BuildError::DeviceCrate { path: self.device.manifest.clone(), problem });
        }
        Ok(folder.join(format!("{}-{}.s", self.device.library, self.settings())))
    }

    /// A name for all that decides how the crate is compiled, but for sources.
    fn settings(&self) -> String {
        // cargo would take a file for fresh that another version of a dependency wrote in the meantime. What else the
        // workspace and its Cargo.lock hold does not matter.
        let DeviceCrate { manifest, packages, manifests, workspace, .. } = self.device;
        let text = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default();
        let manifests: Vec<_> = manifests.iter().map(text).chain([profiles(&text(workspace))]).collect();
        let Toolchain { rustc, version, .. } = self.toolchain;
        hash(&(manifest, manifests, packages, rustc, version, self.features, self.arguments(), self.sanitize))
    }

    /// rustc's arguments for the device crate alone.
    fn arguments(&self) -> Vec<String> {
        let cfg = self.arch.cfg();
        let mut arguments = vec![
            "--cfg".to_owned(),
            format!("tilewright_sm=\"{cfg}\""),
            "--check-cfg".to_owned(),
            "cfg(tilewright_sm, values(\"80\", \"90\"))".to_owned(),
            "--check-cfg".to_owned(),
            "cfg(tilewright_debug)".to_owned(),
        ];
        if self.debug {
            arguments.extend(["--cfg".to_owned(), "tilewright_debug".to_owned()]);
        }
        arguments.extend(["--check-cfg".to_owned(), "cfg(tilewright_some, values(any()))".to_owned()]);
        if !self.only.is_empty() {
            arguments.extend(["--cfg".to_owned(), "tilewright_some".to_owned()]);
        }
        let only = self.only.iter().map(|kernel| format!("tilewright_some=\"{kernel}\""));
        arguments.extend(only.flat_map(|cfg| ["--cfg".to_owned(), cfg]));
        arguments.extend(LLVM.iter().map(|option| format!("-Cllvm-args={option}")));
        if self.debug_lines {
            arguments.extend(DEBUG_LINES.map(str::to_owned));
        }
        arguments.extend_from_slice(self.rustc_arguments);
        arguments
    }

    /// Compiles what the crate depends on; the crate itself only tells its name.
    fn compile_dependencies(&self, folder: &Path) -> Result<(), BuildError> {
        let mut command = self.cargo(folder);
        command.args(["--", "--print=crate-name"]);
        // What fails here fails again when the crate is compiled, and is reported then.
        command.output().map(|_| ()).map_err(while_doing("running", &self.toolchain.cargo))
    }

    /// Compiles the crate to this file, and gives what rustc warns of.
    fn compile(&self, folder: &Path, ptx: &Path) -> Result<Vec<String>, BuildError> {
        let mut command = self.cargo(folder);
        let mut emit = OsString::from("--emit=asm=");
        emit.push(ptx);
        // There is nothing to link, and on most machines no linker for it.
        command.args(["--message-format=json", "--", "-Zno-link"]).arg(emit).args(self.arguments());
        let output = command.output().map_err(while_doing("running", &self.toolchain.cargo))?;
        let messages = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let output = diagnostics::errors(&messages)
                .unwrap_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned());
            let compiler = format!("rustc {}", self.toolchain.version);
            let folder = self.device.manifest.parent().unwrap_or(&self.device.manifest).to_owned();
            return Err(BuildError::Compile { arch: self.arch, folder, compiler, output });
        }
        // What a linker would have written, and must not be older than what it is made of: cargo takes a build without it for
        // stale, and compiles all kernels again.
        let linked = folder.join(TARGET).join("release/deps").join(&self.device.library);
        let linked = linked.with_extension("ptx");
        fs::write(&linked, "").map_err(while_doing("writing", &linked))?;
        let DeviceCrate { manifest, workspace, .. } = self.device;
        // rustc's paths are relative to the workspace.
        let root = workspace.parent().unwrap_or(Path::new("."));
        Ok(diagnostics::warnings(&messages, manifest, |path| {
            fs::read_to_string(root.join(path)).unwrap_or_default()
        }))
    }

    /// The command that compiles in this folder, up to rustc's arguments.
    fn cargo(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.toolchain.cargo);
        clean(&mut command);
        let package = self.device.manifest.parent().unwrap_or(Path::new("."));
        without_wrappers(&mut command, package);
        command
            .env("RUSTC", &self.toolchain.rustc)
            .env("RUSTC_BOOTSTRAP", "1")
            .env(
                "CARGO_ENCODED_RUSTFLAGS",
                // rustc does not mark asm! as convergent: without the last, LLVM copies barriers into branches.
                format!(
                    "-Ctarget-cpu={}\x1f-Cllvm-args=-simplifycfg-max-small-block-size=0{}",
                    self.arch.target(),
                    if self.sanitize { "\x1f--cfg=tilewright_sanitize" } else { "" }
                ),
            )
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3")
            .env("CARGO_PROFILE_RELEASE_LTO", "fat")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
            .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
            .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "false")
            .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "false")
            .env("CARGO_PROFILE_RELEASE_INCREMENTAL", "false")
            .current_dir(package)
            .args(["rustc", "--release", "--lib", "--crate-type=cdylib"])
            .args(["-Zbuild-std=core", "--target", TARGET, "--manifest-path"])
            .arg(&self.device.manifest)
            .arg("--target-dir")
            .arg(folder)
            .args(self.features);
        command
    }
}

/// The profiles of a workspace, which say how its crates are compiled.
fn profiles(manifest: &str) -> String {
    let mut inside = false;
    let lines = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            inside = line.starts_with("[profile");
        }
        inside
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_found() {
        let manifest =
            "[workspace]\nmembers = []\n\n[profile.release.package.half]\nopt-level = 1\n\n[lints]\n";
        assert_eq!(profiles(manifest), "[profile.release.package.half]\nopt-level = 1\n");
    }
}
