//! What was put on streams while they were captured, and when events happened.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::capture::{Before, Capture};
use crate::backend::{EventId, GraphId, LaunchConfig, StreamId};
use crate::{Error, Result};

/// Work for a stream that can be recorded.
#[derive(Clone, Debug)]
pub(super) enum Command {
    Copy { to: u64, from: u64, bytes: usize },
    Fill { to: u64, value: u64, width: usize, count: usize },
    Launch { config: LaunchConfig, arguments: Vec<u8> },
}

/// Where an event was recorded last.
#[derive(Debug)]
enum Mark {
    At(Instant),
    /// In the capture of this number, behind these commands.
    In(usize, Before),
}

/// The state of all streams.
#[derive(Debug, Default)]
pub(super) struct Queue {
    captures: Vec<Capture>,
    /// Captures begun so far.
    begun: usize,
    graphs: HashMap<GraphId, Arc<Vec<Command>>>,
    events: HashMap<EventId, Mark>,
}

pub(super) fn refused<T>(call: &'static str, report: &str) -> Result<T> {
    Err(Error::Emulator { call, report: report.into() })
}

impl Queue {
    fn capture(&mut self, stream: StreamId) -> Option<&mut Capture> {
        self.captures.iter_mut().find(|capture| capture.has(stream))
    }

    /// Whether work on the stream is recorded.
    pub(super) fn is_captured(&mut self, stream: StreamId) -> bool {
        self.capture(stream).is_some()
    }

    /// Records the command if the stream is being captured, else gives it back.
    pub(super) fn record(&mut self, stream: StreamId, command: Command) -> Result<Option<Command>> {
        match self.capture(stream) {
            Some(capture) => capture.push(stream, command).map(|()| None),
            None => Ok(Some(command)),
        }
    }

    /// Refuses what cannot be recorded if the stream is being captured.
    pub(super) fn refuse_capture(&mut self, stream: StreamId, call: &'static str) -> Result<()> {
        match self.capture(stream) {
            Some(capture) => {
                capture.refuse(call, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: the stream is being captured")
            }
            None => Ok(()),
        }
    }

    pub(super) fn begin_capture(&mut self, stream: StreamId) -> Result<()> {
        if stream == StreamId(0) {
            return refused("begin_capture", "the default stream cannot be captured");
        }
        if self.is_captured(stream) {
            return refused(
                "begin_capture",
                "CUDA_ERROR_ILLEGAL_STATE: the stream is being captured already",
            );
        }
        self.begun += 1;
        self.captures.push(Capture::new(self.begun, stream));
        Ok(())
    }

    /// Ends the capture, and gives the number of commands.
    pub(super) fn end_capture(&mut self, stream: StreamId, graph: GraphId) -> Result<usize> {
        let Some(at) = self.captures.iter().position(|capture| capture.is_of(stream)) else {
            return refused("end_capture", "the stream is not being captured");
        };
        let commands = self.captures.swap_remove(at).end()?;
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
        let mark = match self.capture(stream) {
            Some(capture) => Mark::In(capture.number, capture.mark(stream)),
            None => Mark::At(Instant::now()),
        };
        self.events.insert(event, mark);
    }

    pub(super) fn forget(&mut self, event: EventId) {
        self.events.remove(&event);
    }

    /// Lets a stream wait for an event: work that is not recorded was done at once, so this is about captures alone.
    pub(super) fn wait(&mut self, stream: StreamId, event: EventId) -> Result<()> {
        let Self { captures, events, .. } = self;
        let waiting = captures.iter().position(|capture| capture.has(stream));
        match events.get(&event) {
            None => Ok(()),
            Some(Mark::At(_)) => match waiting {
                None => Ok(()),
                Some(at) => captures[at].refuse(
                    "wait",
                    "CUDA_ERROR_STREAM_CAPTURE_ISOLATION: the stream is being captured, and the event was recorded outside",
                ),
            },
            Some(Mark::In(number, before)) => {
                let of = captures.iter().position(|capture| capture.number == *number);
                let (call, ended) = ("wait", "CUDA_ERROR_INVALID_VALUE: the event was recorded in a capture that has ended");
                match (of, waiting) {
                    (None, None) => refused(call, ended),
                    (None, Some(at)) => captures[at].refuse(call, ended),
                    (Some(of), None) if stream == StreamId(0) => captures[of].refuse(
                        call,
                        "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: the default stream cannot be captured, and the event was \
                         recorded in a capture",
                    ),
                    (Some(of), Some(at)) if of != at => {
                        let merged = "CUDA_ERROR_STREAM_CAPTURE_MERGE: the event was recorded in another capture than the \
                                      stream's";
                        captures[of].refuse(call, merged).or(captures[at].refuse(call, merged))
                    }
                    (Some(of), _) => {
                        captures[of].wait(stream, before);
                        Ok(())
                    }
                }
            }
        }
    }

    /// Refuses to wait for an event that was recorded in a capture.
    pub(super) fn synchronize_event(&mut self, event: EventId) -> Result<()> {
        let Some(Mark::In(number, _)) = self.events.get(&event) else { return Ok(()) };
        let (call, number) = ("synchronize", *number);
        match self.captures.iter_mut().find(|capture| capture.number == number) {
            Some(capture) => {
                capture.refuse(call, "CUDA_ERROR_CAPTURED_EVENT: the event was recorded in a capture")
            }
            None => {
                refused(call, "CUDA_ERROR_INVALID_VALUE: the event was recorded in a capture that has ended")
            }
        }
    }

    pub(super) fn elapsed_ms(&self, from: EventId, to: EventId) -> Result<f32> {
        match (self.events.get(&from), self.events.get(&to)) {
            (Some(Mark::At(from)), Some(Mark::At(to))) => {
                Ok(to.saturating_duration_since(*from).as_secs_f32() * 1e3)
            }
            _ => refused("elapsed_ms", "an event has not been recorded"),
        }
    }
}
