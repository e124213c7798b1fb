//! Finding cuBLAS where the loader does not look: in toolkits, and in Python's packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use cudarc::cublaslt::sys;
use libloading::Library;

use crate::Result;

/// Loads the library, from the loader's path if it is there.
pub(super) fn load() -> Result<()> {
    if loaded() {
        return Ok(());
    }
    let files = folders().into_iter().flat_map(|folder| libraries(&folder));
    for file in files {
        // SAFETY: it is cuBLAS by its name, whose initialisers ask nothing of the caller.
        if let Ok(library) = unsafe { Library::new(&file) } {
            // Once it is loaded, the loader knows it by its plain name, by which cudarc asks for it.
            std::mem::forget(library);
            if loaded() {
                return Ok(());
            }
        }
    }
    Err("libcublasLt is not on LD_LIBRARY_PATH, in CUDA_HOME or among python3's packages".into())
}

fn loaded() -> bool {
    // SAFETY: loading it has no preconditions.
    unsafe { sys::is_culib_present() }
}

/// Where toolkits and Python's packages keep their libraries.
fn folders() -> Vec<PathBuf> {
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let mut folders: Vec<_> =
        toolkits.chain([PathBuf::from("/usr/local/cuda")]).map(|toolkit| toolkit.join("lib64")).collect();
    let python = Command::new("python3").args(["-c", r"import sys; print('\n'.join(sys.path))"]).output();
    let paths = python.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    for path in paths.lines().filter(|path| !path.is_empty()) {
        folders
            .extend(entries(&Path::new(path).join("nvidia")).into_iter().map(|package| package.join("lib")));
    }
    folders
}

fn libraries(folder: &Path) -> Vec<PathBuf> {
    let mut files = entries(folder);
    files.retain(|file| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libcublasLt.so"))
    });
    files
}

/// A folder's entries, the last by name first: newer versions in front of older ones.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> =
        folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.reverse();
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_come_first() {
        let folder = std::env::temp_dir().join(format!("tilewright-find-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["libcublasLt.so.12", "libcublas.so.13", "libcublasLt.so.13"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let found = libraries(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(names, ["libcublasLt.so.13", "libcublasLt.so.12"]);
        assert_eq!(libraries(&folder), [] as [PathBuf; 0]);
    }
}
