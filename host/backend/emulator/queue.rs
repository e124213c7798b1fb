//! What was put on streams while they were captured, and when events happened.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Instant;

use crate::backend::{EventId, GraphId, LaunchConfig, StreamId};
use crate::{Error, Result};

/// Work for a stream.
#[derive(Clone, Debug)]
pub(super) enum Command {
    Upload { to: u64, from: *const c_void, bytes: usize },
    Download { from: u64, to: *mut c_void, bytes: usize },
    Copy { to: u64, from: u64, bytes: usize },
    Fill { to: u64, value: u32, width: usize, count: usize },
    Launch { config: LaunchConfig, arguments: Vec<u8> },
}

// SAFETY: the pointers are used only by `execute`, whose caller vouches for them on its thread.
unsafe impl Send for Command {}
// SAFETY: as above.
unsafe impl Sync for Command {}

/// A stream that is being captured, and by whom.
#[derive(Debug)]
struct Capture {
    stream: StreamId,
    thread: ThreadId,
    commands: Vec<Command>,
}

/// The state of all streams.
#[derive(Debug, Default)]
pub(super) struct Queue {
    captures: Vec<Capture>,
    graphs: HashMap<GraphId, Arc<Vec<Command>>>,
    events: HashMap<EventId, Instant>,
}

fn refused<T>(call: &'static str, report: &str) -> Result<T> {
    Err(Error::Emulator { call, report: report.into() })
}

impl Queue {
    fn capture(&mut self, stream: StreamId) -> Option<&mut Capture> {
        self.captures.iter_mut().find(|capture| capture.stream == stream)
    }

    /// Records the command if the stream is being captured, else gives it back.
    pub(super) fn record(&mut self, stream: StreamId, command: Command) -> Option<Command> {
        match self.capture(stream) {
            Some(capture) => {
                capture.commands.push(command);
                None
            }
            None => Some(command),
        }
    }

    /// An error if this thread is capturing: what it calls cannot be recorded.
    pub(super) fn refuse_capture(&self, call: &'static str) -> Result<()> {
        match self.captures.iter().any(|capture| capture.thread == thread::current().id()) {
            true => refused(call, "not while this thread captures a stream"),
            false => Ok(()),
        }
    }

    /// An error if the stream is being captured.
    pub(super) fn refuse_capture_of(&mut self, stream: StreamId, call: &'static str) -> Result<()> {
        match self.capture(stream) {
            Some(_) => refused(call, "the stream is being captured"),
            None => Ok(()),
        }
    }

    pub(super) fn begin_capture(&mut self, stream: StreamId) -> Result<()> {
        if stream == StreamId(0) {
            return refused("begin_capture", "the default stream cannot be captured");
        }
        if self.capture(stream).is_some() {
            return refused("begin_capture", "the stream is being captured already");
        }
        self.captures.push(Capture { stream, thread: thread::current().id(), commands: Vec::new() });
        Ok(())
    }

    /// Ends the capture, and gives the number of commands.
    pub(super) fn end_capture(&mut self, stream: StreamId, graph: GraphId) -> Result<usize> {
        let Some(at) = self.captures.iter().position(|capture| capture.stream == stream) else {
            return refused("end_capture", "the stream is not being captured");
        };
        let commands = self.captures.swap_remove(at).commands;
        let nodes = commands.len();
        self.graphs.insert(graph, Arc::new(commands));
        Ok(nodes)
    }

    pub(super) fn commands(&self, graph: GraphId) -> Arc<Vec<Command>> {
        self.graphs.get(&graph).map(Arc::clone).unwrap_or_default()
    }

    pub(super) fn destroy(&mut self, graph: GraphId) {
        self.graphs.remove(&graph);
    }

    pub(super) fn stamp(&mut self, event: EventId, stream: StreamId) {
        if self.capture(stream).is_none() {
            self.events.insert(event, Instant::now());
        }
    }

    pub(super) fn forget(&mut self, event: EventId) {
        self.events.remove(&event);
    }

    pub(super) fn elapsed_ms(&self, from: EventId, to: EventId) -> Result<f32> {
        match (self.events.get(&from), self.events.get(&to)) {
            (Some(from), Some(to)) => Ok(to.saturating_duration_since(*from).as_secs_f32() * 1e3),
            _ => refused("elapsed_ms", "an event has not been recorded"),
        }
    }
}
