//! Which forms load, and which do not.

use std::collections::BTreeSet;
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

/// Those that are not, under what the page about the emulator says of them.
const REFUSED: &str = include_str!("tables/refused.txt");

/// That page.
const PAGE: &str = include_str!("../../../docs/emulator.md");

fn forms(table: &str) -> impl Iterator<Item = String> {
    table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).flat_map(expand)
}

#[test]
fn known_forms_load() {
    let mut refused = String::new();
    let mut count = 0;
    for form in KNOWN.into_iter().flat_map(forms) {
        count += 1;
        if let Err(error) = Module::load(&kernel(&form)) {
            let _ = writeln!(refused, "{form}    {error}");
        }
    }
    assert!(refused.is_empty(), "refused:\n{refused}");
    assert!(count > 3000, "{count} forms");
}

#[test]
fn others_are_refused_by_name() {
    for form in forms(REFUSED) {
        let text = kernel(&form);
        let error = Module::load(&text).expect_err(&form).to_string();
        let line = text.lines().position(|line| line == form).expect("it is there") + 1;
        assert!(error.starts_with(&format!("PTX line {line}: ")), "{form}: {error}");
        // What could be read is named.
        let opcode = form.trim_start_matches('{').rsplit(';').find_map(|part| part.split_whitespace().next());
        let opcode = opcode.filter(|opcode| *opcode != "}").unwrap_or("call");
        assert!(error.contains(opcode) || error.contains("expected an operand"), "{form}: {error}");
    }
}

#[test]
fn the_page_has_what_is_refused() {
    let listed: BTreeSet<_> = REFUSED.lines().filter_map(|line| line.strip_prefix("# ")).collect();
    let (_, rest) = PAGE.split_once("## Instructions that are not there").expect("the page has the chapter");
    let chapter = rest.split("\n## ").next().unwrap_or(rest);
    let rows = chapter
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| |") && !line.starts_with("| -"));
    let rows: BTreeSet<_> = rows.map(|row| row.trim_start_matches("| ").trim_end_matches(" |")).collect();
    assert_eq!(rows, listed);
}
