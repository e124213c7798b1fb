//! Streams that are being captured, as the driver defines it: events carry a capture from stream to stream.

use super::queue::{Command, refused};
use crate::Result;
use crate::backend::StreamId;

/// How many of each stream's commands come before something, in the order in which streams joined the capture.
pub(super) type Before = Vec<usize>;

const INVALIDATED: &str =
    "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: the capture failed by a call that cannot be recorded";

/// A capture: what was put on its streams, in an order that respects theirs and their events'.
#[derive(Debug)]
pub(super) struct Capture {
    /// No other capture has it.
    pub(super) number: usize,
    /// The one whose capture it is comes first.
    streams: Vec<Captured>,
    commands: Vec<Command>,
    /// A call was refused: no graph comes of it.
    invalid: bool,
}

/// A stream of a capture.
#[derive(Debug)]
struct Captured {
    stream: StreamId,
    /// What comes before its next command; all of its own do.
    before: Before,
    /// It has waited for an event since: what comes next begins when all that it waits for has ended.
    joins: bool,
}

impl Captured {
    fn wait(&mut self, before: &Before) {
        self.joins = true;
        self.before.resize(self.before.len().max(before.len()), 0);
        self.before.iter_mut().zip(before).for_each(|(mine, &theirs)| *mine = theirs.max(*mine));
    }
}

impl Capture {
    pub(super) fn new(number: usize, stream: StreamId) -> Self {
        let streams = vec![Captured { stream, before: vec![0], joins: false }];
        Self { number, streams, commands: Vec::new(), invalid: false }
    }

    /// Whether it was begun on this stream.
    pub(super) fn is_of(&self, stream: StreamId) -> bool {
        self.streams.first().is_some_and(|first| first.stream == stream)
    }

    fn position(&self, stream: StreamId) -> Option<usize> {
        self.streams.iter().position(|captured| captured.stream == stream)
    }

    pub(super) fn has(&self, stream: StreamId) -> bool {
        self.position(stream).is_some()
    }

    /// Refuses a call as the driver does: no graph comes of the capture any more.
    pub(super) fn refuse<T>(&mut self, call: &'static str, report: &str) -> Result<T> {
        self.invalid = true;
        refused(call, report)
    }

    /// Records work that was put on one of its streams.
    pub(super) fn push(&mut self, stream: StreamId, mut command: Command) -> Result<()> {
        if self.invalid {
            return refused("record", INVALIDATED);
        }
        if let Some(at) = self.position(stream)
            && let Some(own) = self.streams[at].before.get_mut(at)
        {
            *own += 1;
            let joins = std::mem::take(&mut self.streams[at].joins);
            if let Command::Launch { config, .. } = &mut command {
                config.overlap_previous &= !joins;
            }
            self.commands.push(command);
        }
        Ok(())
    }

    /// What comes before an event that is recorded now.
    pub(super) fn mark(&self, stream: StreamId) -> Before {
        self.position(stream).map(|at| self.streams[at].before.clone()).unwrap_or_default()
    }

    /// Lets a stream, which joins the capture if it has to, wait for an event of it.
    pub(super) fn wait(&mut self, stream: StreamId, before: &Before) {
        let at = self.position(stream).unwrap_or_else(|| {
            let before = vec![0; self.streams.len() + 1];
            self.streams.push(Captured { stream, before, joins: false });
            self.streams.len() - 1
        });
        self.streams[at].wait(before);
    }

    /// Its commands, all of which come before the end of the stream on which it was begun.
    pub(super) fn end(self) -> Result<Vec<Command>> {
        if self.invalid {
            return refused("end_capture", INVALIDATED);
        }
        let own = |(at, of): (usize, &Captured)| of.before.get(at).copied().unwrap_or(0);
        let counts = self.streams.iter().enumerate().map(own);
        let first = self.streams.first().map(|first| &first.before);
        let joined = |at: usize| first.and_then(|before| before.get(at)).copied().unwrap_or(0);
        if counts.enumerate().any(|(at, count)| joined(at) < count) {
            let report = "CUDA_ERROR_STREAM_CAPTURE_UNJOINED: the captured stream does not wait for all work of a stream \
                          that waited for its event";
            return refused("end_capture", report);
        }
        Ok(self.commands)
    }
}
