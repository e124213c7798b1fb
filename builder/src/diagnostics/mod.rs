//! rustc's errors in short: each once, in a few lines.
//!
//! An error in a tile's shape is found at each of the bounds that need it, and rustc tells of each, with lists of the shapes that there
//! are and the chain of bounds. What the author needs is the first line, the place, and the notes of the trait.
//!
//! Of its warnings those are told, in a line each, that the host's rustc cannot find: in code that it does not see.

mod device_only;
mod message;
mod short;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use device_only::is_device_only;
use message::Message;
use short::{is_of_bounds, is_of_traits, short};

/// The most lines of an error, and of all that are shown in full: those for which there is no room have one line.
const LINES: usize = 12;

/// The errors among cargo's messages; `None` if there are none.
pub(crate) fn errors(messages: &str) -> Option<String> {
    let counts = |message: &Message| message.message.starts_with("aborting due to");
    let all: Vec<_> = Message::all(messages)
        .map(|(_, message)| message)
        .filter(|message| message.level.starts_with("error") && !counts(message))
        .collect();
    let mut errors: Vec<_> = all.iter().filter(|error| !follows(error, &all)).enumerate().collect();
    // One of which less is known stands for none of which more is.
    errors.sort_by_key(|(_, error)| holes(&error.message));
    let mut told: Vec<Told> = Vec::new();
    for (at, error) in errors {
        match told.iter_mut().find(|of| repeats(error, of.error)) {
            Some(of) => of.add(error),
            None => told.push(Told { at, error, also: Vec::new() }),
        }
    }
    told.sort_by_key(|of| of.at);
    let mut lines: Vec<String> = Vec::new();
    for of in &told {
        let full = of.lines();
        if lines.is_empty() || lines.len() + full.len() <= LINES {
            lines.extend(full);
        } else {
            lines.push(of.line());
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The warnings of this package among cargo's messages that are of code for the GPU alone, in files as `read` gives them.
pub(crate) fn warnings(messages: &str, package: &Path, read: impl Fn(&Path) -> String) -> Vec<String> {
    let mut told = Vec::new();
    for (of, warning) in Message::all(messages) {
        let Some(span) = warning.span().filter(|_| warning.level == "warning") else { continue };
        let path = PathBuf::from(&span.file_name);
        if of.as_deref() == Some(package) && is_device_only(&read(&path), span.line_start) {
            let text = format!("{} ({})", warning.message, span.place());
            if !told.contains(&text) {
                told.push(text);
            }
        }
    }
    told
}

/// An error, and where else there is the same.
struct Told<'a> {
    /// Its place among rustc's.
    at: usize,
    error: &'a Message,
    also: Vec<(&'a str, usize)>,
}

impl<'a> Told<'a> {
    fn add(&mut self, error: &'a Message) {
        let new = |place: &(&str, usize)| Some(*place) != self.error.place() && !self.also.contains(place);
        self.also.extend(error.place().filter(new));
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = short(self.error);
        if let [(file, _), ..] = self.also.as_slice() {
            let mut numbers: Vec<_> =
                self.also.iter().filter(|(of, _)| of == file).map(|(_, line)| line).collect();
            numbers.sort();
            let numbers = numbers.iter().map(|line| line.to_string()).collect::<Vec<_>>().join(", ");
            let margin = " ".repeat(self.error.place().map_or(0, |(_, line)| line.to_string().len()));
            lines.push(format!("{margin} = note: the same at {file}:{numbers}"));
        }
        lines
    }

    /// All in one.
    fn line(&self) -> String {
        let place = self.error.span().map(|span| format!(" ({})", span.place()));
        self.error.head() + &place.unwrap_or_default()
    }
}

/// Whether an error says the same as another one, perhaps with less of it known.
fn repeats(error: &Message, other: &Message) -> bool {
    let same = || error.rendered == other.rendered;
    let alike = || is_of_traits(error) && is_of_traits(other) && alike(&error.message, &other.message);
    same() || alike()
}

/// Whether it is a method that is missing because of a bound that is an error itself.
fn follows(error: &Message, all: &[Message]) -> bool {
    let unmet = |other: &Message| {
        let named = other.children.iter().filter_map(|child| {
            let (of_trait, rest) =
                child.message.strip_prefix("the trait `")?.split_once("` is not implemented for `")?;
            Some(format!("`{}: {of_trait}`", rest.strip_suffix('`')?))
        });
        named.collect::<Vec<_>>()
    };
    let needs = |bound: &String| error.children.iter().any(|child| child.message.contains(bound.as_str()));
    is_of_bounds(error)
        && all.iter().any(|other| {
            other.is("E0277") && (other.place() == error.place() || unmet(other).iter().any(needs))
        })
}

/// Whether two messages are equal but for what rustc has not inferred yet: `_`.
fn alike(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (words(one), words(other));
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a == b || a == "_" || b == "_" => {}
            _ => return false,
        }
    }
}

fn holes(message: &str) -> usize {
    words(message).filter(|word| *word == "_").count()
}

/// Names and numbers.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).filter(|word| !word.is_empty())
}
