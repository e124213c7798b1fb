//! The launches of a gradient.

use tilewright_device::abi::GlobalAbi;
use tilewright_linear_attention::{
    CHUNK, ChannelGradientArgs, ChunkStatesArgs, GRADIENT, GradientArgs, KERNELS, PrepareArgs, SumGatesArgs,
    Way, Work, pass_states, sum_gates,
};

use super::choose::Compiled;
use super::problem::{GradientProblem, Lies};
use crate::ops::linear_attention::problem::Size;
use crate::tensor::{Layout, Untyped};
use crate::{DType, Error, Launch, Result, Stream};

/// The tensors of the workspace.
struct Intermediates {
    /// States before chunks, and the gradients by those behind them, \[heads x chunks, 1, DV, DK\].
    states: [Untyped; 2],
    /// Q decayed from before chunks, K decayed to behind them, scores.
    prepared: [Untyped; 3],
    /// What is left of states behind chunks; without rows where all channels decay alike.
    whole: Untyped,
    /// Of segments, if there are several: states \[segments x sequences, heads, DV, DK\], and what is left of one from before \[…, heads, DK or 1\].
    passed: [Untyped; 2],
    segments: u32,
    /// Gradients by gates: those that are asked for, or what decays' are made of.
    d_gates: Untyped,
}

/// One way over the chunks.
#[derive(Clone, Copy)]
struct Walk<'a> {
    keys: &'a Untyped,
    values: &'a Untyped,
    states: &'a Untyped,
    before: &'a Untyped,
    behind: &'a Untyped,
    reversed: bool,
}

impl GradientProblem {
    /// Queues it, with states by this kernel.
    ///
    /// # Safety
    /// The memory of the tensors has the elements that the problem says, and the workspace those of [`lies`](Self::lies); until the end of the work
    /// nobody else writes what is read, or uses what is written.
    pub(super) unsafe fn launch(
        &self,
        stream: &Stream,
        kernel: &'static Compiled,
        workspace: u64,
    ) -> Result<()> {
        let lies = self.lies(kernel);
        let made = self.intermediates(kernel, &lies, workspace)?;
        let count = |n: usize| u32::try_from(n).map_err(|_| self.of.too_large());
        let [_, _, rows] = self.matrices();
        let work = Work {
            rows: count(rows)?,
            chunks: count(self.of.chunks())?.max(1),
            sequences: count(self.of.size.sequences)?,
            slots: count(lies.slots)?,
            ..self.of.work()
        };
        let [q, k, v] = &self.of.inputs;
        let [from_before, to_behind, _] = &made.prepared;
        let (queries, keys) = match self.of.way {
            Way::Channels | Way::ChannelsDelta => (from_before, to_behind),
            Way::Heads | Way::Delta => (q, k),
        };
        let none = self.none()?;
        let [initial, _] = &self.of.states;
        let [d_last, d_initial] = &self.d_states;
        let [states, d_states] = &made.states;
        let forth = Walk { keys, values: v, states, before: initial, behind: &none, reversed: false };
        let values = &self.d_o;
        let back = Walk {
            keys: queries,
            values,
            states: d_states,
            before: d_last,
            behind: d_initial,
            reversed: true,
        };
        // SAFETY: passed on.
        unsafe {
            if self.of.way.by_channels() && self.of.chunks() > 0 {
                self.prepare(stream, kernel, &made, work)?;
            }
            self.walk(stream, kernel, &forth, &made, work)?;
            self.walk(stream, kernel, &back, &made, work)?;
            if self.of.chunks() > 0 {
                self.chunks_by(stream, &made, work)?;
            }
            match &self.d_decay {
                Some(d_decay) => self.sum_gates(stream, &made, d_decay, work),
                None => Ok(()),
            }
        }
    }

    /// A tensor without rows.
    fn none(&self) -> Result<Untyped> {
        Ok(Untyped { layout: Layout::contiguous(&[1, 1, 0, 1])?, dtype: DType::F32, ..self.of.o })
    }

