//! The memory for what CTAs compute in parts.

use crate::tensor::Region;
use crate::{Device, Error, Event, Result, Stream, Tensor, TensorViewMut};

/// Bytes to which it is aligned: what one access moves.
const ALIGNED: u64 = 16;

/// Where it comes from.
pub(super) enum Workspace<'a> {
    Given(TensorViewMut<'a, f32>),
    /// Made when it is needed, with what marks the end of the work that uses it.
    Owned(Option<(Tensor<f32>, Event)>),
}

impl Workspace<'_> {
    /// Checks that memory that was given is none of the tensors of these names.
    pub(super) fn expect_apart(
        &self,
        tensors: impl IntoIterator<Item = (&'static str, Region)>,
    ) -> Result<()> {
        let Workspace::Given(view) = self else { return Ok(()) };
        let region = view.region();
        match tensors.into_iter().find(|(_, tensor)| region.overlaps(tensor)) {
            None => Ok(()),
            Some((name, _)) => {
                let was = format!("overlapping `{name}`");
                Err(Error::argument("workspace", was, "apart from all other tensors"))
            }
        }
    }

    /// The address of `len` elements, zeros where they are made; 0 if none are needed.
    pub(super) fn of(&mut self, len: usize, stream: &Stream, device: &Device) -> Result<u64> {
        if len == 0 {
            return Ok(0);
        }
        match self {
            Workspace::Given(view) => {
                device.expect_same(view.device(), "workspace")?;
                if view.len() < len || !view.is_contiguous() {
                    let was = format!("of shape {:?} and strides {:?}", view.shape(), view.strides());
                    return Err(Error::argument(
                        "workspace",
                        was,
                        format!("contiguous, of {len} elements or more"),
                    ));
                }
                if !view.address().is_multiple_of(ALIGNED) {
                    let was = format!("at {:#x}", view.address());
                    return Err(Error::argument("workspace", was, "aligned to 16 bytes"));
                }
                Ok(view.address())
            }
            Workspace::Owned(owned) => {
                if let Some((tensor, used)) = owned
                    && tensor.view().len() >= len
                {
                    stream.wait(used)?;
                    return Ok(tensor.view().address());
                }
                let tensor = Tensor::zeros(device, &[len])?;
                let address = tensor.view().address();
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
