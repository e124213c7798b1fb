//! NVIDIA's assembler, which checks the kernels, and its disassembler, which shows them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tilewright_builder::setup::{nvdisasm, nvdisasm_folder, ptxas, ptxas_folder};

use super::machine::Machine;
use super::packages::{Packages, Refusal};
use crate::shell::{Done, run, say, succeeds, target};

/// The package with `ptxas`, at the version that the kernels were measured with.
const PTXAS: &str = "nvidia-cuda-nvcc==13.0.88";
/// What fetches it.
const PIP: Packages<'static> = Packages { names: &["python3-pip"], oldest: None };

/// The package with `nvdisasm`: the oldest release that PyPI has of it, which reads what older ones assemble.
const NVDISASM: &str = "nvidia-cuda-nvdisasm==13.2.51";

/// Fetches `ptxas` where there is none.
pub fn install(machine: &dyn Machine) -> Done {
    let inside = target()?.join("xtask");
    if let Some(found) = ptxas(&inside).map_err(|error| error.to_string())? {
        say(&format!("kernels are checked by ptxas {} ({})", found.version, found.path.display()));
        return Ok(());
    }
    if !IS_PACKAGED {
        say("there is no ptxas for this machine: registers and spills of kernels are not checked");
        return Ok(());
    }
    let folder = ptxas_folder(&inside);
    fetch(machine, PTXAS, &folder)?;
    match ptxas(&inside).map_err(|error| error.to_string())? {
        Some(found) => {
            say(&format!("kernels are checked by ptxas {}", found.version));
            Ok(())
        }
        None => Err(format!("{PTXAS} is in {}, but its ptxas does not run", folder.display())),
    }
}

/// NVIDIA's disassembler, fetched where there is none.
pub fn disassembler(machine: &dyn Machine) -> Result<PathBuf, String> {
    let inside = target()?.join("xtask");
    let missing = "there is no nvdisasm: it comes with the CUDA toolkit, which CUDA_HOME names";
    if nvdisasm(&inside).is_none() {
        if !IS_PACKAGED {
            return Err(missing.to_owned());
        }
        fetch(machine, NVDISASM, &nvdisasm_folder(&inside)).map_err(|why| format!("{missing}. {why}"))?;
    }
    nvdisasm(&inside).ok_or_else(|| missing.to_owned())
}

/// Whether PyPI has NVIDIA's packages for this machine.
const IS_PACKAGED: bool =
    cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")));

/// Fetches NVIDIA's package into the folder.
fn fetch(machine: &dyn Machine, package: &str, folder: &Path) -> Done {
    say(&format!("fetching NVIDIA's {package} from PyPI into the target folder"));
    let python = python(machine)?;
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
    run(pip.arg("--target").arg(&fresh).arg(package))?;
    move_into(&fresh.join("nvidia"), &folder.join("nvidia"))?;
    let _ = fs::remove_dir_all(&fresh);
    Ok(())
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
fn python(machine: &dyn Machine) -> Result<&'static str, String> {
    let with_pip =
        || ["python3", "python"].into_iter().find(|python| succeeds(python, &["-m", "pip", "--version"]));
    if let Some(python) = with_pip() {
        return Ok(python);
    }
    let advice = format!(
        "fetching it takes Python 3 with pip. Install that, or for ptxas run elsewhere\n  \
         pip download --no-deps {PTXAS}\nunpack it, and set TILEWRIGHT_PTXAS to its nvidia/cu13/bin/ptxas"
    );
    if machine.is_debian() {
        say("no pip yet: installing Debian's");
        PIP.install(machine).map_err(|refusal| match refusal {
            Refusal::Offer { offer, .. } => format!("Debian's package lists have {offer}.\n{advice}"),
            Refusal::Failed(why) => format!("{why}\n{advice}"),
        })?;
    }
    with_pip().ok_or(advice)
}
