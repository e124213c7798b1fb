//! Results that are written to the same memory each time.

use std::cell::RefCell;

use candle_core::{DType, Device, Result, Tensor};

use crate::write::storage_of;

/// Memory for the results of calls that are made again and again in the same order, such as those of a step that a CUDA graph is captured from.
///
/// In the first [`run`](Self::run) each call of this crate allocates its result, which is kept; in later ones it is written again, if it has the shape, the
/// type and the device that the call needs. A graph that is captured in a later run holds kernels alone, and no allocations between them: these cost time, and keep a
/// kernel from starting under the end of the one before it.
///
/// All results stay allocated as long as this lives, and a tensor that an earlier run gave has the values of the last one.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use tilewright_candle::{Buffers, softmax_last_dim};
///
/// # fn main() -> candle_core::Result<()> {
/// # if cfg!(feature = "emulator") {
/// let buffers = Buffers::new();
/// let step = |x: f32| buffers.run(|| softmax_last_dim(&Tensor::new(&[[x, 0.0]], &Device::Cpu)?));
/// let first = step(0.0)?;
/// assert_eq!(first.to_vec2::<f32>()?, [[0.5, 0.5]]);
/// step(f32::NEG_INFINITY)?;
/// assert_eq!(first.to_vec2::<f32>()?, [[0.0, 1.0]]);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Buffers {
    kept: RefCell<Vec<Tensor>>,
}

/// The results of a run, and how many it has taken.
struct Current {
    kept: Vec<Tensor>,
    taken: usize,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

impl Buffers {
    /// Without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes calls, in this thread, whose results have memory of this.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        let current = Current { kept: self.kept.take(), taken: 0 };
        let outer = CURRENT.replace(Some(current));
        // Put back also if `f` panics.
        let _end = End { buffers: self, outer: Some(outer) };
        f()
    }
}

struct End<'a> {
    buffers: &'a Buffers,
    outer: Option<Option<Current>>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        if let Some(Current { mut kept, taken }) = CURRENT.replace(self.outer.take().flatten()) {
            kept.truncate(taken);
            self.buffers.kept.replace(kept);
        }
    }
}

/// The memory of the next result, if a run goes on: contiguous, and in no storage with the tensors that the call is given.
pub(crate) fn next(
    shape: &[usize],
    dtype: DType,
    device: &Device,
    given: &[(&'static str, &Tensor)],
) -> Result<Option<Tensor>> {
    CURRENT.with_borrow_mut(|current| {
        let Some(Current { kept, taken }) = current else { return Ok(None) };
        let fits = |kept: &&Tensor| {
            let same = kept.dims() == shape && kept.dtype() == dtype;
            same && kept.device().same_device(device)
                && given.iter().all(|(_, tensor)| storage_of(tensor) != storage_of(kept))
        };
        let tensor = match kept.get(*taken).filter(fits) {
            Some(tensor) => tensor.clone(),
            None => {
                let tensor = Tensor::zeros(shape, dtype, device)?;
                kept.truncate(*taken);
                kept.push(tensor.clone());
                tensor
            }
        };
        *taken += 1;
        Ok(Some(tensor))
    })
}
