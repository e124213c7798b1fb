//! How far a launch is.

use std::fmt;
use std::time::Duration;

use crate::exec::running::Running;

/// How far a launch is that is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The kernel.
    pub kernel: String,
    /// How long it has run.
    pub time: Duration,
    /// Instructions that its warps have executed, but for the last few thousand.
    pub instructions: u64,
    /// CTAs that have ended.
    pub ended: u64,
    /// CTAs of the grid.
    pub ctas: u64,
    /// A CTA that runs; `None` before it was looked for the first time.
    pub cta: Option<[u32; 3]>,
    /// The first of its threads that go on together.
    pub thread: Option<u32>,
    /// The line of the PTX text, from 1, that they are at.
    pub line: Option<u32>,
    /// The instruction there.
    pub instruction: Option<Box<str>>,
}

impl Progress {
    pub(crate) fn of(running: &Running) -> Self {
        let (program, place) = (running.program(), running.place());
        let line = place.and_then(|place| program.code.get(place.pc? as usize)).map(|coded| coded.line);
        Self {
            kernel: program.name.clone(),
            time: running.started.elapsed(),
            instructions: running.instructions(),
            ended: running.ended(),
            ctas: running.ctas,
            cta: place.map(|place| place.cta),
            thread: place.map(|place| place.thread),
            line,
            instruction: line.map(|line| program.line(line).into()),
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, time, instructions, ended, ctas, .. } = self;
        write!(
            f,
            "kernel {kernel}: {ended} of {ctas} CTAs have ended, {instructions} instructions in {time:.1?}"
        )?;
        if let Some([x, y, z]) = self.cta {
            write!(f, "; at CTA ({x}, {y}, {z})")?;
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
        Ok(())
    }
}
