//! Installing what compiling and checking kernels takes.

use std::fs;
use std::path::Path;
use std::process::Command;

use tilewright_builder::setup::{NIGHTLY, ptxas, ptxas_folder, toolchain};

use crate::shell::{Done, root, run, say, succeeds, target};

/// The package with `ptxas`, at the version that the kernels were measured with.
const PTXAS: &str = "nvidia-cuda-nvcc==13.0.88";
/// Debian's rustc with the sources of its library.
const RUSTC: [&str; 2] = ["rustc-web", "rust-web-src"];

/// Installs what is not there.
pub fn setup() -> Done {
    install_toolchain()?;
    install_ptxas()
}

/// Installs what is not there, and does without the checks of kernels where they cannot be had.
pub fn setup_to_run() -> Done {
    install_toolchain()?;
    install_ptxas().unwrap_or_else(|why| say(&format!("kernels go unchecked: {why}")));
    Ok(())
}

fn install_toolchain() -> Done {
    let missing = match toolchain() {
        Ok(found) => {
            say(&format!("kernels are compiled by rustc {} ({})", found.version, found.rustc.display()));
            return Ok(());
        }
        Err(error) => error.to_string(),
    };
    let chosen = std::env::var_os("TILEWRIGHT_RUSTC").is_some();
    if chosen || !debian_has(&RUSTC) {
        let rustup = format!("rustup toolchain install {NIGHTLY} --profile minimal --component rust-src");
        return Err(format!(
            "{missing}\n\nThis is no machine to install Debian's on. Run\n  {rustup}\nand then this again."
        ));
    }
    say("no compiler for the kernels yet: installing Debian's");
    apt(&RUSTC)?;
    toolchain()
        .map(|_| ())
        .map_err(|error| format!("{} are installed, and still: {error}", RUSTC.join(" and ")))
}

fn install_ptxas() -> Done {
    let inside = target()?.join("xtask");
    if let Some(found) = ptxas(&inside).map_err(|error| error.to_string())? {
        say(&format!("kernels are checked by ptxas {} ({})", found.version, found.path.display()));
        return Ok(());
    }
    if !cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        say("there is no ptxas for this machine: registers and spills of kernels are not checked");
        return Ok(());
    }
    say("no ptxas yet: fetching NVIDIA's package from PyPI into the target folder");
    let python = python()?;
    let folder = ptxas_folder(&inside);
    let fresh = folder.with_extension("new");
    let _ = fs::remove_dir_all(&fresh);
    let mut pip = Command::new(python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
    ]);
    // A user's configuration may say `user = true`, which pip refuses together with a target.
    pip.env("PIP_USER", "0").env("PIP_ROOT_USER_ACTION", "ignore");
    run(pip.arg("--target").arg(&fresh).arg(PTXAS))?;
    move_into(&fresh.join("nvidia"), &folder.join("nvidia"))?;
    let _ = fs::remove_dir_all(&fresh);
    match ptxas(&inside).map_err(|error| error.to_string())? {
        Some(found) => {
            say(&format!("kernels are checked by ptxas {}", found.version));
            Ok(())
        }
        None => Err(format!("{PTXAS} is in {}, but its ptxas does not run", folder.display())),
    }
}

/// Moves a folder to a place that holds nothing, or something that is worth nothing.
fn move_into(from: &Path, to: &Path) -> Done {
    let moved = || -> std::io::Result<()> {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        if to.exists() {
            fs::remove_dir_all(to)?;
        }
        fs::rename(from, to)
    };
    moved().map_err(|error| format!("moving {} to {}: {error}", from.display(), to.display()))
}

/// A Python with pip, installed if need be and possible.
fn python() -> Result<&'static str, String> {
    let with_pip =
        || ["python3", "python"].into_iter().find(|python| succeeds(python, &["-m", "pip", "--version"]));
    if let Some(python) = with_pip() {
        return Ok(python);
    }
    if debian_has(&["python3-pip"]) {
        say("no pip yet: installing Debian's");
        apt(&["python3-pip"])?;
    }
    with_pip().ok_or_else(|| {
        format!(
            "fetching ptxas takes Python 3 with pip. Install it, or run elsewhere\n  \
             pip download --no-deps {PTXAS}\nunpack it, and set TILEWRIGHT_PTXAS to its nvidia/cu13/bin/ptxas"
        )
    })
}

/// Whether this is Debian or kin, and knows these packages; its lists are fetched if it does not at first.
fn debian_has(packages: &[&str]) -> bool {
    let os = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let kin = os.lines().any(|line| {
        let value = line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE="));
        value.is_some_and(|value| value.contains("debian"))
    });
    let known = || packages.iter().all(|package| succeeds("apt-cache", &["show", package]));
    // Only a machine where packages can be installed needs to know of them.
    kin && (known() || (apt_get(&["update", "-qq"]).is_ok() && known()))
}

/// Installs Debian packages.
fn apt(packages: &[&str]) -> Done {
    let install = || {
        let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
        arguments.extend(packages);
        apt_get(&arguments)
    };
    // The lists may be too old to name files that are still there.
    install().or_else(|_| apt_get(&["update", "-qq"]).and_then(|()| install())).map_err(|error| {
        format!(
            "{error}\nInstall these yourself, then run this again:\n  apt-get install {}",
            packages.join(" ")
        )
    })
}

fn apt_get(arguments: &[&str]) -> Done {
    let root_user =
        Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    let mut command = Command::new(if root_user { "apt-get" } else { "sudo" });
    if !root_user {
        command.arg("apt-get");
    }
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").current_dir(root());
    run(&mut command)
}
