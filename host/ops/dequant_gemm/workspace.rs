//! The memory for the sums of parts of tiles, and their counters.

use crate::{Device, Element, Error, Event, Result, Stream, Tensor, TensorView, TensorViewMut};

/// Elements at its begin that count parts: zeros before and after every kernel.
pub(super) const COUNTERS: usize = 4096;

/// Where it comes from.
pub(super) enum Workspace<'a> {
    Given(TensorViewMut<'a, f32>),
    /// Made when it is needed, with what marks the end of the work that uses it.
    Owned(Option<(Tensor<f32>, Event)>),
}

impl Workspace<'_> {
    /// Checks that memory that was given is none of A, C and the bias.
    pub(super) fn expect_apart<T: Element>(&self, tensors: [Option<&TensorView<'_, T>>; 3]) -> Result<()> {
        let Workspace::Given(view) = self else { return Ok(()) };
        let overlaps =
            |tensor: Option<&TensorView<'_, T>>| tensor.is_some_and(|tensor| view.overlaps(tensor));
        match ["a", "c", "bias"].into_iter().zip(tensors).find(|&(_, tensor)| overlaps(tensor)) {
            None => Ok(()),
            Some((name, _)) => {
                let was = format!("overlapping `{name}`");
                Err(Error::argument("workspace", was, "apart from all other tensors"))
            }
        }
    }

    /// The address of `len` elements; 0 if none are needed.
    pub(super) fn of(&mut self, len: usize, stream: &Stream, device: &Device) -> Result<u64> {
        if len == 0 {
            return Ok(0);
        }
        match self {
            Workspace::Given(view) => {
                device.expect_same(view.device(), "workspace")?;
                if view.len() < len || !view.is_contiguous() {
                    let was = format!("of shape {:?} and strides {:?}", view.shape(), view.strides());
                    let allowed = format!("contiguous, of {len} elements or more");
                    return Err(Error::argument("workspace", was, allowed));
                }
                Ok(view.address())
            }
            Workspace::Owned(owned) => {
                if let Some((tensor, used)) = owned
                    && tensor.len() >= len
                {
                    stream.wait(used)?;
                    return Ok(tensor.address());
                }
                let tensor = Tensor::zeros(device, &[len])?;
                let address = tensor.address();
                // What it replaces is freed after the work that uses it.
                *owned = Some((tensor, Event::new(device)?));
                Ok(address)
            }
        }
    }

    /// Marks the end of the work that uses it: the next run waits for that, on whatever stream it is.
    pub(super) fn used(&mut self, len: usize, stream: &Stream) -> Result<()> {
        match self {
            Workspace::Owned(Some((_, used))) if len > 0 => stream.record(used),
            _ => Ok(()),
        }
    }
}
