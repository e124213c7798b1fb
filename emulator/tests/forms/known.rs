//! Which forms load.

use std::fmt::Write;

use crate::table::{expand, kernel};
use tilewright_emulator::Module;

/// The forms that are known, by the manual's chapters. NVIDIA's ptxas takes all of them for sm_90a.
const KNOWN: [&str; 4] = [
    include_str!("tables/arithmetic.txt"),
    include_str!("tables/moves.txt"),
    include_str!("tables/control.txt"),
    include_str!("tables/matrix.txt"),
];

fn forms(table: &str) -> impl Iterator<Item = String> {
    table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).flat_map(expand)
}

#[test]
fn known_forms_load() {
    let mut refused = String::new();
    for form in KNOWN.into_iter().flat_map(forms) {
        if let Err(error) = Module::load(&kernel(&form)) {
            let _ = writeln!(refused, "{form}    {error}");
        }
    }
    assert!(refused.is_empty(), "refused:\n{refused}");
}
