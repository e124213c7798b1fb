//! States that are passed on from segment to segment: the memory for them, and the launch.

use tilewright_device::abi::GlobalAbi;
use tilewright_linear_attention::{PASSED, PASSED_COLUMNS, PassByTransitionsArgs, PassStatesArgs, Way};

use super::choose::Compiled;
use super::launch::How;
use super::problem::{Problem, Size};
use crate::tensor::{Layout, Untyped};
use crate::{AnyFunction, DType, Error, Launch, Result, Stream};

/// What segments leave in the workspace: none of it where a sequence is one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    /// Elements of f32 in front of it.
    begins: usize,
    /// Segments of all sequences, and heads.
    parts: [usize; 2],
    /// Columns and channels of a state, channels of a transition and of what is left.
    columns: [usize; 4],
    /// Elements of all.
    pub(super) len: usize,
}

/// The same as tensors.
#[derive(Clone, Debug)]
pub(super) struct PassedTensors {
    /// \[segments x sequences, heads, columns, DK\]
    pub(super) states: Untyped,
    /// Of the delta rule, \[segments x sequences, heads, DK, DK\]: as kernels write them, each the transposed of what lies there.
    pub(super) transitions: Untyped,
    /// \[segments x sequences, heads, DK or 1\]
    pub(super) left: Untyped,
}

impl Passed {
    /// The tensors in this workspace.
    pub(super) fn at(&self, workspace: u64) -> Result<PassedTensors> {
        let ([parts, heads], [dv, d, turned, left]) = (self.parts, self.columns);
        let mut address = workspace + (self.begins * 4) as u64;
        let mut take = |shape: &[usize]| {
            let of = Untyped { address, dtype: DType::F32, layout: Layout::contiguous(shape)? };
            address += (of.layout.len() * 4) as u64;
            Ok::<_, Error>(of)
        };
        let (states, transitions) = (take(&[parts, heads, dv, d])?, take(&[parts, heads, turned, turned])?);
        let transitions = Untyped { layout: transitions.layout.transpose(2, 3)?, ..transitions };
        Ok(PassedTensors { states, transitions, left: take(&[parts, heads, left])? })
    }
}

impl Problem {
    /// What so many segments leave in the workspace for this kernel.
    pub(super) fn passed(&self, kernel: &Compiled, segments: u32) -> Passed {
        let Size { sequences, heads, columns: [_, dv], .. } = self.size;
        let d = kernel.columns[1] as usize;
        let (begins, columns) = match self.way {
            Way::Heads => (0, [dv, d, 0, 1]),
            Way::Channels => (self.prepared(kernel).len, [dv, d, 0, d]),
            Way::Delta => (self.solved(kernel).len, [dv, d, d, 1]),
            Way::ChannelsDelta => (self.prepared(kernel).len, [dv, d, d, d]),
        };
        let parts = if segments > 1 { sequences.saturating_mul(segments as usize) } else { 0 };
        let [dv, d, turned, left] = columns;
        let each = dv * d + turned * turned + left;
        Passed {
            begins,
            parts: [parts, heads],
            columns,
            len: parts.saturating_mul(heads).saturating_mul(each),
        }
    }

    /// A state without elements: zeros where it is read, and not written.
    pub(super) fn no_state(&self) -> Result<Untyped> {
        Ok(Untyped { layout: Layout::contiguous(&[1, 1, 0, 1])?, dtype: DType::F32, ..self.o })
    }

    /// What is left of states, where nobody asks for it.
    pub(super) fn nothing_left(&self) -> Result<Untyped> {
        Ok(Untyped { layout: Layout::contiguous(&[1, 0, 1])?, dtype: DType::F32, ..self.o })
    }

    /// Passes the states on, from what each segment makes of nothing to what is before it, and behind the last.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    pub(super) unsafe fn pass(&self, stream: &Stream, how: &How<'_>, passed: &PassedTensors) -> Result<()> {
        let [initial, last] = &self.states;
        // There is one where there are segments.
        let Some(function) = &how.loaded.pass else { return Ok(()) };
        if !self.way.corrects() {
            // SAFETY: passed on.
            return unsafe {
                self.pass_alike((stream, function), [&passed.states, &passed.left], [initial, last], false)
            };
        }
        let backend = self.device.backend();
        let Size { sequences, heads, columns: [_, dv], .. } = self.size;
        let count = |n: usize| u32::try_from(n).map_err(|_| self.too_large());
        let [states, before, behind]: [GlobalAbi<f32, 4>; 3] = [
            passed.states.arg(backend, true, 0)?,
            initial.arg(backend, true, 0)?,
            last.arg(backend, true, 0)?,
        ];
        let left: GlobalAbi<f32, 3> = passed.left.arg(backend, true, 0)?;
        let (heads, sequences) = (count(heads)?, count(sequences)?);
        // As it lies there.
        let transitions =
            Untyped { layout: passed.transitions.layout.transpose(2, 3)?, ..passed.transitions };
        let transitions: GlobalAbi<f32, 4> = transitions.arg(backend, true, 0)?;
        let args = PassByTransitionsArgs { states, transitions, left, before, behind, sequences };
        let launch = Launch::grid([count(dv)?.div_ceil(PASSED_COLUMNS as u32), heads, sequences]);
        // SAFETY: the arguments are those of `pass_by_transitions`; the caller vouches for the memory.
        unsafe { function.launch_block(stream, &launch, &args) }
    }

    /// Passes states on of which segments leave a factor of each channel, or of all: from `before` the first segment to `behind` the last, or the other way.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    pub(super) unsafe fn pass_alike(
        &self,
        (stream, function): (&Stream, &AnyFunction),
        [states, left]: [&Untyped; 2],
        [before, behind]: [&Untyped; 2],
        reversed: bool,
    ) -> Result<()> {
        let backend = self.device.backend();
        let count = |n: usize| u32::try_from(n).map_err(|_| self.too_large());
        let (heads, sequences) = (count(self.size.heads)?, count(self.size.sequences)?);
        let elements = states.layout.shape().iter().rev().take(2).product();
        let args = PassStatesArgs {
            states: states.arg::<f32, 4>(backend, true, 0)?,
            left: left.arg::<f32, 3>(backend, true, 0)?,
            before: before.arg::<f32, 4>(backend, true, 0)?,
            behind: behind.arg::<f32, 4>(backend, true, 0)?,
            sequences,
            reversed: u32::from(reversed),
        };
        let launch = Launch::grid([count(elements)?.div_ceil(PASSED), heads, sequences]);
        // SAFETY: the arguments are those of `pass_states`; the caller vouches for the memory.
        unsafe { function.launch_block(stream, &launch, &args) }
    }
}
