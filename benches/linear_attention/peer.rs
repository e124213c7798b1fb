//! What fla-core is asked for.

use crate::case::{Case, Form};
use crate::turns::Peer;

/// Whether the peer is ready to be measured on so many sets of a case's inputs; says so where it fails.
pub fn prepared(peer: &Peer, case: &Case, sets: usize) -> bool {
    let Some(words) = words(case, sets) else { return false };
    match peer.prepare(&words) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("{case}: {error}");
            false
        }
    }
}

/// The words that name a case to `fla.py`, if it is one that is compared.
fn words(case: &Case, sets: usize) -> Option<String> {
    let Case { form, batch, rows, heads, columns, backward } = case;
    let form = match form {
        Form::Plain => "plain",
        Form::Retention => "retention",
        Form::Gates => "gates",
        Form::ChannelGates => "gla",
        Form::GatedDelta => "gated-delta",
        Form::Delta | Form::ChannelGatedDelta | Form::Step => return None,
    };
    let which = if *backward { "backward" } else { "forward" };
    Some(format!("{form} {batch} {rows} {heads} {columns} {which} {sets}"))
}