    fn intermediates(&self, kernel: &Compiled, lies: &Lies, workspace: u64) -> Result<Intermediates> {
        let [batch, heads, rows] = self.matrices();
        let [d, dv] = self.of.size.columns;
        let at = |begin: usize| workspace + (begin * 4) as u64;
        let (line, slots) = (self.line(), lies.slots * heads);
        let state = |i: usize| {
            let layout = Layout::strided(&[slots, 1, dv, d], &[line * dv, line * dv, line, 1])?;
            Ok::<_, Error>(Untyped { address: at(lies.states[i]), dtype: self.of.o.dtype, layout })
        };
        let columns = kernel.columns[1] as usize;
        let channels = self.of.way.by_channels();
        let prepared = |i: usize, columns: usize| {
            let layout = Layout::contiguous(&[batch, heads, if channels { rows } else { 0 }, columns])?;
            Ok::<_, Error>(Untyped { address: at(lies.prepared[i]), dtype: self.of.o.dtype, layout })
        };
        let factors = Layout::contiguous(&[if channels { slots } else { 0 }, columns])?;
        let Size { sequences, .. } = self.of.size;
        let parts = sequences * lies.segments as usize;
        let f32s = |begin: usize, shape: &[usize]| {
            let layout = Layout::contiguous(shape)?;
            Ok::<_, Error>(Untyped { address: at(begin), dtype: DType::F32, layout })
        };
        Ok(Intermediates {
            states: [state(0)?, state(1)?],
            prepared: [prepared(0, columns)?, prepared(1, columns)?, prepared(2, CHUNK)?],
            whole: Untyped { address: at(lies.prepared[3]), dtype: DType::F32, layout: factors },
            passed: [
                f32s(lies.passed[0], &[parts, heads, dv, columns])?,
                f32s(lies.passed[1], &[parts, heads, if channels { columns } else { 1 }])?,
            ],
            segments: lies.segments,
            d_gates: match self.d_decay {
                Some(_) if self.d_gates.layout.len() == 0 => f32s(lies.gates, &[batch, heads, rows, 1])?,
                _ => self.d_gates,
            },
        })
    }

