//! No instruction goes without an entry point.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Every function of `arch`, as rustdoc knows it: (module, name).
fn documented(target: &Path) -> BTreeSet<(String, String)> {
    let output = Command::new(env!("CARGO"))
        .args(["doc", "--quiet", "--no-deps", "--lib", "--package", "tilewright-device", "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let index = target.join("doc/tilewright_device/all.html");
    let index =
        std::fs::read_to_string(&index).unwrap_or_else(|error| panic!("{}: {error}", index.display()));
    let functions = index.split("arch/").skip(1).filter_map(|rest| {
        let (module, rest) = rest.split_once("/fn.")?;
        Some((module.to_owned(), rest.split_once(".html")?.0.to_owned()))
    });
    functions.filter(|(module, _)| module.chars().all(|c| c.is_ascii_lowercase() || c == '_')).collect()
}

/// The sources of the entry points.
fn entries() -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/arch/instructions/src");
    let read = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(entry?.path());
    sources.read_dir().expect("sources").map(|entry| read(entry).expect("a source")).collect()
}

#[test]
fn every_function_has_an_entry_point() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("doc");
    let (functions, entries) = (documented(&target), entries());
    assert!(functions.len() > 100, "{functions:?}");
    let words: BTreeSet<&str> = entries.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    // Those of the ranks are named in a table, all others with their module.
    let named = |(module, name): &&(String, String)| {
        if module == "tma" { words.contains(name.as_str()) } else { calls(&entries, module, name) }
    };
    let missing: Vec<_> = functions.iter().filter(|function| !named(function)).collect();
    assert!(missing.is_empty(), "not in tests/arch/instructions: {missing:?}");
}

/// Whether `module::name` is called, with or without generic arguments.
fn calls(source: &str, module: &str, name: &str) -> bool {
    let call = format!("{module}::{name}");
    source.match_indices(&call).any(|(at, _)| source[at + call.len()..].starts_with(['(', ':']))
}
