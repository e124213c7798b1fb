//! `cargo xtask record`: what `ptxas` says of kernels, written down beside their sources; and whether that is so.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tilewright_builder::{Built, Kernel, Ptxas, setup};

use crate::code::builds::folders_of_tests;
use crate::package::{operators, package_of};
use crate::setup::setup;
use crate::shell::{Done, commit_number, root, say, target};

/// One kernel of so many is assembled to see whether the record is right.
const SAMPLE: usize = 64;

/// Builds all operators' kernels, and writes what is known of them.
pub fn record() -> Done {
    setup()?;
    for (operator, built) in builds()? {
        let folder = root().join("kernels").join(operator);
        let count = built.record(&folder).map_err(|error| error.to_string())?;
        say(&format!("{}: {count} of {} kernels", folder.display(), built.kernels.len()));
    }
    Ok(())
}

/// Assembles a part of the operators' kernels, whatever is recorded: by the commit, so that it is another part each time.
pub fn sample() -> Done {
    let part = commit_number() % SAMPLE;
    let ptxas = setup::ptxas(&target()?.join("xtask")).map_err(|error| error.to_string())?;
    let Some(ptxas) = ptxas else {
        say("there is no ptxas: whether it says what is recorded is not checked");
        return Ok(());
    };
    let mut count = 0;
    for (_, built) in builds()? {
        count += verify(&built, &ptxas, |index| index % SAMPLE == part)?;
    }
    say(&format!("{count} kernels assembled, as they are recorded"));
    Ok(())
}

/// Assembles the build's kernels at these places: `ptxas` is to say what the build says of them. Gives how many there are.
pub fn verify(built: &Built, ptxas: &Ptxas, chosen: impl Fn(usize) -> bool) -> Result<usize, String> {
    let kernels: Vec<_> = built
        .kernels
        .iter()
        .enumerate()
        .filter(|(index, _)| chosen(*index))
        .map(|(_, kernel)| kernel)
        .collect();
    let (next, different) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(kernel) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = assembled(built, kernel, ptxas) {
                        different.lock().unwrap_or_else(|e| e.into_inner()).push(why);
                    }
                }
            });
        }
    });
    let different = different.into_inner().unwrap_or_else(|e| e.into_inner());
    if different.is_empty() { Ok(kernels.len()) } else { Err(different.join("\n")) }
}

/// Whether `ptxas` says of a kernel what its build says.
fn assembled(built: &Built, kernel: &Kernel, ptxas: &Ptxas) -> Done {
    let ptx = built.ptx(kernel).map_err(|error| error.to_string())?;
    let found = ptxas.assemble(kernel.arch, &ptx).map_err(|error| format!("{}: {error}", kernel.entry))?;
    if (found.registers, found.spilled) == (kernel.registers, kernel.spilled) {
        return Ok(());
    }
    let found = Kernel { registers: found.registers, spilled: found.spilled, ..kernel.clone() };
    Err(format!("ptxas says\n  {found}\nand the build\n  {kernel}"))
}

/// What the workspace's tests have of each operator.
fn builds() -> Result<Vec<(String, Built)>, String> {
    let folders = folders_of_tests()?;
    let mut found = Vec::new();
    for operator in operators()? {
        let package = package_of(&operator);
        let folder = folders.iter().find(|folder| script_of(folder).is_some_and(|name| name == package));
        let folder = folder.ok_or_else(|| format!("the workspace's tests have no kernels of {package}"))?;
        found.push((operator, Built::read(folder).map_err(|error| error.to_string())?));
    }
    Ok(found)
}

/// The package whose build script's output folder this is: `…/build/PACKAGE-0123456789abcdef/out`.
fn script_of(folder: &Path) -> Option<&str> {
    Some(folder.parent()?.file_name()?.to_str()?.rsplit_once('-')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_output_folders() {
        let folder = Path::new("/t/release/build/tilewright-dequant-gemm-0123456789abcdef/out");
        assert_eq!(script_of(folder), Some("tilewright-dequant-gemm"));
        assert_eq!(script_of(Path::new("out")), None);
    }
}
