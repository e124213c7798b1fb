//! The build: find, compile, check, write.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::compile::{Compiled, Job, TARGET};
use crate::environment::{Environment, Machine};
use crate::files::{make_folder, shared_folder};
use crate::output::{Manifest, write_manifest};
use crate::prebuilt::{self, Wanted};
use crate::process::{Processed, Work};
use crate::progress::{self, Progress};
use crate::ptxas;
use crate::record::Record;
use crate::sources::DeviceCrate;
use crate::special::{self, Special};
use crate::toolchain;
use crate::{Arch, BuildError, Built, slots, unchecked};

/// What happens to kernels that are correct but slow: local memory, spills, serialised `wgmma`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Check {
    /// They fail the build.
    #[default]
    Deny,
    /// They are warned of.
    Warn,
}

/// How often progress is shown.
const PERIOD: Duration = Duration::from_secs(1);

/// Compiles a device crate; see the [crate]'s page.
#[derive(Clone, Debug)]
pub struct KernelBuilder {
    device: PathBuf,
    /// What the crate has kernels for.
    offered: BTreeSet<Arch>,
    /// What they are compiled for.
    archs: BTreeSet<Arch>,
    check: Check,
    default_features: bool,
    features: Vec<String>,
    special: Special,
    rustc_arguments: Vec<String>,
    out: Option<PathBuf>,
}

impl KernelBuilder {
    /// A build of the device crate in this folder, which a build script gives relative to its package.
    pub fn new(device: impl Into<PathBuf>) -> Self {
        Self {
            device: device.into(),
            offered: BTreeSet::new(),
            archs: BTreeSet::new(),
            check: Check::Deny,
            default_features: true,
            features: Vec::new(),
            special: Special::default(),
            rustc_arguments: Vec::new(),
            out: None,
        }
    }

    /// A build of the package whose build script this is: its kernels and the code that launches them are one crate.
    ///
    /// The kernels are compiled without the package's default features. See the [crate]'s page.
    pub fn this_package() -> Self {
        Self { default_features: false, ..Self::new("") }
    }

    /// Compiles for this architecture too.
    pub fn arch(self, arch: Arch) -> Self {
        self.arch_if(arch, true)
    }

