//! What can be wrong with a module, and with a launch.

use std::fmt;

use crate::kind::FaultKind;
use tilewright_ptx::error::Error;
use tilewright_ptx::source::SourceLine;

/// Why a module cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("PTX line {line}: {what}")]
pub struct LoadError {
    /// The line of the module's text, from 1.
    pub line: u32,
    /// What is wrong there.
    pub what: String,
}

impl LoadError {
    /// What is wrong at a line.
    pub(crate) fn new(line: u32, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

impl From<Error> for LoadError {
    fn from(error: Error) -> Self {
        Self { line: error.line, what: error.what }
    }
}

/// Why memory cannot be allocated, accessed from the host, or freed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct MemoryError {
    /// What is wrong.
    pub what: String,
}

/// What a kernel or a launch did wrong, before it is known where that was: its kind, and what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason(Box<(FaultKind, String)>);

impl Reason {
    fn new(kind: FaultKind, text: impl Into<String>) -> Self {
        Self(Box::new((kind, text.into())))
    }

    pub(crate) fn race(text: impl Into<String>) -> Self {
        Self::new(FaultKind::Race, text)
    }

    pub(crate) fn deadlock(text: impl Into<String>) -> Self {
        Self::new(FaultKind::Deadlock, text)
    }

    pub(crate) fn address(text: impl Into<String>) -> Self {
        Self::new(FaultKind::Address, text)
    }

    pub(crate) fn misaligned(text: impl Into<String>) -> Self {
        Self::new(FaultKind::Misaligned, text)
    }

    pub(crate) fn uninitialized(text: impl Into<String>) -> Self {
        Self::new(FaultKind::Uninitialized, text)
    }

    pub(crate) fn trap(text: impl Into<String>) -> Self {
        Self::new(FaultKind::Trap, text)
    }

    pub(crate) fn limit(text: impl Into<String>) -> Self {
        Self::new(FaultKind::Limit, text)
    }

    pub(crate) fn launch(text: impl Into<String>) -> Self {
        Self::new(FaultKind::Launch, text)
    }

    pub(crate) fn misuse(text: impl Into<String>) -> Self {
        Self::new(FaultKind::Misuse, text)
    }

    /// The same of something that has a name.
    pub(crate) fn of(mut self, name: &str) -> Self {
        self.0.1 = format!("{name}: {self}");
        self
    }

    pub(crate) fn into_parts(self) -> (FaultKind, String) {
        *self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.1)
    }
}

impl From<Reason> for MemoryError {
    fn from(reason: Reason) -> Self {
        Self { what: reason.into_parts().1 }
    }
}

/// Why a launch did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kernel.
    pub kernel: String,
    /// The CTA in the grid; `None` for what concerns the whole launch.
    pub cta: Option<[u32; 3]>,
    /// The thread in its CTA, or the first thread of the warp.
    pub thread: Option<u32>,
    /// The line of the PTX text, from 1.
    pub line: Option<u32>,
    /// The instruction there.
    pub instruction: Option<Box<str>>,
    /// The line of source code that it was made of, then the one that this was inlined at or called from, and so on; nothing where the
    /// PTX does not say it.
    pub source: Box<[SourceLine]>,
    /// What kind of thing went wrong.
    pub kind: FaultKind,
    /// What went wrong.
    pub what: String,
}

impl Fault {
    /// What is wrong with a whole launch.
    pub(crate) fn of_launch(kernel: &str, reason: Reason) -> Self {
        let (kernel, source, (kind, what)) = (kernel.to_owned(), Box::default(), reason.into_parts());
        Self { kernel, cta: None, thread: None, line: None, instruction: None, source, kind, what }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: kernel {}", self.what, self.kernel)?;
        if let Some([x, y, z]) = self.cta {
            write!(f, ", CTA ({x}, {y}, {z})")?;
        }
        if let Some(thread) = self.thread {
            write!(f, ", thread {thread}")?;
        }
        if let Some(line) = self.line {
            write!(f, ", PTX line {line}")?;
        }
        if let Some(instruction) = &self.instruction {
            write!(f, ": {instruction}")?;
        }
        if let Some((first, callers)) = self.source.split_first() {
            write!(f, ", from {first}")?;
            callers.iter().try_for_each(|caller| write!(f, ", called at {caller}"))?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}
