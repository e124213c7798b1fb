//! The build: find, compile, check, write.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;

use crate::compile::Job;
use crate::environment::{Environment, Machine};
use crate::files::{make_folder, shared_folder};
use crate::output::{Manifest, write_manifest};
use crate::process::{Processed, Work};
use crate::ptxas::{self, Ptxas};
use crate::sources::DeviceCrate;
use crate::toolchain::{self, Toolchain};
use crate::{Arch, BuildError, Complaint, Kernel};

/// What happens to kernels that are correct but slow: local memory, spills, serialised `wgmma`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Check {
    /// They fail the build.
    #[default]
    Deny,
    /// They are warned of.
    Warn,
}

/// The environment variable that says whether kernels name their source lines.
const DEBUG_LINES: &str = "TILEWRIGHT_DEBUG_LINES";

/// Compiles a device crate; see the [crate]'s page.
#[derive(Clone, Debug)]
pub struct KernelBuilder {
    device: PathBuf,
    archs: BTreeSet<Arch>,
    check: Check,
    features: Vec<String>,
    debug_lines: bool,
    rustc_arguments: Vec<String>,
    out: Option<PathBuf>,
}

/// What a build made.
#[derive(Clone, Debug)]
pub struct Built {
    /// The kernels, by architecture and name.
    pub kernels: Vec<Kernel>,
    /// rustc's version.
    pub compiler: String,
    /// The release of `ptxas` that checked the kernels; `None` when there was none, and so no check of
    /// registers, spills and `wgmma`.
    pub ptxas: Option<String>,
    /// The folder with `manifest.json`, `kernels.rs` and `ARCH/ENTRY.ptx.z`.
    pub out: PathBuf,
    /// What [`Check::Warn`] let pass.
    pub warnings: Vec<Complaint>,
}

impl KernelBuilder {
    /// A build of the device crate in this folder, which a build script gives relative to its package.
    pub fn new(device: impl Into<PathBuf>) -> Self {
        Self {
            device: device.into(),
            archs: BTreeSet::new(),
            check: Check::Deny,
            features: Vec::new(),
            debug_lines: false,
            rustc_arguments: Vec::new(),
            out: None,
        }
    }

    /// Compiles for this architecture too.
    pub fn arch(mut self, arch: Arch) -> Self {
        self.archs.insert(arch);
        self
    }

    /// Says what happens to slow kernels.
    pub fn check(mut self, check: Check) -> Self {
        self.check = check;
        self
    }

    /// Turns a cargo feature of the device crate on.
    pub fn feature(mut self, feature: impl Into<String>) -> Self {
        self.features.push(feature.into());
        self
    }

    /// Says whether the PTX names the source line of each instruction: for the emulator's messages and for profilers.
    /// The code is the same.
    ///
    /// The environment variable `TILEWRIGHT_DEBUG_LINES`, where it is set, says it instead: 0 for no.
    pub fn debug_lines(mut self, debug_lines: bool) -> Self {
        self.debug_lines = debug_lines;
        self
    }

    /// Gives rustc one more argument when it compiles the device crate itself.
    pub fn rustc_argument(mut self, argument: impl Into<String>) -> Self {
        self.rustc_arguments.push(argument.into());
        self
    }

