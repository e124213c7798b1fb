//! What device crates depend on, `core` among it, compiled once for all device crates of a target folder.
//!
//! Each device crate is compiled in a folder of its own, for cargo locks the folder while it compiles. Its dependencies,
//! half a minute of work, are compiled in a folder that all share, and linked from there into the crate's own; cargo
//! then finds them fresh. Where it does not, it compiles them again.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::Result;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::BuildError;
use crate::files::{hash, make_folder, own_age, while_doing, write};

/// Has `compile` compile the dependencies of `package` in the folder `common`, one process at a time, and brings the
/// folder `own` up to date with it, unless this was done before for the same `stamp`.
pub(crate) fn bring(
    common: &Path,
    own: &Path,
    package: &str,
    stamp: &str,
    compile: impl FnOnce() -> std::result::Result<(), BuildError>,
) -> std::result::Result<(), BuildError> {
    make_folder(common)?;
    make_folder(own)?;
    // To ask cargo whether there is something to do takes half a second.
    let record = own.join("dependencies.stamp");
    if fs::read_to_string(&record).is_ok_and(|brought| brought == stamp) {
        return Ok(());
    }
    let path = common.with_extension("lock");
    let lock = File::create(&path).map_err(while_doing("writing", &path))?;
    // Where files cannot be locked cargo's own lock still keeps builds apart.
    let _ = lock.lock();
    compile()?;
    let mut files = Vec::new();
    list(common, package, &mut files).map_err(while_doing("reading", common))?;
    // cargo's records come last: a record of something that is not there yet would be taken for the truth.
    files.sort_by_key(|file| is_record(file));
    for file in files {
        let to = own.join(file.strip_prefix(common).unwrap_or(&file));
        update(&file, &to).map_err(while_doing("writing", &to))?;
    }
    write(&record, stamp.as_bytes())
}

/// What dependencies compiled with these settings from these files and folders of sources are known by.
pub(crate) fn stamp(settings: &str, sources: &BTreeSet<PathBuf>) -> String {
    let mut ages = Vec::new();
    sources.iter().for_each(|path| add_ages(path, &mut ages));
    ages.sort();
    hash(&(settings, ages, own_age()))
}

/// Adds the age of a file, or of those in a folder.
fn add_ages(path: &Path, ages: &mut Vec<(PathBuf, Option<SystemTime>)>) {
    if path.is_dir() {
        path.read_dir().into_iter().flatten().flatten().for_each(|entry| add_ages(&entry.path(), ages));
    } else {
        ages.push((path.to_owned(), path.metadata().and_then(|metadata| metadata.modified()).ok()));
    }
}

/// The files in a folder and below, but for those of the package itself, which was not compiled here.
fn list(folder: &Path, package: &str, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in folder.read_dir()? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let hash = name.strip_prefix(package).and_then(|rest| rest.strip_prefix('-'));
        if hash.is_some_and(|hash| !hash.contains('-')) || name == ".cargo-lock" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            list(&entry.path(), package, files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn is_record(file: &Path) -> bool {
    file.components().any(|part| part.as_os_str() == ".fingerprint")
}

/// Makes `to` the same file as `from`, or an equal one of the same age.
fn update(from: &Path, to: &Path) -> Result<()> {
    let age = |metadata: &Metadata| Ok::<_, std::io::Error>((metadata.len(), metadata.modified()?));
    let metadata = from.metadata()?;
    match to.metadata() {
        Ok(there) if age(&there)? == age(&metadata)? => return Ok(()),
        Ok(_) => fs::remove_file(to)?,
        Err(_) => fs::create_dir_all(to.parent().unwrap_or(to))?,
    }
    // rustc replaces these; what is written anew in place must not change elsewhere.
    let replaced = ["rlib", "rmeta", "so"].iter().any(|&kind| to.extension().is_some_and(|e| e == kind));
    if !(replaced && fs::hard_link(from, to).is_ok()) {
        fs::copy(from, to)?;
        File::options().append(true).open(to)?.set_modified(metadata.modified()?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_brought_up_to_date() {
        let root = std::env::temp_dir().join(format!("tilewright-builder-bring-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let (common, own) = (root.join("common"), root.join("own"));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let bring = |stamp: &str| {
            bring(&common, &own, "gemm", stamp, || {
                write("common/deps/libcore-1.rlib", "core");
                write("common/.fingerprint/core-1/record", "fresh");
                write("common/.fingerprint/gemm-1/record", "not compiled");
                write("common/.fingerprint/gemm-common-1/record", "fresh");
                Ok(())
            })
            .unwrap();
        };
        write("own/.fingerprint/gemm-1/record", "compiled");
        write("own/.fingerprint/core-1/record", "a former version");
        for stamp in ["1", "2"] {
            bring(stamp);
            let read = |path: &str| fs::read_to_string(own.join(path)).unwrap();
            assert_eq!(read("deps/libcore-1.rlib"), "core");
            assert_eq!(read(".fingerprint/core-1/record"), "fresh");
            assert_eq!(read(".fingerprint/gemm-common-1/record"), "fresh");
            assert_eq!(read(".fingerprint/gemm-1/record"), "compiled", "the crate's own record stays");
        }
        let modified = |path: &Path| path.metadata().unwrap().modified().unwrap();
        for file in ["deps/libcore-1.rlib", ".fingerprint/core-1/record"] {
            assert_eq!(modified(&common.join(file)), modified(&own.join(file)));
        }
        write("own/deps/libcore-1.rlib", "not looked at");
        bring("2");
        assert_eq!(fs::read_to_string(own.join("deps/libcore-1.rlib")).unwrap(), "not looked at");
        bring("3");
        assert_eq!(fs::read_to_string(own.join("deps/libcore-1.rlib")).unwrap(), "core");
        let _ = fs::remove_dir_all(&root);
    }

    #[test]
    fn a_changed_source_changes_the_stamp() {
        let root = std::env::temp_dir().join(format!("tilewright-builder-stamp-{}", std::process::id()));
        fs::create_dir_all(root.join("src/inner")).unwrap();
        let file = root.join("src/inner/a.rs");
        fs::write(&file, "").unwrap();
        let sources = BTreeSet::from([root.join("src")]);
        let first = stamp("release", &sources);
        assert_eq!(stamp("release", &sources), first);
        assert_ne!(stamp("other", &sources), first);
        File::options().append(true).open(&file).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_ne!(stamp("release", &sources), first);
        let _ = fs::remove_dir_all(&root);
    }
}
