//! Every form of instruction that GPUs from sm_80 to sm_90a have, by the manual's table of contents: which of them are known.

mod table;

use std::fmt::Write;

use table::{expand, kernel};
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
