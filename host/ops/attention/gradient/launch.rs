//! The launches of an attention's gradients: what is known of queries, then tiles of keys and of queries.

use tilewright_attention::KERNELS;
use tilewright_attention::gradient::{
    AttentionGradientArgs, GradientKernel, LINE, QueryStatsArgs, RoundSumsArgs, RoundingKernel, STATS,
};
use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;

use super::choose::{Compiled, others, rounding};
use super::problem::{MOST, Problem};
use crate::ops::frame::expect_mapped;
use crate::tensor::{Layout, Untyped};
use crate::{AnyFunction, Arch, DType, Device, Error, Launch, Result, Stream};

/// Lines of a TMA box, and of one of statistics.
const BOX: u32 = 64;
const STATS_BOX: u32 = 8;
/// Queries that a CTA takes whose statistics are computed.
const STATS_ROWS: usize = 32;

/// Kernels that are ready to be launched, in order.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    stats: AnyFunction,
    tiles: Vec<(&'static Compiled, AnyFunction)>,
    rounding: Option<(&'static Listed<RoundingKernel>, AnyFunction)>,
    /// Where sums of dQ lie in the workspace, behind the statistics, if there are any; and its elements.
    sums: Option<(usize, Layout)>,
    stats_layout: Layout,
    len: usize,
}

impl Prepared {
    pub(super) fn new(problem: &Problem, kernel: &'static Compiled) -> Result<Self> {
        let Problem { device, size, matrices, lines, .. } = problem;
        let missing = |kernel: &Compiled| Error::KernelMissing {
            kernel: kernel.name,
            arch: kernel.arch,
            reason: "the set lacks what goes with it".to_owned(),
        };
        let loaded = |kernel: &'static Compiled| Ok::<_, Error>((kernel, device.listed(&KERNELS, kernel)?));
        let [values, queries] = others(kernel);
        if kernel.wanted != "all" && queries.is_none() || kernel.wanted == "keys" && values.is_none() {
            return Err(missing(kernel));
        }
        let tiles = [Some(kernel), values, queries].into_iter().flatten().map(loaded);
        let element = problem.o.dtype.name();
        let stats = STATS.iter().find(|k| k.element == element).ok_or_else(|| missing(kernel))?;
        let rounding = match rounding(kernel) {
            None if kernel.adds => return Err(missing(kernel)),
            None => None,
            Some(rounding) => Some((rounding, device.listed(&KERNELS, rounding)?)),
        };
        let stats_layout = Layout::contiguous(&[*matrices, size.heads, *lines, 2 * LINE as usize])?;
        let rows = lines * LINE as usize;
        let sums = if kernel.adds {
            let layout = Layout::contiguous(&[*matrices, size.heads, rows, kernel.columns[0] as usize])?;
            Some((stats_layout.len(), layout))
        } else {
            None
        };
        let len = stats_layout.len() + sums.as_ref().map_or(0, |(_, layout)| layout.len());
        Ok(Prepared {
            stats: device.listed(&KERNELS, stats)?,
            tiles: tiles.collect::<Result<_>>()?,
            rounding,
            sums,
            stats_layout,
            len,
        })
    }

    /// Elements of f32.
    pub(super) fn workspace_len(&self) -> usize {
        self.len
    }

    pub(super) fn run(
        &self,
        problem: &Problem,
        stream: &Stream,
        overlap: bool,
        workspace: u64,
    ) -> Result<()> {
        let f32s = |address, layout: Layout| Untyped { address, dtype: DType::F32, layout };
        let stats = f32s(workspace, self.stats_layout);
        let sums = match &self.sums {
            Some((first, layout)) => f32s(workspace + 4 * *first as u64, *layout),
            None => f32s(workspace, Layout::contiguous(&[1, 1, 0, 1])?),
        };
        let run = Run { problem, stream, overlap, stats, sums };
        let Problem { size, .. } = problem;
        if size.queries > 0 {
            run.stats(&self.stats)?;
        }
        for (kernel, function) in &self.tiles {
            let rows = if kernel.of_keys { size.keys } else { size.queries };
            if rows > 0 {
                run.tiles(kernel, function, rows)?;
            }
        }
        match &self.rounding {
            Some((kernel, function)) if size.queries > 0 => run.round(kernel, function),
            _ => Ok(()),
        }
    }
}

/// A call that is being launched.
struct Run<'a> {
    problem: &'a Problem,
    stream: &'a Stream,
    overlap: bool,
    stats: Untyped,
    sums: Untyped,
}