    /// Writes to this folder instead of the build script's `OUT_DIR`.
    pub fn out_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.out = Some(folder.into());
        self
    }

    /// Builds, or prints what is wrong and ends the build script.
    pub fn build_or_exit(self) -> Built {
        self.build().unwrap_or_else(|error| {
            eprintln!("{error}");
            std::process::exit(1)
        })
    }

    /// Builds the kernels and writes them to the output folder.
    ///
    /// # Errors
    /// No toolchain, a device crate that does not compile, kernels that are not fit to run.
    pub fn build(self) -> Result<Built, BuildError> {
        self.build_on(&Machine)
    }

    fn build_on(self, machine: &dyn Environment) -> Result<Built, BuildError> {
        if self.archs.is_empty() {
            return Err(BuildError::NoArch);
        }
        let script = machine.variable("OUT_DIR").filter(|_| machine.variable("CARGO_MANIFEST_DIR").is_some());
        let say = |instruction: String| {
            if script.is_some() {
                println!("cargo::{instruction}");
            }
        };
        for variable in toolchain::VARIABLES.iter().chain(&ptxas::VARIABLES).chain([&DEBUG_LINES]) {
            say(format!("rerun-if-env-changed={variable}"));
        }
        let out = self.out.clone().or_else(|| script.clone().map(PathBuf::from)).ok_or_else(|| {
            let error = std::io::Error::other("OUT_DIR is not set");
            BuildError::System {
                doing: "building kernels outside of a build script without `out_dir`".into(),
                error,
            }
        })?;
        let package = machine.variable("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
        let folder = package.join(&self.device);
        let folder = folder
            .canonicalize()
            .map_err(|error| BuildError::DeviceCrate { path: folder.clone(), problem: error.to_string() })?;

        let toolchain = toolchain::find(machine)?;
        let device = DeviceCrate::read(&toolchain, &folder)?;
        for path in &device.watched {
            say(format!("rerun-if-changed={}", path.display()));
        }
        let shared = shared_folder(&out);
        // When the project's setup fetches ptxas into this folder, kernels are checked that were not before.
        make_folder(&ptxas::fetched(&shared))?;
        say(format!("rerun-if-changed={}", ptxas::fetched(&shared).display()));
        let ptxas = ptxas::find(machine, &shared)?;

        let debug_lines = machine.variable(DEBUG_LINES).map_or(self.debug_lines, |value| value != "0");
        let modules = self.compile(&toolchain, &device, &shared, debug_lines)?;
        let mut processed = Processed::default();
        for (arch, module) in &modules {
            let work = Work { arch: *arch, module, out: &out, shared: &shared, ptxas: ptxas.as_ref() };
            processed.add(work.run()?);
        }
        let (kernels, warnings) = processed.judge(self.check, &self.archs, &out)?;
        if kernels.is_empty() {
            let problem =
                "it has no kernels: functions marked #[kernel], and `kernels!` for generic ones".into();
            return Err(BuildError::DeviceCrate { path: folder, problem });
        }
        warnings.iter().for_each(|warning| say(format!("warning={warning}")));
        self.finish(&out, toolchain, ptxas, kernels, warnings)
    }

    /// Compiles for all architectures side by side.
    fn compile(
        &self,
        toolchain: &Toolchain,
        device: &DeviceCrate,
        shared: &Path,
        debug_lines: bool,
    ) -> Result<Vec<(Arch, PathBuf)>, BuildError> {
        let job = |arch| Job {
            toolchain,
            device,
            arch,
            shared,
            features: &self.features,
            debug_lines,
            rustc_arguments: &self.rustc_arguments,
        };
        thread::scope(|scope| {
            let started: Vec<_> =
                self.archs.iter().map(|&arch| (arch, scope.spawn(move || job(arch).run()))).collect();
            let finish =
                |(arch, thread): (Arch, thread::ScopedJoinHandle<'_, Result<PathBuf, BuildError>>)| {
                    let module = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                    Ok((arch, module))
                };
            started.into_iter().map(finish).collect()
        })
    }

    fn finish(
        &self,
        out: &Path,
        toolchain: Toolchain,
        ptxas: Option<Ptxas>,
        kernels: Vec<Kernel>,
        warnings: Vec<Complaint>,
    ) -> Result<Built, BuildError> {
        let manifest = Manifest {
            compiler: format!("rustc {}", toolchain.version),
            ptxas: ptxas.map(|p| p.version),
            kernels,
        };
        write_manifest(out, &manifest)?;
        let Manifest { compiler, ptxas, kernels } = manifest;
        Ok(Built { kernels, compiler, ptxas, out: out.to_owned(), warnings })
    }
}
