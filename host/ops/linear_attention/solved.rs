//! Triangles of chunks that are solved before the delta rule's state goes over them: the memory between the two launches, and the launch.

use tilewright_device::kernel::Listed;
use tilewright_linear_attention::{SOLVE, SolveArgs, SolveKernel, Work};

use super::choose::Compiled;
use super::launch::How;
use super::problem::{Problem, Size};
use crate::tensor::{Layout, Untyped};
use crate::{DType, Error, Launch, Result, Stream};

/// Elements of f32 to multiples of which tensors in the workspace are rounded up: 128 bytes.
const ALIGNED: usize = 32;

/// How they lie in the workspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Solved {
    /// Columns of what is known of keys, and of values.
    columns: [usize; 2],
    /// Elements of f32 of each.
    lens: [usize; 2],
    /// Of both.
    pub(super) len: usize,
}

impl Problem {
    /// What the workspace holds for a kernel of the delta rule with decays of heads.
    pub(super) fn solved(&self, kernel: &Compiled) -> Solved {
        let [batch, heads, rows, _] = self.matrices();
        let columns = [kernel.columns[1] as usize, self.size.columns[1].next_multiple_of(8)];
        let lines = batch.saturating_mul(heads).saturating_mul(rows);
        let lens = columns.map(|n| (lines.saturating_mul(n) / 2).next_multiple_of(ALIGNED));
        Solved { columns, lens, len: lens[0].saturating_add(lens[1]) }
    }

    /// The kernel that solves the triangles for this one.
    pub(super) fn solve_kernel(&self, kernel: &Compiled) -> Option<&'static Listed<SolveKernel>> {
        SOLVE.iter().find(|k| (k.element, k.columns) == (kernel.element, kernel.columns[1]))
    }

    /// Queues that, and gives what is known of keys, and values.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch); the workspace has the elements of [`solved`](Self::solved).
    pub(super) unsafe fn solve(
        &self,
        stream: &Stream,
        kernel: &Compiled,
        how: &How<'_>,
    ) -> Result<[Untyped; 2]> {
        let Solved { columns, lens, .. } = self.solved(kernel);
        let [batch, heads, rows, _] = self.matrices();
        let tensor = |begin: usize, columns: usize| {
            let layout = Layout::contiguous(&[batch, heads, rows, columns])?;
            let address = how.workspace + (begin * 4) as u64;
            Ok::<_, Error>(Untyped { address, dtype: self.o.dtype, layout })
        };
        let [known, values] = [tensor(0, columns[0])?, tensor(lens[0], columns[1])?];
        let count = |n: usize| u32::try_from(n).map_err(|_| self.too_large());
        let Size { sequences, .. } = self.size;
        let work = Work { rows: count(rows)?, sequences: count(sequences)?, ..self.work() };
        let grid = [count(self.chunks())?, count(heads)?, work.sequences];
        if let Some(function) = &how.loaded.before {
            let backend = self.device.backend();
            let plain = |of: &Untyped| of.arg::<(), 4>(backend, true, 0);
            let [_, k, v] = &self.inputs;
            let none = Untyped { layout: Layout::contiguous(&[1, 1, 0, 1])?, dtype: DType::F32, ..self.o };
            let beta = match self.beta {
                Some(beta) => Untyped { layout: beta.layout.insert(3)?, ..beta },
                None => none,
            };
            let args = SolveArgs {
                k: plain(k)?,
                v: plain(v)?,
                beta: plain(&beta)?,
                known: plain(&known)?,
                values: plain(&values)?,
                decays: self.decays(),
                work,
            };
            // SAFETY: the arguments are those of `solve`, but for the names of elements. The caller vouches for the memory, which reaches no further
            // than the tensors' shapes, to which the kernel keeps.
            unsafe { function.launch_block(stream, &Launch::grid(grid), &args)? };
        }
        Ok([known, values])
    }
}
