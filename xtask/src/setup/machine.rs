//! What the setup asks of the machine, behind one door so that tests can answer instead.

use std::fs;
use std::process::{Command, Stdio};

use tilewright_builder::{BuildError, Toolchain, setup};

use crate::shell::{Done, root, run};

/// The machine: its compilers, and its package manager if it is Debian's.
pub trait Machine {
    /// The compiler that a build of kernels would take.
    fn toolchain(&self) -> Result<Toolchain, BuildError>;
    /// Whether someone chose the compiler, who would not want another one.
    fn compiler_is_chosen(&self) -> bool;
    /// The toolchain of rustup's that runs this, if its rustc would do but for the sources of its library.
    fn lacks_sources(&self) -> Option<String>;
    /// Adds these sources to a toolchain of rustup's.
    fn add_sources(&self, toolchain: &str) -> Done;
    /// Whether this is Debian or kin.
    fn is_debian(&self) -> bool;
    /// What `apt-cache policy` prints of a package: nothing if the lists do not know it.
    fn policy(&self, package: &str) -> String;
    /// Runs `apt-get`.
    fn apt_get(&self, arguments: &[&str]) -> Done;
}

/// The machine that this program runs on.
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn toolchain(&self) -> Result<Toolchain, BuildError> {
        setup::toolchain()
    }

    fn compiler_is_chosen(&self) -> bool {
        std::env::var_os("TILEWRIGHT_RUSTC").is_some_and(|path| !path.is_empty())
    }

    fn lacks_sources(&self) -> Option<String> {
        // rustup says it to what it runs.
        let toolchain = std::env::var("RUSTUP_TOOLCHAIN").ok()?;
        setup::without_sources().map(|_| toolchain)
    }

    fn add_sources(&self, toolchain: &str) -> Done {
        run(Command::new("rustup").args(["component", "add", "rust-src", "--toolchain", toolchain]))
    }

    fn is_debian(&self) -> bool {
        let os = fs::read_to_string("/etc/os-release").unwrap_or_default();
        os.lines().any(|line| {
            let value = line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE="));
            value.is_some_and(|value| value.contains("debian"))
        })
    }

    fn policy(&self, package: &str) -> String {
        let mut command = Command::new("apt-cache");
        // Its words are translated.
        command.args(["policy", package]).env("LC_ALL", "C").stderr(Stdio::null());
        command
            .output()
            .map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into())
    }

    fn apt_get(&self, arguments: &[&str]) -> Done {
        let root_user =
            Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
        let mut command = Command::new(if root_user { "apt-get" } else { "sudo" });
        if !root_user {
            command.arg("apt-get");
        }
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").current_dir(root());
        run(&mut command)
    }
}
