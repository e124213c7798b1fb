//! Chunks that are prepared before the state goes over them: the memory between the two launches, and the launches.

use tilewright_device::kernel::Listed;
use tilewright_linear_attention::{CHUNK, PREPARE, PrepareArgs, PrepareKernel, ScanArgs, Work};

use super::choose::Compiled;
use super::launch::{BOX, How};
use super::passed::PassedTensors;
use super::problem::{Problem, Size};
use crate::ops::frame::{Copies, expect_mapped};
use crate::tensor::{Layout, Untyped};
use crate::{Arch, DType, Error, Launch, Result, Stream};

/// Elements of f32 to multiples of which tensors in the workspace are rounded up: 128 bytes.
const ALIGNED: usize = 32;

/// How what is prepared lies in the workspace: elements of f32 to where each tensor begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prepared {
    /// Q and K decayed, the scores, of the delta rule what is known of keys, and the values if they are not V as it lies.
    begins: [usize; 5],
    /// Columns of each of them.
    columns: [usize; 5],
    /// The factors of states.
    factors: usize,
    /// Chunks of a head.
    slots: usize,
    /// Elements of all.
    pub(super) len: usize,
}

/// What a scan goes over.
struct Scanned {
    /// As in [`Prepared`].
    tensors: [Untyped; 5],
    factors: Untyped,
    work: Work,
}

impl Problem {
    /// What the workspace holds for a kernel that goes over prepared chunks.
    pub(super) fn prepared(&self, kernel: &Compiled) -> Prepared {
        let [batch, heads, rows, _] = self.matrices();
        let (d, dv) = (kernel.columns[1] as usize, self.size.columns[1].next_multiple_of(8));
        let known = if self.way.corrects() { d } else { 0 };
        let columns = [d, d, CHUNK, known, if self.prepares_values(kernel) { dv } else { 0 }];
        let lines = batch.saturating_mul(heads).saturating_mul(rows);
        let mut len = 0usize;
        let mut take = |elements: usize| {
            let begin = len;
            len = len.saturating_add(elements.next_multiple_of(ALIGNED));
            begin
        };
        let begins = columns.map(|columns| take(lines.saturating_mul(columns) / 2));
        let slots = match self.offsets {
            None => batch.saturating_mul(rows.div_ceil(CHUNK)),
            Some(_) => rows / CHUNK + self.size.sequences + 1,
        };
        let factors = take(slots.saturating_mul(heads).saturating_mul(d));
        Prepared { begins, columns, factors, slots, len }
    }

    /// Whether V is prepared too: for the delta rule, and where the kernel cannot copy it as it lies.
    fn prepares_values(&self, kernel: &Compiled) -> bool {
        let [.., v] = &self.operands;
        self.way.corrects() || v.check(Copies::of(kernel.arch)).is_err()
    }

    /// The shape of O: what rows are.
    pub(super) fn matrices(&self) -> [usize; 4] {
        let shape = self.o.layout.shape();
        [0, 1, 2, 3].map(|i| shape[i])
    }

