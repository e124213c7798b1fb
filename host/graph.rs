//! CUDA graphs: work recorded once and launched many times.

use std::cell::Cell;

use crate::backend::{GraphId, StreamId};
use crate::{Device, Error, Result, Stream};

/// Recorded work, launched as one.
#[derive(Debug)]
pub struct Graph {
    device: Device,
    id: GraphId,
    nodes: usize,
}

impl Stream {
    /// Records the work that `f` puts on the stream, instead of running it.
    ///
    /// Kernels are best loaded before, though loading them inside works. Allocating, writing and reading back, waiting, on
    /// whatever stream, and launching a graph on the stream are errors inside, [`Error::Captured`]; the capture goes on. If `f`
    /// fails, its error is returned and nothing is kept.
    ///
    /// A stream that waits for an event recorded inside is captured too, until the capture ends; before that, this stream
    /// must wait for an event recorded behind that one's last work.
    pub fn capture(&self, f: impl FnOnce(&Stream) -> Result<()>) -> Result<Graph> {
        if self.id() == StreamId(0) {
            return Err(Error::argument("self", "the default stream", "a stream made by Stream::new"));
        }
        let backend = self.device().backend();
        backend.begin_capture(self.id())?;
        CAPTURES.set(CAPTURES.get() + 1);
        // Ends the recording also if `f` panics: the stream would stay unusable.
        let mut recording = Recording { stream: self, open: true };
        let work = f(self);
        let graph = recording.end();
        work?;
        graph
    }
}

thread_local! {
    /// Captures that this thread has begun and not ended.
    static CAPTURES: Cell<usize> = const { Cell::new(0) };
}

/// An error if this thread captures a stream: for calls that the driver forbids it meanwhile, on whatever stream. Asked first, so
/// that the capture stays whole and the emulator forbids the same.
pub(crate) fn refuse(call: &'static str) -> Result<()> {
    match CAPTURES.get() {
        0 => Ok(()),
        _ => Err(Error::Captured { call }),
    }
}

struct Recording<'a> {
    stream: &'a Stream,
    open: bool,
}

impl Recording<'_> {
    fn end(&mut self) -> Result<Graph> {
        self.open = false;
        CAPTURES.set(CAPTURES.get().saturating_sub(1));
        let device = self.stream.device();
        let (id, nodes) = device.backend().end_capture(self.stream.id())?;
        Ok(Graph { device: device.clone(), id, nodes })
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if self.open {
            // Nothing more can be done about an error while unwinding.
            let _ = self.end();
        }
    }
}

impl Graph {
    /// Queues the recorded work on a stream. An error while the stream is captured.
    ///
    /// # Safety
    /// All memory that the recorded work uses is still allocated, and stays so until this launch is done; the graph does
    /// not keep the tensors alive.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        stream.check(&self.device, "graph")?;
        if stream.is_captured()? {
            return Err(Error::Captured { call: "Graph::launch" });
        }
        // SAFETY: the caller vouches for the memory.
        unsafe { self.device.backend().launch_graph(self.id, stream.id()) }
    }

    /// Number of recorded operations.
    pub fn nodes(&self) -> usize {
        self.nodes
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.device.backend().destroy_graph(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::backend::fake;

    #[test]
    fn captures_end_whatever_happens_inside() {
        let (device, journal) = fake::device((9, 0));
        let stream = Stream::new(&device).unwrap();
        let graph = stream.capture(|_| Ok(())).unwrap();
        assert_eq!(graph.nodes(), 0);

        let failed = stream.capture(|_| Err(Error::argument("x", "a", "b")));
        assert_eq!(failed.unwrap_err(), Error::argument("x", "a", "b"));
        let panicked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stream.capture(|_| panic!())));
        assert!(panicked.is_err());
        assert_eq!(journal.captures.load(Ordering::Relaxed), 0);

        drop((stream, graph));
        assert_eq!(journal.handles.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_default_stream_cannot_be_captured() {
        let (device, _) = fake::device((9, 0));
        let error = device.default_stream().capture(|_| Ok(())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`self` was the default stream; it must be a stream made by Stream::new"
        );
    }
}
