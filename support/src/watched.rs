//! Tests under a tool that follows every access of a kernel, which takes a thousand times longer.
//!
//! The environment variable `TILEWRIGHT_WATCHED` has parts of kernels' names, with commas between them. Tests of every kernel
//! then leave out those whose names have none of them, and take sizes that are no larger than it takes to get everywhere in
//! a kernel: so that several processes do them all, each to its end.

use std::sync::OnceLock;

/// The environment variable.
const WATCHED: &str = "TILEWRIGHT_WATCHED";

/// The parts of names, if the tests are watched.
fn parts() -> Option<&'static [String]> {
    static PARTS: OnceLock<Option<Vec<String>>> = OnceLock::new();
    let read = || std::env::var(WATCHED).ok().map(|names| names.split(',').map(str::to_owned).collect());
    PARTS.get_or_init(read).as_deref()
}

/// Whether the tests are watched.
pub fn is_watched() -> bool {
    parts().is_some()
}

/// Whether the kernel of this name is to run.
pub fn runs(kernel: &str) -> bool {
    parts().is_none_or(|parts| parts.iter().any(|part| kernel.contains(part.as_str())))
}
