//! `cargo xtask ptx-diff`: whether two builds have the same kernels, to the byte. It shows that a move of code is one.

mod builds;
mod names;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use builds::{Compiled, Kernels, read};

use crate::shell::Done;

/// How to call it.
const USAGE: &str = "\
cargo xtask ptx-diff [--renamed] OLD[,OLD…] NEW[,NEW…]

Each is a folder that the builder wrote, with manifest.json: OUT_DIR of a build script. Kernels are compared by
architecture and name. With --renamed names that the compiler makes up may differ: mangled symbols and constants, and
the numbers of functions in labels and calls. They do when a kernel moves to another crate.";

/// Compares, prints what was found, and fails if a kernel differs or is gone.
pub fn ptx_diff(arguments: &[&str]) -> Done {
    let (options, folders): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|argument| argument.starts_with("--"));
    let renamed = match options.as_slice() {
        [] => false,
        ["--renamed"] => true,
        _ => return Err(USAGE.to_owned()),
    };
    let [old, new] = folders.as_slice() else { return Err(USAGE.to_owned()) };
    let difference = Difference::between(&read(old)?, &read(new)?, renamed);
    print!("{difference}");
    difference.judge()
}

/// What two builds have in common and what not.
#[derive(Debug, Default, PartialEq, Eq)]
struct Difference {
    /// How many kernels are the same to the byte.
    same: usize,
    /// How many are the same but for names that the compiler makes up; `None` when names count.
    renamed: Option<usize>,
    changed: Vec<Change>,
    /// Kernels of the old build alone.
    gone: Vec<String>,
    /// Kernels of the new build alone.
    new: Vec<String>,
}

/// How a kernel's PTX changed.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    kernel: String,
    /// Lines of the old text that the new one lacks, wherever they stand.
    removed: usize,
    /// Lines of the new text that the old one lacks.
    added: usize,
    /// The number of the first line that differs.
    line: usize,
    /// That line, in the old text and in the new: empty at the end of a text.
    first: [String; 2],
}

impl Difference {
    fn between(old: &Kernels, new: &Kernels, renamed: bool) -> Self {
        let mut found = Self { renamed: renamed.then_some(0), ..Self::default() };
        for (name, before) in old {
            match new.get(name) {
                None => found.gone.push(name.to_string()),
                Some(after) => found.compare(name.to_string(), before, after),
            }
        }
        found.new = new.keys().filter(|name| !old.contains_key(name)).map(ToString::to_string).collect();
        found
    }

    fn compare(&mut self, kernel: String, Compiled(old): &Compiled, Compiled(new): &Compiled) {
        if old == new {
            self.same += 1;
            return;
        }
        match &mut self.renamed {
            None => self.changed.push(Change::between(kernel, old, new)),
            Some(renamed) => {
                let (old, new) = (names::normalised(old), names::normalised(new));
                if old == new {
                    *renamed += 1;
                } else {
                    self.changed.push(Change::between(kernel, &old, &new));
                }
            }
        }
    }

    /// New kernels are no fault.
    fn judge(&self) -> Done {
        let Self { changed, gone, same, renamed, .. } = self;
        if changed.is_empty() && gone.is_empty() {
            // Two empty builds show nothing.
            let compared = same + renamed.unwrap_or(0);
            return if compared > 0 { Ok(()) } else { Err("there was no kernel to compare".to_owned()) };
        }
        Err(format!("kernels that differ: {}, that are gone: {}", changed.len(), gone.len()))
    }
}

impl Change {
    fn between(kernel: String, old: &str, new: &str) -> Self {
        let mut counts: HashMap<&str, isize> = HashMap::new();
        old.lines().for_each(|line| *counts.entry(line).or_default() += 1);
        new.lines().for_each(|line| *counts.entry(line).or_default() -= 1);
        let removed = counts.values().filter(|&&count| count > 0).sum::<isize>();
        let added = -counts.values().filter(|&&count| count < 0).sum::<isize>();
        let common = old.lines().zip(new.lines()).take_while(|(old, new)| old == new).count();
        let first = [old, new].map(|text| text.lines().nth(common).unwrap_or("").trim().to_owned());
        Self { kernel, removed: removed.unsigned_abs(), added: added.unsigned_abs(), line: common + 1, first }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.changed {
            writeln!(f, "{change}")?;
        }
        self.gone.iter().try_for_each(|kernel| writeln!(f, "only in the old build: {kernel}"))?;
        self.new.iter().try_for_each(|kernel| writeln!(f, "only in the new build: {kernel}"))?;
        write!(f, "{} kernels are the same to the byte", self.same)?;
        if let Some(renamed) = self.renamed {
            write!(f, ", {renamed} but for names that the compiler makes up, which were normalised")?;
        }
        let (changed, gone, new) = (self.changed.len(), self.gone.len(), self.new.len());
        writeln!(f, "; {changed} differ, {gone} are gone, {new} are new")
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, removed, added, line, first: [old, new] } = self;
        match (removed, added) {
            (0, 0) => write!(f, "{kernel} differs in the order of its lines")?,
            _ => write!(f, "{kernel} differs: {removed} of its lines removed, {added} added")?,
        }
        write!(f, ", the first at line {line}\n  - {old}\n  + {new}")
    }
}
