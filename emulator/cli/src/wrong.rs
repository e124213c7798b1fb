//! What is wrong with a command.

use std::path::Path;

/// Why a command, or a file that it names, cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

/// The result of what may be asked for in a wrong way.
pub type Usage<T> = Result<T, Wrong>;

/// An argument of the command, what it was, and what is allowed.
pub fn wrong<T>(argument: &str, was: &str, allowed: &str) -> Usage<T> {
    Err(Wrong(format!("{argument} was `{was}`; it must be {allowed}")))
}

/// What a file holds.
pub fn read(path: &Path) -> Usage<Vec<u8>> {
    std::fs::read(path).map_err(|error| Wrong(format!("{}: {error}", path.display())))
}

/// The text that a file holds.
pub fn read_text(path: &Path) -> Usage<String> {
    String::from_utf8(read(path)?).map_err(|_| Wrong(format!("{}: it is no text in UTF-8", path.display())))
}
