//! Tests under a tool that follows every access of a kernel, which takes a thousand times longer.
//!
//! The environment variable `TILEWRIGHT_WATCHED` has parts of kernels' names, with commas between them. Tests of every kernel
//! then leave out those whose names have none of them, and take sizes that are no larger than it takes to get everywhere in
//! a kernel: so that several processes do them all, each to its end.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Whether a watched kernel was among those that tests asked about.
static FOUND: AtomicBool = AtomicBool::new(false);

/// Whether the kernel of this name is to run. Tests ask about kernels that they would run.
pub fn runs(kernel: &str) -> bool {
    let Some(parts) = parts() else { return true };
    let runs = parts.iter().any(|part| kernel.contains(part.as_str()));
    FOUND.fetch_or(runs, Ordering::Relaxed);
    runs
}

/// Whether tests that have ended were watched in vain: none would run a kernel whose name has one of the parts.
pub fn in_vain() -> bool {
    is_watched() && !FOUND.load(Ordering::Relaxed)
}
