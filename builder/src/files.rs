//! Files: written only when they change, with errors that say what was being done.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::BuildError;

/// Names an error of the system.
pub(crate) fn while_doing(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> BuildError {
    let doing = format!("{what} {}", path.display());
    move |error| BuildError::System { doing, error }
}

/// Makes a folder and those above it.
pub(crate) fn make_folder(path: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(path).map_err(while_doing("making the folder", path))
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> Result<String, BuildError> {
    fs::read_to_string(path).map_err(while_doing("reading", path))
}

/// Writes a file unless it has these contents, so that nothing that depends on it is rebuilt.
pub(crate) fn write(path: &Path, contents: &[u8]) -> Result<(), BuildError> {
    if fs::read(path).is_ok_and(|old| old == contents) {
        return Ok(());
    }
    fs::write(path, contents).map_err(while_doing("writing", path))
}

/// A name for contents: equal for equal contents, within one version of this program.
pub(crate) fn hash(contents: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// When this program was made: another builder may check and write otherwise.
pub(crate) fn own_age() -> Option<SystemTime> {
    std::env::current_exe().ok()?.metadata().ok()?.modified().ok()
}

/// Where builds of every profile and crate meet: in cargo's target folder, if `path` is inside of one.
pub(crate) fn shared_folder(path: &Path) -> PathBuf {
    // cargo puts the first into every target folder, the second into those that it made itself.
    let marks = [".rustc_info.json", "CACHEDIR.TAG"];
    let target = path.ancestors().find(|folder| marks.iter().any(|mark| folder.join(mark).is_file()));
    target.unwrap_or(path).join("tilewright")
}
