//! Which line of the source code a line of PTX was made of.
//!
//! PTX ISA, ".loc" and ".file". A `.loc` holds for the instructions up to the next one. Code that was inlined names
//! the place that it was inlined at; that place may itself be in inlined code, as the last `.loc` of it before says.

use std::collections::HashMap;
use std::fmt;

/// A line of the source code that PTX was compiled from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The file, as the compiler named it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A place in a source file; the column tells places on a line from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: u64,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// What one `.loc` says.
#[derive(Debug)]
struct Entry {
    ptx_line: u32,
    /// `None` where a body begins.
    place: Option<Place>,
    inlined_at: Option<Place>,
}

/// The places that a module names.
#[derive(Debug, Default)]
pub struct Sources {
    files: HashMap<u64, String>,
    entries: Vec<Entry>,
}

impl Sources {
    pub(super) fn file(&mut self, number: u64, name: String) {
        self.files.insert(number, name);
    }

    /// A body begins: what was said before does not hold here.
    pub(super) fn begin(&mut self, ptx_line: u32) {
        self.entries.push(Entry { ptx_line, place: None, inlined_at: None });
    }

    pub(super) fn location(&mut self, ptx_line: u32, place: Place, inlined_at: Option<Place>) {
        self.entries.push(Entry { ptx_line, place: Some(place), inlined_at });
    }

    /// The source of a line of PTX, then what it is inlined at, and so on; nothing where it is not known.
    pub fn of(&self, ptx_line: u32) -> Box<[SourceLine]> {
        let mut before = &self.entries[..self.entries.partition_point(|entry| entry.ptx_line <= ptx_line)];
        let mut found = Vec::new();
        let mut next = before.last();
        while let Some(&Entry { place: Some(place), inlined_at, .. }) = next {
            found.extend(self.line(place));
            let Some(caller) = inlined_at else { break };
            // Looking further and further back, this ends.
            before = &before[..before.len() - 1];
            let same = before.iter().rposition(|entry| entry.place == Some(caller));
            match same {
                Some(index) => before = &before[..=index],
                None => {
                    found.extend(self.line(caller));
                    break;
                }
            }
            next = before.last();
        }
        found.into()
    }

    /// Line 0 is of code that belongs to no line.
    fn line(&self, place: Place) -> Option<SourceLine> {
        let file = self.files.get(&place.file)?.clone();
        (place.line != 0).then_some(SourceLine { file, line: place.line })
    }
}
