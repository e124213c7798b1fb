//! The launches of a linear attention.

use tilewright_device::abi::GlobalAbi;
use tilewright_linear_attention::{CHUNK, Decays, KERNELS, PASS, RetentionArgs, Way, Work, pass_states};

use super::choose::Compiled;
use super::passed::PassedTensors;
use super::problem::{Problem, Size};
use crate::ops::frame::{expect_mapped, of_shape};
use crate::tensor::Untyped;
use crate::{AnyFunction, Arch, Error, Launch, Result, Stream};

/// Lines of a TMA box.
pub(super) const BOX: u32 = CHUNK as u32;

/// A kernel that goes over chunks and those that go with it, loaded.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) chunks: AnyFunction,
    /// What prepares chunks or solves their triangles, in front of it; none where there are no chunks.
    pub(super) before: Option<AnyFunction>,
    /// What passes states on, where there are segments.
    pub(super) pass: Option<AnyFunction>,
}

/// How kernels are to be launched.
#[derive(Clone, Copy, Debug)]
pub(super) struct How<'a> {
    /// Segments of a sequence.
    pub(super) segments: u32,
    /// Address of the workspace, if there is one.
    pub(super) workspace: u64,
    pub(super) overlap: bool,
    pub(super) loaded: &'a Loaded,
}

impl Problem {
    /// Loads this kernel and those that go with it.
    pub(super) fn load(&self, kernel: &'static Compiled, segments: u32) -> Result<Loaded> {
        let missing = |what: &str| Error::KernelMissing {
            kernel: kernel.name,
            arch: kernel.arch,
            reason: format!("the set has no kernel that {what}"),
        };
        let before = match kernel.way {
            _ if self.chunks() == 0 => None,
            Way::Heads => None,
            Way::Delta => {
                let solve = self.solve_kernel(kernel);
                let solve = solve.ok_or_else(|| missing("solves its chunks' triangles"))?;
                Some(self.device.listed(&KERNELS, solve)?)
            }
            Way::Channels | Way::ChannelsDelta => {
                let prepare = self.prepare_kernel(kernel);
                let prepare = prepare.ok_or_else(|| missing("prepares its chunks"))?;
                Some(self.device.listed(&KERNELS, prepare)?)
            }
        };
        let pass = match segments {
            1 => None,
            _ if self.way.corrects() => {
                let pass = PASS.iter().find(|pass| pass.columns == kernel.columns[1]);
                let pass = pass.ok_or_else(|| missing("passes its segments' states on"))?;
                Some(self.device.listed(&KERNELS, pass)?)
            }
            _ => Some((*self.device.kernel::<pass_states>(&KERNELS)?).clone()),
        };
        Ok(Loaded { chunks: self.device.listed(&KERNELS, kernel)?, before, pass })
    }

    /// Queues it, by this kernel.
    ///
    /// # Safety
    /// The memory of the tensors has the elements that the problem says, and the workspace those of so many segments; until the end of the
    /// work nobody else writes what is read, or uses what is written.
    pub(super) unsafe fn launch(
        &self,
        stream: &Stream,
        kernel: &'static Compiled,
        how: &How<'_>,
    ) -> Result<()> {
        // SAFETY: passed on.
        unsafe {
            match kernel.way {
                Way::Heads | Way::Delta => self.launch_chunks(stream, kernel, how),
                Way::Channels | Way::ChannelsDelta => self.launch_prepared(stream, kernel, how),
            }
        }
    }

