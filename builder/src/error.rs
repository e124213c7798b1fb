//! What can go wrong, said so that it can be mended.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Arch;

/// The oldest rustc whose NVPTX backend is known to compile the kernels: its major and minor version.
pub const OLDEST: (u32, u32) = (1, 95);

/// The command that installs a compiler with rustup, or adds to one what it lacks.
pub const RUSTUP_COMMAND: &str = "rustup toolchain install stable --profile minimal --component rust-src";

/// Why kernels were not built.
#[derive(Debug)]
pub enum BuildError {
    /// No architecture was asked for.
    NoArch,
    /// The device crate is not where it was said to be, or cargo cannot read it.
    DeviceCrate {
        /// Where it should be.
        path: PathBuf,
        /// What is wrong there.
        problem: String,
    },
    /// No rustc can compile for the GPU here.
    NoToolchain {
        /// The places looked at, in order.
        tried: Vec<Tried>,
    },
    /// The device crate does not compile.
    Compile {
        /// For this architecture.
        arch: Arch,
        /// The crate's folder, to which the messages' paths are relative.
        folder: PathBuf,
        /// rustc's version.
        compiler: String,
        /// rustc's errors, each once and without what follows from it; or what cargo wrote.
        output: String,
    },
    /// The device crate compiles, but some kernels are not fit to run.
    Kernels {
        /// What is wrong with them.
        complaints: Vec<Complaint>,
        /// The folder where their PTX can be read.
        ptx: PathBuf,
    },
    /// The package's prebuilt kernels will not do.
    Prebuilt {
        /// The folder that they are in, or should be.
        folder: PathBuf,
        /// What is wrong with them, and what to do.
        problem: String,
    },
    /// An environment variable has a value that says nothing.
    Variable {
        /// Its name.
        name: &'static str,
        /// What it was.
        was: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// A file or a program could not be used.
    System {
        /// What was being done.
        doing: String,
        /// What the system said.
        error: std::io::Error,
    },
}

/// A place where a compiler could have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The place.
    pub place: String,
    /// Why it does not do.
    pub because: String,
}

/// What is wrong with a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complaint {
    /// The kernel's entry point.
    pub kernel: String,
    /// The architecture that it was compiled for.
    pub arch: Arch,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.because)
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}` ({}): {}", self.kernel, self.arch.target(), self.problem)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoArch => f.write_str(
                "no architecture to compile the kernels for: say `.arch(Arch::Sm80)`, `.arch(Arch::Sm90a)`, or both",
            ),
            Self::DeviceCrate { path, problem } => write!(f, "the device crate {}: {problem}", path.display()),
            Self::NoToolchain { tried } => {
                writeln!(
                    f,
                    "no compiler for the kernels was found: it takes rustc {}.{} or later together with the \
                     sources of its library.",
                    OLDEST.0, OLDEST.1
                )?;
                writeln!(f, "Tried, in this order:")?;
                for place in tried {
                    writeln!(f, "  - {place}")?;
                }
                writeln!(f, "To install one with rustup:\n  {RUSTUP_COMMAND}")?;
                // Without an update an older one may be installed: the first ones that Debian had will not do.
                write!(f, "or on Debian 12:\n  apt-get update && apt-get install rustc-web rust-web-src")
            }
            Self::Compile { arch, folder, compiler, output } => {
                let (folder, target) = (folder.display(), arch.target());
                write!(f, "{output}\nthe kernels of {folder} do not compile for {target} ({compiler})")
            }
            Self::Kernels { complaints, ptx } => {
                let count = complaints.len();
                write!(f, "{count} {} with the compiled kernels:", if count == 1 { "problem" } else { "problems" })?;
                complaints.iter().try_for_each(|complaint| write!(f, "\n  {complaint}"))?;
                write!(f, "\ntheir PTX is in {}", ptx.display())
            }
            Self::Prebuilt { folder, problem } => write!(f, "the prebuilt kernels in {}: {problem}", folder.display()),
            Self::Variable { name, was, allowed } => {
                write!(f, "{name} was {was:?}; it must be {allowed}, or not be set")
            }
            Self::System { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}