    /// Compiles for this architecture too, if that is wanted: `cfg!(feature = "sm_90a")` makes it a feature of the package. A set
    /// without an architecture says so where a kernel of it is looked for; one without any takes no compiler to build.
    pub fn arch_if(mut self, arch: Arch, wanted: bool) -> Self {
        self.offered.insert(arch);
        if wanted {
            self.archs.insert(arch);
        }
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

    /// Says whether `device_print!` prints and `device_assert!` checks; where not, they are no code at all. It includes
    /// [`debug_lines`](Self::debug_lines), and lets kernels that print have local memory and spills.
    ///
    /// The environment variable `TILEWRIGHT_DEBUG`, where it is set, says it instead: 0 for no, 1 for the kernels of all crates, or the names
    /// of packages, separated by commas: of those whose kernels are compiled. What such a package depends on prints nothing.
    pub fn debug(mut self, debug: bool) -> Self {
        self.special.debug = debug;
        self
    }

    /// Says whether the PTX names the source line of each instruction: for the emulator's messages and for profilers.
    /// The code is the same.
    ///
    /// The environment variable `TILEWRIGHT_DEBUG_LINES`, where it is set, says it instead: 0 for no.
    pub fn debug_lines(mut self, debug_lines: bool) -> Self {
        self.special.debug_lines = debug_lines;
        self
    }

    /// Compiles the kernel of this name, with others that are named so, and no other: for who works on one of many. A launch of one that is
    /// missing is an error.
    ///
    /// The environment variable `TILEWRIGHT_KERNELS` says it instead for the packages that it names: `PACKAGE::KERNEL`, separated by commas.
    pub fn only(mut self, kernel: impl Into<String>) -> Self {
        self.special.only.push(kernel.into());
        self
    }

    /// Leaves out LLVM's straight-line strength reduction: a fifth of the time of crates of many kernels. ptxas finds most of what it finds; kernels at
    /// the limit of their registers may spill without it, and the build says so then.
    pub fn without_strength_reduction(self) -> Self {
        self.rustc_argument("-Cllvm-args=-opt-disable=slsr")
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

    /// Builds, or says what is wrong and ends the build script, whereupon cargo ends the build.
    pub fn build_or_exit(self) -> Built {
        self.build().unwrap_or_else(|error| {
            if Machine.variable("CARGO").is_none() {
                eprintln!("{error}");
                std::process::exit(1)
            }
            // cargo shows these lines alone. Of a script that fails by its status it would show all that was printed.
            error.to_string().lines().for_each(|line| println!("cargo::error={line}"));
            std::process::exit(0)
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
        if self.offered.is_empty() {
            return Err(BuildError::NoArch);
        }
        let script = machine.variable("OUT_DIR").filter(|_| machine.variable("CARGO_MANIFEST_DIR").is_some());
        let say = |instruction: String| {
            if script.is_some() {
                println!("cargo::{instruction}");
            }
        };
        let own = special::VARIABLES.iter().chain([&prebuilt::BUILD]);
        for variable in toolchain::VARIABLES.iter().chain(&ptxas::VARIABLES).chain(own) {
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
        if script.is_some() && machine.variable("TARGET").is_some_and(|target| target == TARGET) {
            // The package is compiled for the GPU just now, by the builder in its own build script or in that of a crate
            // which depends on it.
            say(format!("rerun-if-changed={}", package.join("build.rs").display()));
            return Ok(Built::none(out));
        }
        let folder = package.join(&self.device);
        let folder = folder
            .canonicalize()
            .map_err(|error| BuildError::DeviceCrate { path: folder.clone(), problem: error.to_string() })?;
        if self.archs.is_empty() {
            say(format!("rerun-if-changed={}", folder.join("Cargo.toml").display()));
            write_manifest(&out, &Manifest::default())?;
            return Ok(Built::none(out));
        }
        let name = machine.variable("CARGO_PKG_NAME").unwrap_or_default();
        let special = self.special.asked(machine, &name.to_string_lossy());
        let arguments: Vec<_> =
            self.feature_arguments().into_iter().chain(self.rustc_arguments.clone()).collect();
        let wanted =
            Wanted { package: &folder, archs: &self.archs, arguments: &arguments, special: special.name() };
        if wanted.is_chosen(machine)? {
            for path in [prebuilt::FOLDER, "src", "build.rs"].map(|path| folder.join(path)) {
                say(format!("rerun-if-changed={}", path.display()));
            }
            return Ok(Built::of(wanted.take(&out)?, out, Vec::new()));
        }

        let toolchain = toolchain::find(machine)?;
        let features = self.feature_arguments();
        let shared = shared_folder(&out);
        let device = DeviceCrate::read(&toolchain, &folder, &features, &shared)?;
        for path in &device.watched {
            say(format!("rerun-if-changed={}", path.display()));
        }
        // When the project's setup fetches ptxas into this folder, kernels are checked that were not before.
        make_folder(&ptxas::fetched(&shared))?;
        say(format!("rerun-if-changed={}", ptxas::fetched(&shared).display()));
        let ptxas = ptxas::find(machine, &shared)?;
        if let Some(notice) = unchecked::notice(&shared, &out, ptxas.as_ref())? {
            say(format!("warning={notice}"));
        }

        let terminal = script.as_ref().and_then(|_| progress::terminal(machine));
        let progress = Progress::new(&device.package, terminal, PERIOD);
        let Special { debug, debug_lines, sanitize, only } = self.special.asked(machine, &device.package);
        let missing = |name: &str| BuildError::DeviceCrate {
            path: folder.clone(),
            problem: format!("it has no kernel `{name}`, which alone was to be compiled"),
        };
        if let Some(name) = only.iter().find(|name| !is_identifier(name)) {
            return Err(missing(name));
        }
        let slots = slots::count(machine);
        let job = |arch| Job {
            toolchain: &toolchain,
            device: &device,
            arch,
            shared: &shared,
            features: &features,
            debug,
            debug_lines,
            sanitize,
            only: &only,
            rustc_arguments: &self.rustc_arguments,
            slots,
            progress: &progress,
        };
        let workers = slots::jobs(machine);
        let record = Record::read(&folder, ptxas.as_ref().map(|ptxas| ptxas.version.as_str()));
        let noticed = Mutex::new(BTreeSet::new());
        let processed = self.for_each_arch(|arch| {
            let Compiled { ptx, warnings } = job(arch).run()?;
            noticed.lock().unwrap_or_else(|e| e.into_inner()).extend(warnings);
            let (module, ptxas) = (ptx.as_path(), ptxas.as_ref());
            let (out, shared, record, progress) = (&out, &shared, &record, &progress);
            Work { arch, module, out, shared, ptxas, record, workers, progress }.run()
        })?;
        drop(progress);
        // More arrivals are more registers, and nobody measures them.
        let check = if sanitize { Check::Warn } else { self.check };
        let (kernels, warnings) = processed.judge(check, &self.offered, &out)?;
        if let Some(name) = only.iter().find(|name| !kernels.iter().any(|kernel| kernel.entry == **name)) {
            return Err(missing(name));
        }
        if kernels.is_empty() {
            let problem =
                "it has no kernels: functions marked #[kernel], and `kernels!` for generic ones".into();
            return Err(BuildError::DeviceCrate { path: folder, problem });
        }
        let noticed = noticed.into_inner().unwrap_or_else(|e| e.into_inner());
        noticed.iter().for_each(|warning| say(format!("warning={warning}")));
        warnings.iter().for_each(|warning| say(format!("warning={warning}")));
        let manifest = Manifest {
            compiler: format!("rustc {}", toolchain.version),
            ptxas: ptxas.map(|p| p.version),
            arguments,
            kernels,
        };
        write_manifest(&out, &manifest)?;
        Ok(Built::of(manifest, out, warnings))
    }

    /// cargo's arguments for the features that were asked for.
    fn feature_arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if !self.default_features {
            arguments.push("--no-default-features".to_owned());
        }
        if !self.features.is_empty() {
            arguments.extend(["--features".to_owned(), self.features.join(",")]);
        }
        arguments
    }

    /// Does the work for all architectures side by side.
    fn for_each_arch(
        &self,
        work: impl Fn(Arch) -> Result<Processed, BuildError> + Sync,
    ) -> Result<Processed, BuildError> {
        let work = &work;
        thread::scope(|scope| {
            let started: Vec<_> = self.archs.iter().map(|&arch| scope.spawn(move || work(arch))).collect();
            let mut processed = Processed::default();
            for thread in started {
                processed.add(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(processed)
        })
    }
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::is_identifier;

    #[test]
    fn kernels_have_names_of_rust() {
        assert!(is_identifier("fill_2") && !is_identifier("") && !is_identifier("a\""));
    }
}
