//! Streams: queues of work that runs in order.

use std::ffi::c_void;
use std::fmt;

use crate::backend::StreamId;
use crate::{Device, Error, Event, Result, graph};

/// A queue of work on a device: what is put on it runs in order.
///
/// Streams made here do not wait for the default stream, nor it for them.
pub struct Stream {
    device: Device,
    id: StreamId,
    owned: bool,
    /// What it belongs to.
    #[cfg(feature = "cudarc")]
    _keeps: Option<std::sync::Arc<cudarc::driver::CudaStream>>,
}

impl Stream {
    /// A new stream.
    pub fn new(device: &Device) -> Result<Self> {
        Self::with_urgency(device, false)
    }

    /// One whose kernels begin before those of other streams that wait too.
    #[cfg(feature = "gemm")]
    pub(crate) fn urgent(device: &Device) -> Result<Self> {
        Self::with_urgency(device, true)
    }

    fn with_urgency(device: &Device, urgent: bool) -> Result<Self> {
        let id = device.backend().create_stream(urgent)?;
        let mut stream = Self::borrowed(device, id);
        stream.owned = true;
        Ok(stream)
    }

    /// The same one, which this value keeps: for as long as this value lives.
    #[cfg(feature = "gemm")]
    pub(crate) fn alias(&self) -> Self {
        Self::borrowed(&self.device, self.id)
    }

    /// A stream that something else made: a `CUstream` or `cudaStream_t`. It is not destroyed when this value is dropped.
    ///
    /// Per-thread default streams (`CU_STREAM_PER_THREAD`) have one handle, 2, for all threads, each of which has another stream under it. So
    /// nothing that belongs to one stream may be found by the handle: workspaces, plans' views and events are for one thread then. Kernels of this
    /// crate keep nothing from launch to launch but in the workspace that they are given, which may hold any values.
    ///
    /// Fails with [`WrongDevice`](crate::Error::WrongDevice) if the stream belongs to another context.
    ///
    /// # Safety
    /// `handle` is a stream, or null for the default one, and stays so as long as this value lives.
    pub unsafe fn from_raw(device: &Device, handle: *mut c_void) -> Result<Self> {
        let id = StreamId(handle.addr());
        device.backend().check_stream(id)?;
        Ok(Self::borrowed(device, id))
    }

    pub(crate) fn borrowed(device: &Device, id: StreamId) -> Self {
        Self {
            device: device.clone(),
            id,
            owned: false,
            #[cfg(feature = "cudarc")]
            _keeps: None,
        }
    }

    /// One of cudarc's, which is kept alive.
    #[cfg(feature = "cudarc")]
    pub(crate) fn kept(
        device: &Device,
        id: StreamId,
        stream: std::sync::Arc<cudarc::driver::CudaStream>,
    ) -> Self {
        Self { device: device.clone(), id, owned: false, _keeps: Some(stream) }
    }

    /// The `CUstream`, for other libraries: valid as long as this value lives.
    pub fn raw(&self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.id.0)
    }
    /// The device that it queues work for.
    pub fn device(&self) -> &Device {
        &self.device
    }
    pub(crate) fn id(&self) -> StreamId {
        self.id
    }

    /// Waits until all work queued so far is done; reports errors of that work. An error while the stream is captured, or this
    /// thread captures another one.
    pub fn synchronize(&self) -> Result<()> {
        self.refuse_capture("Stream::synchronize")?;
        self.device.backend().synchronize_stream(self.id)
    }

    /// Marks the present end of the queue.
    ///
    /// While the stream is captured, the event belongs to the capture until it is recorded elsewhere: a stream that waits for it
    /// is captured too, and nothing else can wait for it.
    pub fn record(&self, event: &Event) -> Result<()> {
        self.check(event.device(), "event")?;
        self.device.backend().record(event.id(), self.id)
    }

    /// Lets work queued from now on start only after what `event` marks.
    ///
    /// Of an event that was recorded in a capture: what is put on this stream from now on is recorded as well, until the capture
    /// ends; the captured stream must wait for it before. A captured stream cannot wait for an event that was recorded outside.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.check(event.device(), "event")?;
        self.device.backend().wait(self.id, event.id())
    }

    /// Checks that this stream, which the caller knows as `stream`, is on `device`.
    pub(crate) fn expect_on(&self, device: &Device) -> Result<()> {
        device.expect_same(&self.device, "stream")
    }

    /// Whether work on it is recorded. The default stream's never is, and the driver may not be asked while another stream's is.
    pub(crate) fn is_captured(&self) -> Result<bool> {
        Ok(self.id != StreamId(0) && self.device.backend().is_captured(self.id)?)
    }

    /// Refuses a call that waits, before anything is recorded, if this thread captures a stream or another one captures this
    /// stream.
    pub(crate) fn refuse_capture(&self, call: &'static str) -> Result<()> {
        graph::refuse(call)?;
        match self.is_captured()? {
            true => Err(Error::Captured { call }),
            false => Ok(()),
        }
    }

    /// Checks that something named `argument` is on this stream's device.
    pub(crate) fn check(&self, device: &Device, argument: &'static str) -> Result<()> {
        self.device.expect_same(device, argument)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned {
            self.device.backend().destroy_stream(self.id);
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:#x} on {})", self.id.0, self.device.label())
    }
}
