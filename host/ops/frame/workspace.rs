//! The memory for what CTAs compute in parts.

use super::Named;
use crate::{Error, Event, Result, Stream, Tensor, TensorViewMut};

/// Bytes to which it is aligned: what one access moves.
const ALIGNED: u64 = 16;

/// Where it comes from.
pub(in crate::ops) enum Workspace<'a> {
    Given(TensorViewMut<'a, f32>),
    /// Made when it is needed, with what marks the end of the work that uses it.
    Owned(Option<(Tensor<f32>, Event)>),
}

/// The address of `len` elements in memory that was given, which is on the device of the call: see [`check`](super::check); 0 if none are
/// needed.
pub(in crate::ops) fn room(given: Option<&TensorViewMut<'_, f32>>, len: usize) -> Result<u64> {
    if len == 0 {
        return Ok(0);
    }
    let Some(view) = given else {
        let allowed = format!("given: {len} elements of f32, as the plan says");
        return Err(Error::argument("workspace", "not given", allowed));
    };
    if view.len() < len || !view.is_contiguous() {
        let was = format!("of shape {:?} and strides {:?}", view.shape(), view.strides());
        let allowed = format!("contiguous, of {len} elements or more");
        return Err(Error::argument("workspace", was, allowed));
    }
    if !view.address().is_multiple_of(ALIGNED) {
        let was = format!("at {:#x}", view.address());
        return Err(Error::argument("workspace", was, "aligned to 16 bytes"));
    }
    Ok(view.address())
}

impl Workspace<'_> {
    /// As a tensor of the call, if it was given.
    pub(in crate::ops) fn named(&self) -> Option<Named<'_>> {
        match self {
            Workspace::Given(view) => Some(Named::room("workspace", view)),
            Workspace::Owned(_) => None,
        }
    }

    /// Calls `launch` with the address of `len` elements, and marks the end of the work that it queues: the next run waits for that, on
    /// whatever stream it is.
    pub(in crate::ops) fn lend(
        &mut self,
        len: usize,
        stream: &Stream,
        launch: impl FnOnce(u64) -> Result<()>,
    ) -> Result<()> {
        let address = self.of(len, stream)?;
        let launched = launch(address);
        // Some launches may have come before one that failed.
        launched.and(self.used(len, stream))
    }

    /// The address of `len` elements on the stream's device; 0 if none are needed.
    ///
    /// Memory that was given is on that device: see [`check`](super::check).
    pub(in crate::ops) fn of(&mut self, len: usize, stream: &Stream) -> Result<u64> {
        if len == 0 {
            return Ok(0);
        }
        match self {
            Workspace::Given(view) => room(Some(view), len),
            Workspace::Owned(owned) => {
                if stream.is_captured()? {
                    let allowed = "given to a call that is captured: the operator's own memory goes with the \
                                   operator, and a graph would go on using it";
                    return Err(Error::argument("workspace", "not given", allowed));
                }
                if let Some((tensor, used)) = owned
                    && tensor.device() == stream.device()
                    && tensor.len() >= len
                {
                    stream.wait(used)?;
                    return Ok(tensor.address());
                }
                let tensor = Tensor::zeros(stream.device(), &[len])?;
                let address = tensor.address();
                // What it replaces is freed after the work that uses it.
                *owned = Some((tensor, Event::new(stream.device())?));
                Ok(address)
            }
        }
    }

    /// Marks the end of the work that uses it: the next run waits for that, on whatever stream it is.
    pub(in crate::ops) fn used(&mut self, len: usize, stream: &Stream) -> Result<()> {
        match self {
            Workspace::Owned(Some((_, used))) if len > 0 => stream.record(used),
            _ => Ok(()),
        }
    }
}
