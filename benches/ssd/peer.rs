//! What mamba-ssm is asked for.

use crate::case::{Case, N, Op, P};
use crate::turns::Peer;

/// Two of a scan's kernels, which are measured by themselves too.
pub const PARTS: [&str; 2] = ["chunk-state", "chunk-scan"];

/// What of the peer does what a case does.
pub fn whole(case: &Case) -> Option<&'static str> {
    match case.op {
        Op::Scan => Some("scan"),
        Op::Gradient => Some("gradient"),
        Op::Chunks(_) | Op::Conv | Op::ConvGradient | Op::Step => None,
    }
}

/// Whether this of the peer, if there is such, is ready to be measured on so many sets of a case's inputs; says so where it fails.
pub fn prepared(peer: &Peer, case: &Case, what: Option<&str>, sets: usize) -> bool {
    let Case { batch, length, heads, .. } = case;
    let Some(what) = what else { return false };
    match peer.prepare(&format!("{what} {batch} {length} {heads} {P} {N} {sets}")) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("{case}: {error}");
            false
        }
    }
}
