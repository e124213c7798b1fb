//! Events: marks in streams.

use crate::backend::EventId;
use crate::{Device, Result, graph};

/// A mark that a stream sets when it gets there: other streams can wait for it, and it knows the time.
#[derive(Debug)]
pub struct Event {
    device: Device,
    id: EventId,
}

impl Event {
    /// An event that no stream has recorded yet.
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self { device: device.clone(), id: device.backend().create_event()? })
    }

    /// The device that it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }
    pub(crate) fn id(&self) -> EventId {
        self.id
    }

    /// Waits until the stream that recorded it got there. An error while this thread captures a stream, and if it was recorded in
    /// a capture.
    pub fn synchronize(&self) -> Result<()> {
        graph::refuse("Event::synchronize")?;
        self.device.backend().synchronize_event(self.id)
    }

    /// Milliseconds on the device from this event to a later one. Waits for both.
    pub fn elapsed_ms(&self, later: &Event) -> Result<f32> {
        self.device.expect_same(&later.device, "later")?;
        self.synchronize()?;
        later.synchronize()?;
        self.device.backend().elapsed_ms(self.id, later.id)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.device.backend().destroy_event(self.id);
    }
}