    /// The same by a kernel that goes over chunks as they are.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    unsafe fn launch_chunks(&self, stream: &Stream, kernel: &'static Compiled, how: &How<'_>) -> Result<()> {
        let [initial, last] = &self.states;
        let passed = self.passed(kernel, how.segments).at(how.workspace)?;
        let none = self.no_state()?;
        let [_, _, v] = self.inputs;
        // SAFETY: passed on.
        unsafe {
            let written = match self.way {
                Way::Delta => self.solve(stream, kernel, how)?,
                _ => [Untyped { dtype: v.dtype, ..none }, v],
            };
            if how.segments == 1 {
                return self.chunks_by(stream, kernel, how, &written, [initial, last], None);
            }
            self.chunks_by(stream, kernel, how, &written, [&none, &passed.states], Some(&passed))?;
            self.pass(stream, how, &passed)?;
            self.chunks_by(stream, kernel, how, &written, [&passed.states, &none], None)
        }
    }

    /// Goes through the chunks of all segments: to outputs, or to what is `passed` on. By the delta rule with what is `known` of keys.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch), behind what solves triangles.
    unsafe fn chunks_by(
        &self,
        stream: &Stream,
        kernel: &'static Compiled,
        how: &How<'_>,
        [known, v]: &[Untyped; 2],
        [before, behind]: [&Untyped; 2],
        passed: Option<&PassedTensors>,
    ) -> Result<()> {
        let backend = self.device.backend();
        let tma = kernel.arch == Arch::Sm90a;
        let lines = if tma { BOX } else { 0 };
        let [q, k, _] = &self.inputs;
        let [q, k, v]: [GlobalAbi<(), 4>; 3] =
            [q.streamed(backend, lines)?, k.streamed(backend, lines)?, v.streamed(backend, lines)?];
        let known: GlobalAbi<(), 4> = known.streamed(backend, lines)?;
        if self.o.layout.len() > 0 {
            expect_mapped(kernel.name, kernel.arch, [q.tma, k.tma, v.tma])?;
        }
        let o: GlobalAbi<(), 4> = self.o.streamed(backend, 0)?;
        let before: GlobalAbi<f32, 4> = before.arg(backend, true, 0)?;
        let behind: GlobalAbi<f32, 4> = behind.arg(backend, true, 0)?;
        let (none, nothing) = (self.no_state()?, self.nothing_left()?);
        let (transitions, left) =
            passed.map_or((&none, &nothing), |passed| (&passed.transitions, &passed.left));
        let transitions: GlobalAbi<f32, 4> = transitions.arg(backend, true, 0)?;
        let left: GlobalAbi<f32, 3> = left.arg(backend, true, 0)?;
        let Size { sequences, heads, columns: [_, dv], .. } = self.size;
        let count = |n: usize| u32::try_from(n).map_err(|_| self.too_large());
        let [columns, d] = kernel.columns;
        // By the delta rule segments turn states.
        let turned = if passed.is_some() && self.way.corrects() { d.div_ceil(columns) } else { 0 };
        let blocks = count(dv)?.div_ceil(columns) + turned;
        let chunks = count(self.chunks())?.div_ceil(how.segments).max(1);
        let decays = self.decays();
        let rows = count(self.o.layout.shape()[2])?;
        let work = Work { rows, chunks, blocks, sequences: count(sequences)?, ..self.work() };
        let grid = blocks.checked_mul(how.segments).ok_or_else(|| self.too_large())?;
        let launch = Launch::grid([grid, count(heads)?, count(sequences)?]).pdl(how.overlap && tma);
        let args = RetentionArgs {
            q,
            k,
            v,
            known,
            o,
            before,
            behind,
            transitions,
            left,
            decays,
            work,
            scale: self.scale,
            outputs: u32::from(passed.is_none()),
        };
        // SAFETY: the arguments are those of `retention`, but for the names of elements. The caller vouches for the memory, which reaches no
        // further than the tensors' shapes, to which the kernel keeps. Programmatic launch only moves what precedes its wait for the
        // preceding grid.
        unsafe { how.loaded.chunks.launch_block(stream, &launch, &args) }
    }

    /// The decays of heads and of rows, as kernels take them.
    pub(super) fn decays(&self) -> Decays {
        let strides = self.gates.as_ref().map_or([0; 3], |gates| {
            let [matrix, row, head] = [0, 1, 2].map(|i| gates.layout.strides()[i] as u64);
            [matrix, head, row]
        });
        Decays {
            gates: self.gates.as_ref().map_or(0, |gates| gates.address),
            strides,
            constants: self.decay.as_ref().map_or(0, |decay| decay.address),
            stride: self.decay.as_ref().map_or(0, |decay| decay.layout.strides()[0] as u64),
        }
    }

    pub(super) fn too_large(&self) -> Error {
        let allowed = "of fewer than 2^32 rows and blocks of columns in segments";
        Error::argument("q", of_shape(self.inputs[0].layout.shape()), allowed)
    }
}