impl Run<'_> {
    fn plain(&self, of: &Untyped) -> Result<GlobalAbi<(), 4>> {
        of.arg(self.device().backend(), true, 0)
    }
    fn device(&self) -> &Device {
        &self.problem.device
    }
    /// A CTA for each of so many tiles of heads of sequences, in some parts.
    fn grid(&self, tiles: usize, heads: usize, parts: u32) -> Result<Launch> {
        let too_many = |what: String| Error::argument("q", what, format!("of at most {MOST}"));
        let tiles = u32::try_from(tiles).map_err(|_| too_many(format!("of {tiles} tiles")))?;
        let sequences = self.problem.size.batch * parts as usize;
        if sequences > MOST {
            return Err(too_many(format!("of {sequences} sequences, each with parts of its columns")));
        }
        Ok(Launch::grid([tiles, heads as u32, sequences as u32]))
    }

    fn stats(&self, function: &AnyFunction) -> Result<()> {
        let Problem { size, inputs: [.., d_o], o, lse, ranges, lines, .. } = self.problem;
        let args = QueryStatsArgs {
            o: self.plain(o)?,
            d_o: self.plain(d_o)?,
            lse: self.plain(lse)?,
            stats: self.plain(&self.stats)?,
            sums: self.plain(&self.sums)?,
            ranges: *ranges,
        };
        let rows = (size.queries.next_multiple_of(128)).min(lines * LINE as usize);
        let launch = self.grid(rows.div_ceil(STATS_ROWS), size.heads, 1)?;
        // SAFETY: the arguments are those of `query_stats`, but for the names of elements. The views that the tensors come from are borrowed by
        // the caller, and the workspace has the elements of statistics and sums; the kernel keeps to their shapes.
        unsafe { function.launch_block(self.stream, &launch, &args) }
    }

    fn tiles(&self, kernel: &Listed<GradientKernel>, function: &AnyFunction, rows: usize) -> Result<()> {
        let Problem { size, inputs, outputs: [d_q, d_k, d_v], ranges, scales, .. } = self.problem;
        let (backend, tma) = (self.device().backend(), kernel.arch == Arch::Sm90a);
        let lines = |count| if tma { count } else { 0 };
        let [q, k, v, d_o] = inputs.each_ref().map(|input| input.streamed::<(), 4>(backend, lines(BOX)));
        let (q, k, v, d_o) = (q?, k?, v?, d_o?);
        let stats = self.stats.streamed::<(), 4>(backend, lines(STATS_BOX))?;
        if size.queries > 0 && size.keys > 0 {
            expect_mapped(kernel.name, kernel.arch, [q.tma, k.tma, v.tma, d_o.tma, stats.tma])?;
        }
        let args = AttentionGradientArgs {
            q,
            k,
            v,
            d_o,
            stats,
            sums: self.plain(&self.sums)?,
            by_scores: self.plain(if kernel.of_keys { d_k } else { d_q })?,
            by_values: self.plain(d_v)?,
            ranges: *ranges,
            scales: *scales,
        };
        let heads = if kernel.of_keys { size.kv_heads } else { size.heads };
        let parts = kernel.columns[0] / kernel.columns[1];
        let launch = self.grid(rows.div_ceil(kernel.tile[0] as usize), heads, parts)?;
        // SAFETY: as in `stats`, of `attention_gradient`: outputs are borrowed exclusively, and sums are of whole blocks. Programmatic launch only
        // moves what precedes its wait for the preceding grid.
        unsafe { function.launch_block(self.stream, &launch.pdl(self.overlap && tma), &args) }
    }

    fn round(&self, kernel: &Listed<RoundingKernel>, function: &AnyFunction) -> Result<()> {
        let Problem { size, outputs: [d_q, ..], ranges, scales, .. } = self.problem;
        let args = RoundSumsArgs {
            sums: self.plain(&self.sums)?,
            d_q: self.plain(d_q)?,
            ranges: *ranges,
            factor: scales.factor,
        };
        let launch = self.grid(size.queries.div_ceil(kernel.tile[0] as usize), size.heads, 1)?;
        // SAFETY: as in `stats`, of `round_sums`.
        unsafe { function.launch_block(self.stream, &launch, &args) }
    }
}