    /// Queues what decays the rows of Q and K and computes scores.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    unsafe fn prepare(
        &self,
        stream: &Stream,
        kernel: &Compiled,
        made: &Intermediates,
        work: Work,
    ) -> Result<()> {
        let prepare = self.prepare_kernel(kernel).ok_or_else(|| Error::KernelMissing {
            kernel: kernel.name,
            arch: kernel.arch,
            reason: "the set has no kernel that prepares its chunks".to_owned(),
        })?;
        let function = self.of.device.listed(&KERNELS, prepare)?;
        let backend = self.of.device.backend();
        let plain = |of: &Untyped| of.arg::<(), 4>(backend, true, 0);
        let none = self.none()?;
        let [q, k, v] = &self.of.inputs;
        let [from_before, to_behind, scores] = &made.prepared;
        let args = PrepareArgs {
            q: plain(q)?,
            k: plain(k)?,
            v: plain(v)?,
            gates: plain(self.of.channel_gates.as_ref().unwrap_or(&none))?,
            beta: plain(&none)?,
            from_before: plain(from_before)?,
            to_behind: plain(to_behind)?,
            scores: plain(scores)?,
            known: plain(&none)?,
            values: plain(&none)?,
            whole: made.whole.arg::<(), 2>(backend, true, 0)?,
            work: Work { chunks: 1, ..work },
            scale: self.of.scale,
        };
        let heads = self.heads()?;
        // SAFETY: the arguments are those of `prepare`, but for the names of elements. The caller vouches for the memory, which reaches no
        // further than the tensors' shapes, to which the kernel keeps.
        unsafe { function.launch_block(stream, &Launch::grid([work.chunks, heads, work.sequences]), &args) }
    }

    /// Goes over the chunks with the state: of several segments first to what each makes of nothing.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    unsafe fn walk(
        &self,
        stream: &Stream,
        kernel: &'static Compiled,
        walk: &Walk<'_>,
        made: &Intermediates,
        work: Work,
    ) -> Result<()> {
        let [passed, left] = &made.passed;
        let (none, nothing) = (self.none()?, self.of.nothing_left()?);
        let no_states = Untyped { dtype: self.of.o.dtype, ..none };
        let alone = Walk { states: &no_states, before: &none, behind: passed, ..*walk };
        let behind_others = Walk { before: passed, behind: &none, ..*walk };
        // SAFETY: passed on.
        unsafe {
            if made.segments == 1 {
                return self.walk_by(stream, kernel, walk, &nothing, made, work);
            }
            self.walk_by(stream, kernel, &alone, left, made, work)?;
            let pass = self.of.device.kernel::<pass_states>(&KERNELS)?;
            self.of.pass_alike((stream, &pass), [passed, left], [walk.before, walk.behind], walk.reversed)?;
            self.walk_by(stream, kernel, &behind_others, &nothing, made, work)
        }
    }

    /// One launch of that.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    unsafe fn walk_by(
        &self,
        stream: &Stream,
        kernel: &'static Compiled,
        walk: &Walk<'_>,
        left: &Untyped,
        made: &Intermediates,
        work: Work,
    ) -> Result<()> {
        let function = self.of.device.listed(&KERNELS, kernel)?;
        let backend = self.of.device.backend();
        let &Walk { keys, values, states, before, behind, reversed } = walk;
        let Size { columns: [_, dv], .. } = self.of.size;
        let blocks = u32::try_from(dv).map_err(|_| self.of.too_large())?.div_ceil(kernel.columns[0]);
        let args = ChunkStatesArgs {
            keys: keys.streamed::<(), 4>(backend, 0)?,
            values: values.streamed::<(), 4>(backend, 0)?,
            states: states.arg::<(), 4>(backend, true, 0)?,
            before: before.arg::<(), 4>(backend, true, 0)?,
            behind: behind.arg::<(), 4>(backend, true, 0)?,
            left: left.arg::<(), 3>(backend, true, 0)?,
            whole: made.whole.arg::<(), 2>(backend, true, 0)?,
            decays: self.of.decays(),
            work: Work { blocks, chunks: work.chunks.div_ceil(made.segments), ..work },
            scale: self.of.scale,
            reversed: u32::from(reversed),
        };
        let grid = blocks.checked_mul(made.segments).ok_or_else(|| self.of.too_large())?;
        // SAFETY: as in `prepare`, of `chunk_states`.
        unsafe { function.launch_block(stream, &Launch::grid([grid, self.heads()?, work.sequences]), &args) }
    }

    /// Queues the gradients of all chunks.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    unsafe fn chunks_by(&self, stream: &Stream, made: &Intermediates, work: Work) -> Result<()> {
        let channels = self.of.way.by_channels();
        let name = self.of.o.dtype.name();
        let kernel = GRADIENT.iter().find(|k| (k.element, k.channels) == (name, channels));
        let kernel = kernel.ok_or_else(|| Error::KernelMissing {
            kernel: "gradient",
            arch: crate::Arch::Sm80,
            reason: format!("the set has none for {name}"),
        })?;
        let function = self.of.device.listed(&KERNELS, kernel)?;
        let backend = self.of.device.backend();
        let plain = |of: &Untyped| of.arg::<(), 4>(backend, true, 0);
        let [q, k, v] = self.of.inputs.each_ref().map(plain);
        let [states, d_states] = made.states.each_ref().map(plain);
        let [d_q, d_k] = self.outputs.each_ref().map(plain);
        let (d_o, d_v): (GlobalAbi<(), 4>, GlobalAbi<(), 4>) = (plain(&self.d_o)?, plain(&self.of.o)?);
        let d_gates = plain(&made.d_gates)?;
        let columns = u32::try_from(self.of.size.columns[0]).map_err(|_| self.of.too_large())?;
        // Those of K's columns, and one for what is of V's.
        let blocks = columns.div_ceil(CHUNK as u32) + 1;
        let grid = work.chunks.checked_mul(blocks).ok_or_else(|| self.of.too_large())?;
        let launch = Launch::grid([grid, self.heads()?, work.sequences]);
        let (scale, work) = (self.of.scale, Work { chunks: 1, blocks, ..work });
        if !channels {
            let decays = self.of.decays();
            let args = GradientArgs {
                q: q?,
                k: k?,
                v: v?,
                d_o,
                states: states?,
                d_states: d_states?,
                d_q: d_q?,
                d_k: d_k?,
                d_v,
                d_gates,
                decays,
                work,
                scale,
            };
            // SAFETY: as in `prepare`, of `gradient`.
            return unsafe { function.launch_block(stream, &launch, &args) };
        }
        let [_, kept, scores] = made.prepared.each_ref().map(plain);
        let args = ChannelGradientArgs {
            q: q?,
            k: k?,
            v: v?,
            d_o,
            gates: plain(self.of.channel_gates.as_ref().unwrap_or(&self.none()?))?,
            kept: kept?,
            scores: scores?,
            states: states?,
            d_states: d_states?,
            d_q: d_q?,
            d_k: d_k?,
            d_v,
            d_gates,
            work,
            scale,
        };
        // SAFETY: as in `prepare`, of `channel_gradient`.
        unsafe { function.launch_block(stream, &launch, &args) }
    }

    /// Queues the sums of gates' gradients.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    unsafe fn sum_gates(
        &self,
        stream: &Stream,
        made: &Intermediates,
        d_decay: &Untyped,
        work: Work,
    ) -> Result<()> {
        let backend = self.of.device.backend();
        let decays = Untyped { layout: d_decay.layout.insert(1)?, ..*d_decay };
        let args = SumGatesArgs {
            gates: made.d_gates.arg::<f32, 4>(backend, true, 0)?,
            decays: decays.arg::<f32, 2>(backend, true, 0)?,
            work,
        };
        let function = self.of.device.kernel::<sum_gates>(&KERNELS)?;
        // SAFETY: the arguments are those of `sum_gates`; the caller vouches for the memory.
        unsafe { function.launch_block(stream, &Launch::grid([self.heads()?, 1, 1]), &args) }
    }

    fn heads(&self) -> Result<u32> {
        u32::try_from(self.of.size.heads).map_err(|_| self.of.too_large())
    }
}
