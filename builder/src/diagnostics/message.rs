//! What rustc says, as cargo passes it on.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A line of `cargo --message-format=json`.
#[derive(Deserialize)]
struct Line {
    message: Option<Message>,
    /// The package's `Cargo.toml`.
    manifest_path: Option<PathBuf>,
}

/// An error or a warning.
#[derive(Deserialize)]
pub struct Message {
    pub message: String,
    pub code: Option<Code>,
    pub level: String,
    pub spans: Vec<Span>,
    #[serde(default)]
    pub children: Vec<Child>,
    pub rendered: Option<String>,
}

#[derive(Deserialize)]
pub struct Code {
    pub code: String,
}

/// A note or a help.
#[derive(Deserialize)]
pub struct Child {
    pub message: String,
    pub level: String,
    #[serde(default)]
    pub spans: Vec<Span>,
}

/// A piece of source.
#[derive(Deserialize)]
pub struct Span {
    pub file_name: String,
    pub line_start: usize,
    #[serde(default)]
    pub column_start: usize,
    pub is_primary: bool,
    pub label: Option<String>,
    #[serde(default)]
    pub text: Vec<Text>,
    pub suggested_replacement: Option<String>,
    /// The macro that it is of.
    expansion: Option<Box<Expansion>>,
}

/// A line of source, and which part of it is meant, in characters from 1.
#[derive(Deserialize)]
pub struct Text {
    pub text: String,
    pub highlight_start: usize,
    pub highlight_end: usize,
}

#[derive(Deserialize)]
struct Expansion {
    /// Where the macro is called.
    span: Span,
}

impl Message {
    /// All errors and warnings among cargo's messages, each with the `Cargo.toml` of its package.
    pub fn all(messages: &str) -> impl Iterator<Item = (Option<PathBuf>, Self)> {
        let lines = messages.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        lines.filter_map(|line| Some((line.manifest_path, line.message?)))
    }

    pub fn is(&self, code: &str) -> bool {
        self.code.as_ref().is_some_and(|of| of.code == code)
    }

    /// Where it is in the author's own source.
    pub fn span(&self) -> Option<&Span> {
        self.spans.iter().find(|span| span.is_primary).map(Span::outermost)
    }

    /// The file and the line that it is about.
    pub fn place(&self) -> Option<(&str, usize)> {
        self.span().map(|span| (span.file_name.as_str(), span.line_start))
    }

    /// `error[E0277]: TEXT`
    pub fn head(&self) -> String {
        let Self { message, code, level, .. } = self;
        match code {
            Some(Code { code }) if code.starts_with('E') => format!("{level}[{code}]: {message}"),
            _ => format!("{level}: {message}"),
        }
    }
}

impl Span {
    /// The call of the outermost macro, or the span itself.
    fn outermost(&self) -> &Span {
        self.expansion.as_ref().map_or(self, |expansion| expansion.span.outermost())
    }

    /// Whether it is in the crate that is compiled, or its workspace: rustc names others by their full paths.
    pub fn is_of_the_author(&self) -> bool {
        Path::new(&self.file_name).is_relative()
    }

    /// `FILE:LINE:COLUMN`
    pub fn place(&self) -> String {
        format!("{}:{}:{}", self.file_name, self.line_start, self.column_start)
    }
}