    /// The kernel that prepares chunks for this one.
    pub(super) fn prepare_kernel(&self, kernel: &Compiled) -> Option<&'static Listed<PrepareKernel>> {
        let wanted = (kernel.element, kernel.columns[1], self.way.corrects());
        PREPARE.iter().find(|k| (k.element, k.columns, k.delta) == wanted)
    }

    /// Queues it, by a kernel that goes over prepared chunks.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch); the workspace has the elements of [`prepared`](Self::prepared).
    pub(super) unsafe fn launch_prepared(
        &self,
        stream: &Stream,
        kernel: &'static Compiled,
        how: &How<'_>,
    ) -> Result<()> {
        let lies = self.prepared(kernel);
        let [batch, heads, rows, _] = self.matrices();
        let Size { sequences, .. } = self.size;
        let count = |n: usize| u32::try_from(n).map_err(|_| self.too_large());
        let at = |begin: usize| how.workspace + (begin * 4) as u64;
        let tensor = |i: usize| {
            let layout = Layout::contiguous(&[batch, heads, rows, lies.columns[i]])?;
            Ok::<_, Error>(Untyped { address: at(lies.begins[i]), dtype: self.o.dtype, layout })
        };
        let tensors = [tensor(0)?, tensor(1)?, tensor(2)?, tensor(3)?, tensor(4)?];
        let factors = Layout::contiguous(&[lies.slots * heads, kernel.columns[1] as usize])?;
        let factors = Untyped { address: at(lies.factors), dtype: DType::F32, layout: factors };

        let backend = self.device.backend();
        let (rows, slots) = (count(rows)?, count(lies.slots)?);
        let work = Work { rows, sequences: count(sequences)?, slots, ..self.work() };
        let (chunks, heads, sequences) = (count(self.chunks())?, count(heads)?, count(sequences)?);
        if let Some(function) = &how.loaded.before {
            let plain = |of: &Untyped| of.arg::<(), 4>(backend, true, 0);
            let [q, k, v] = &self.inputs;
            let none = Untyped { layout: Layout::contiguous(&[1, 1, 0, 1])?, dtype: DType::F32, ..self.o };
            let beta =
                self.beta.map(|beta| Ok::<_, Error>(Untyped { layout: beta.layout.insert(3)?, ..beta }));
            let [from_before, to_behind, scores, known, values] = &tensors;
            let args = PrepareArgs {
                q: plain(q)?,
                k: plain(k)?,
                v: plain(v)?,
                gates: plain(self.channel_gates.as_ref().unwrap_or(&none))?,
                beta: plain(beta.transpose()?.as_ref().unwrap_or(&none))?,
                from_before: plain(from_before)?,
                to_behind: plain(to_behind)?,
                scores: plain(scores)?,
                known: plain(known)?,
                values: plain(values)?,
                whole: factors.arg::<(), 2>(backend, true, 0)?,
                work,
                scale: self.scale,
            };
            // SAFETY: the arguments are those of `prepare`, but for the names of elements. The caller vouches for the memory, which reaches no
            // further than the tensors' shapes, to which the kernel keeps.
            unsafe { function.launch_block(stream, &Launch::grid([chunks, heads, sequences]), &args)? };
        }

        let [initial, last] = &self.states;
        let passed = self.passed(kernel, how.segments).at(how.workspace)?;
        let none = self.no_state()?;
        let scanned = Scanned { tensors, factors, work };
        // SAFETY: passed on.
        unsafe {
            if how.segments == 1 {
                return self.scan_by(stream, kernel, how, &scanned, [initial, last], None);
            }
            self.scan_by(stream, kernel, how, &scanned, [&none, &passed.states], Some(&passed))?;
            self.pass(stream, how, &passed)?;
            self.scan_by(stream, kernel, how, &scanned, [&passed.states, &none], None)
        }
    }

    /// Goes over the prepared chunks of all segments: to outputs, or to what is `passed` on.
    ///
    /// # Safety
    /// As for [`launch_prepared`](Self::launch_prepared), behind what prepares.
    unsafe fn scan_by(
        &self,
        stream: &Stream,
        kernel: &'static Compiled,
        how: &How<'_>,
        Scanned { tensors, factors, work }: &Scanned,
        [before, behind]: [&Untyped; 2],
        passed: Option<&PassedTensors>,
    ) -> Result<()> {
        let backend = self.device.backend();
        let tma = kernel.arch == Arch::Sm90a;
        let lines = if tma { BOX } else { 0 };
        let values = if self.prepares_values(kernel) { &tensors[4] } else { &self.inputs[2] };
        let boxes = |of: &Untyped| of.streamed::<(), 4>(backend, lines);
        let [from_before, to_behind, scores, known, values] = [
            boxes(&tensors[0])?,
            boxes(&tensors[1])?,
            boxes(&tensors[2])?,
            boxes(&tensors[3])?,
            boxes(values)?,
        ];
        if self.chunks() > 0 {
            expect_mapped(kernel.name, kernel.arch, [from_before.tma, values.tma])?;
        }
        let Size { sequences, heads, columns: [_, dv], .. } = self.size;
        let count = |n: usize| u32::try_from(n).map_err(|_| self.too_large());
        let [columns, d] = kernel.columns;
        // By the delta rule segments turn states.
        let turned = if passed.is_some() && self.way.corrects() { d.div_ceil(columns) } else { 0 };
        let blocks = count(dv)?.div_ceil(columns) + turned;
        let chunks = count(self.chunks())?.div_ceil(how.segments).max(1);
        let none = self.no_state()?;
        let transitions = passed.map_or(&none, |passed| &passed.transitions);
        let nothing = self.nothing_left()?;
        let left = passed.map_or(&nothing, |passed| &passed.left);
        let args = ScanArgs {
            from_before,
            to_behind,
            scores,
            known,
            values,
            o: self.o.streamed::<(), 4>(backend, 0)?,
            whole: factors.arg::<(), 2>(backend, true, 0)?,
            before: before.arg::<(), 4>(backend, true, 0)?,
            behind: behind.arg::<(), 4>(backend, true, 0)?,
            transitions: transitions.arg::<(), 4>(backend, true, 0)?,
            left: left.arg::<(), 3>(backend, true, 0)?,
            work: Work { chunks, blocks, ..*work },
            outputs: u32::from(passed.is_none()),
        };
        let grid = blocks.checked_mul(how.segments).ok_or_else(|| self.too_large())?;
        let launch = Launch::grid([grid, count(heads)?, count(sequences)?]).pdl(how.overlap && tma);
        // SAFETY: as in `launch_prepared`, of `scan`.
        unsafe { how.loaded.chunks.launch_block(stream, &launch, &args) }
    }
}
