//! One row of each sequence.

use tilewright_device::abi::GlobalAbi;
use tilewright_linear_attention::{KERNELS, STEP, StepArgs};

use super::problem::{Problem, Size};
use crate::ops::frame::of_shape;
use crate::tensor::{Layout, Untyped};
use crate::{DType, Error, Launch, Result, Stream};

impl Problem {
    /// Queues a step, whose states are those before and behind it in one tensor \[sequences, heads, DK, DV\].
    ///
    /// # Safety
    /// As for [`launch`](Self::launch); nobody else uses the states until the end of the work.
    pub(super) unsafe fn step(&self, stream: &Stream, state: &Untyped) -> Result<()> {
        let Size { sequences, heads, columns: [d, dv], rows } = self.size;
        if rows != 1 {
            let was = of_shape(self.inputs[0].layout.shape());
            return Err(Error::argument("q", was, "of a length of 1: a step takes one row of each sequence"));
        }
        let kernel = STEP.iter().filter(|k| k.element == self.o.dtype.name() && k.columns[1] as usize >= d);
        let kernel = kernel.min_by_key(|kernel| kernel.columns[1]).ok_or_else(|| Error::KernelMissing {
            kernel: "step",
            arch: crate::Arch::Sm80,
            reason: format!("the set has none for {} and {d} columns", self.o.dtype.name()),
        })?;
        let function = self.device.listed(&KERNELS, kernel)?;
        let backend = self.device.backend();
        let none = Untyped { layout: Layout::contiguous(&[1, 1, 0, 1])?, dtype: DType::F32, ..self.o };
        let beta = self.beta.map(|beta| Ok::<_, Error>(Untyped { layout: beta.layout.insert(3)?, ..beta }));
        let gates = self.channel_gates.map(|gates| gates.t());
        let plain = |of: &Untyped| of.arg::<(), 4>(backend, true, 0);
        let [q, k, v] = self.inputs;
        let state: GlobalAbi<(), 4> = plain(state)?;
        let args = StepArgs {
            q: plain(&q.t()?)?,
            k: plain(&k.t()?)?,
            v: plain(&v)?,
            gates: plain(gates.transpose()?.as_ref().unwrap_or(&none))?,
            beta: plain(beta.transpose()?.as_ref().unwrap_or(&none))?,
            state,
            o: plain(&self.o)?,
            decays: self.decays(),
            scale: self.scale,
        };
        let count = |n: usize| u32::try_from(n).map_err(|_| self.too_large());
        let grid = [count(dv.div_ceil(kernel.columns[0] as usize))?, count(heads)?, count(sequences)?];
        // SAFETY: the arguments are those of `step`, but for the names of elements. The caller vouches for the memory, which reaches no
        // further than the tensors' shapes, to which the kernel keeps.
        unsafe { function.launch_block(stream, &Launch::grid(grid), &args) }
    }
}
