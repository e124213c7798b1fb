//! The launches of an attention's gradients: what is known of queries, then tiles of keys and of queries, then gradients by what is added to scores.

use tilewright_attention::KERNELS;
use tilewright_attention::gradient::{
    AttentionGradientArgs, AttentionGradientWideArgs, BiasGradientArgs, BiasKernel, GradientKernel,
    HeadOrder, LINE, Parts, QueryStatsArgs, RoundSumsArgs, RoundingKernel, SINKS, SinkGradientArgs,
    StatsKernel, SumPartsArgs, SummingKernel, Turns,
};
use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;

use super::choose::{Compiled, of_bias, others, rounding, stats};
use super::divide::summing;
use super::problem::{MOST, Problem};
use crate::ops::frame::{absent, expect_mapped};
use crate::tensor::{Layout, Untyped};
use crate::{AnyFunction, Arch, DType, Device, Error, Launch, Result, Stream};

/// Lines of a TMA box, and of one of statistics.
const BOX: u32 = 64;
const STATS_BOX: u32 = 8;

/// Kernels that are ready to be launched, in order.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    stats: (&'static Listed<StatsKernel>, AnyFunction),
    tiles: Vec<(&'static Compiled, AnyFunction)>,
    rounding: Option<(&'static Listed<RoundingKernel>, AnyFunction)>,
    summing: Option<(&'static Listed<SummingKernel>, AnyFunction)>,
    bias: Option<(&'static Listed<BiasKernel>, AnyFunction)>,
    sinks: Option<AnyFunction>,
    /// The parts of tiles' walks, which lie in the workspace from this element of f32 on.
    parts: (usize, Parts),
    /// Where sums of dQ lie in the workspace, behind the statistics, if there are any; and its elements.
    sums: Option<(usize, Layout)>,
    /// Where the counters of tiles and of turns lie behind these, if there are any: as many elements as counters.
    counters: Option<usize>,
    /// Whether tiles add to dQ in turn.
    ordered: bool,
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
        let columns = size.columns.into_iter().max().unwrap_or(0);
        let stats = stats(kernel, columns).ok_or_else(|| missing(kernel))?;
        let rounding = match rounding(kernel) {
            None if kernel.adds => return Err(missing(kernel)),
            None => None,
            Some(rounding) => Some((rounding, device.listed(&KERNELS, rounding)?)),
        };
        let bias = match problem.d_bias {
            None => None,
            Some(_) => {
                let kernel = of_bias(kernel).ok_or_else(|| missing(kernel))?;
                Some((kernel, device.listed(&KERNELS, kernel)?))
            }
        };
        let sinks = problem.d_sinks.and_then(|_| SINKS.first());
        let stats_layout = Layout::contiguous(&[*matrices, size.heads, *lines, 2 * LINE as usize])?;
        let rows = lines * LINE as usize;
        let sums = if kernel.adds {
            let layout = Layout::contiguous(&[*matrices, size.heads, rows, kernel.columns[0] as usize])?;
            Some((stats_layout.len(), layout))
        } else {
            None
        };
        let [m, columns] = [kernel.tile[0], kernel.columns[0]].map(|size| size as usize);
        let parts = Parts {
            count: problem.parts(kernel),
            heads: size.kv_heads as u32,
            tiles: size.keys.div_ceil(m) as u32,
            ..Parts::NONE
        };
        let summing = match summing(kernel) {
            _ if parts.count == 1 => None,
            None => return Err(missing(kernel)),
            Some(summing) => Some((summing, device.listed(&KERNELS, summing)?)),
        };
        let first_part = stats_layout.len() + sums.as_ref().map_or(0, |(_, layout)| layout.len());
        let of_parts = if parts.count == 1 { 0 } else { parts.len(size.batch, m * columns) };
        let counters = first_part.saturating_add(of_parts);
        let ordered = problem.in_turn(kernel);
        let count = match (kernel.adds, ordered) {
            (false, _) => 0,
            (true, false) => Turns::UNORDERED,
            (true, true) => Turns::len(*matrices, size.heads, *lines),
        };
        let len = counters + count;
        Ok(Prepared {
            stats: (stats, device.listed(&KERNELS, stats)?),
            tiles: tiles.collect::<Result<_>>()?,
            rounding,
            summing,
            bias,
            parts: (first_part, parts),
            sinks: sinks.map(|kernel| device.listed(&KERNELS, kernel)).transpose()?,
            sums,
            counters: (count > 0).then_some(counters),
            ordered,
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
        let Problem { size, lines, .. } = problem;
        let turns = self.counters.map_or(Turns::NONE, |first| Turns {
            // Without queries nothing sets them to 0.
            counters: if size.queries > 0 { workspace + 4 * first as u64 } else { 0 },
            ordered: self.ordered.into(),
            heads: size.heads as u32,
            lines: *lines as u32,
            of_keys: [size.kv_heads as u32 * self.parts.1.count, size.batch as u32],
        });
        let (first_part, parts) = self.parts;
        let parts = Parts { address: workspace + 4 * first_part as u64, ..parts };
        let run = Run { problem, stream, overlap, stats, sums, turns, parts };
        if !problem.is_empty() {
            self.run_of_inputs(&run)?;
        }
        if let (Some((kernel, function)), Some(d_bias)) = (&self.bias, &problem.d_bias)
            && d_bias.layout.len() > 0
        {
            run.bias(kernel, function, d_bias)?;
        }
        match (&self.sinks, &problem.d_sinks) {
            (Some(function), Some(d_sinks)) if size.heads > 0 => run.sinks(function, d_sinks),
            _ => Ok(()),
        }
    }
}

impl Prepared {
    /// The gradients by Q, K and V.
    fn run_of_inputs(&self, run: &Run<'_>) -> Result<()> {
        let Problem { size, .. } = run.problem;
        if size.queries > 0 {
            run.stats(self.stats.0, &self.stats.1)?;
        }
        for (kernel, function) in &self.tiles {
            let rows = if kernel.of_keys { size.keys } else { size.queries };
            if rows > 0 {
                run.tiles(kernel, function, rows)?;
            }
        }
        if let Some((kernel, function)) = &self.summing
            && size.keys > 0
        {
            run.sum_parts(kernel, function)?;
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
    turns: Turns,
    parts: Parts,
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

    /// A launch of a kernel of this architecture, which may begin before the preceding grid ends.
    fn after(&self, launch: Launch, arch: Arch) -> Launch {
        launch.pdl(self.overlap && arch == Arch::Sm90a)
    }

    fn stats(&self, kernel: &Listed<StatsKernel>, function: &AnyFunction) -> Result<()> {
        let Problem { size, inputs: [.., d_o], o, lse, ranges, lines, .. } = self.problem;
        let args = QueryStatsArgs {
            o: self.plain(o)?,
            d_o: self.plain(d_o)?,
            lse: self.plain(lse)?,
            stats: self.plain(&self.stats)?,
            sums: self.plain(&self.sums)?,
            ranges: *ranges,
            turns: self.turns,
        };
        let rows = (size.queries.next_multiple_of(128)).min(lines * LINE as usize);
        let launch = self.grid(rows.div_ceil(kernel.tile[0] as usize), size.heads, 1)?;
        // SAFETY: the arguments are those of `query_stats`, but for the names of elements. The views that the tensors come from are borrowed by
        // the caller, and the workspace has the elements of statistics and sums; the kernel keeps to their shapes. Programmatic launch only
        // moves what precedes its wait for the preceding grid.
        unsafe { function.launch_block(self.stream, &self.after(launch, kernel.arch), &args) }
    }

    /// Q, K, V, dO and the statistics, as kernels of an architecture read their tiles.
    fn streamed(&self, name: &'static str, arch: Arch) -> Result<[GlobalAbi<(), 4>; 5]> {
        let Problem { size, inputs: [q, k, v, d_o], .. } = self.problem;
        let backend = self.device().backend();
        let lines = |count| if arch == Arch::Sm90a { count } else { 0 };
        let of = |input: &Untyped| input.streamed(backend, lines(BOX));
        let all = [of(q)?, of(k)?, of(v)?, of(d_o)?, self.stats.streamed(backend, lines(STATS_BOX))?];
        if size.queries > 0 && size.keys > 0 && !self.problem.is_empty() {
            expect_mapped(name, arch, all.each_ref().map(|of| of.tma))?;
        }
        Ok(all)
    }

    fn tiles(&self, kernel: &Listed<GradientKernel>, function: &AnyFunction, rows: usize) -> Result<()> {
        let Problem { size, outputs: [d_q, d_k, d_v], ranges, scales, terms, bias, .. } = self.problem;
        let heads = if kernel.of_keys { size.kv_heads * self.parts.count as usize } else { size.heads };
        let (tiles, together) = (rows.div_ceil(kernel.tile[0] as usize), self.problem.together(kernel));
        let [q, k, v, d_o, stats] = self.streamed(kernel.name, kernel.arch)?;
        let parts = kernel.columns[0] / kernel.columns[1];
        let launch = if kernel.adds {
            // CTAs number their tiles in 32 bits, and find their places by themselves.
            let all = self.grid(tiles, heads, parts)?.grid.iter().map(|&n| u64::from(n)).product::<u64>();
            let resident = function.resident_ctas().max(1);
            let Some(all) = u32::try_from(all).ok().filter(|all| all.checked_add(resident).is_some()) else {
                return Err(Error::argument("q", format!("of {all} tiles"), "of fewer than 2^32"));
            };
            Launch::grid([all.min(resident), 1, 1])
        } else {
            self.grid(tiles.saturating_mul(together), heads / together, parts)?
        };
        let launch = self.after(launch, kernel.arch);
        let order = HeadOrder { together: together as u32, tiles: tiles as u32 };
        if kernel.divides_columns {
            let args = AttentionGradientWideArgs {
                q,
                k,
                v,
                d_o,
                stats,
                sums: self.plain(&self.sums)?,
                d_k: self.plain(d_k)?,
                d_v: self.plain(d_v)?,
                ranges: *ranges,
                scales: *scales,
                order,
                turns: self.turns,
                parts: self.parts,
            };
            // SAFETY: as in `stats`, of `attention_gradient_wide`: outputs are borrowed exclusively, and sums are of whole blocks.
            return unsafe { function.launch_block(self.stream, &launch, &args) };
        }
        // Of tiles of keys it has their rows, and the columns of queries.
        let bias = match bias {
            None => absent(),
            Some(bias) if kernel.of_keys => {
                self.plain(&Untyped { layout: bias.layout.transpose(2, 3)?, ..*bias })?
            }
            Some(bias) => self.plain(bias)?,
        };
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
            terms: *terms,
            bias,
            order,
            turns: self.turns,
            parts: self.parts,
        };
        // SAFETY: as in `stats`, of `attention_gradient`: outputs are borrowed exclusively, and sums are of whole blocks.
        unsafe { function.launch_block(self.stream, &launch, &args) }
    }

    fn sum_parts(&self, kernel: &Listed<SummingKernel>, function: &AnyFunction) -> Result<()> {
        let Problem { size, outputs: [_, d_k, d_v], ranges, .. } = self.problem;
        let args =
            SumPartsArgs { d_k: self.plain(d_k)?, d_v: self.plain(d_v)?, ranges: *ranges, parts: self.parts };
        let launch = self.grid(2 * size.keys.div_ceil(kernel.tile[0] as usize), size.kv_heads, 1)?;
        // SAFETY: as in `stats`, of `sum_parts`: outputs are borrowed exclusively.
        unsafe { function.launch_block(self.stream, &self.after(launch, kernel.arch), &args) }
    }

    fn round(&self, kernel: &Listed<RoundingKernel>, function: &AnyFunction) -> Result<()> {
        let Problem { size, outputs: [d_q, ..], ranges, scales, .. } = self.problem;
        let args = RoundSumsArgs {
            sums: self.plain(&self.sums)?,
            d_q: self.plain(d_q)?,
            ranges: *ranges,
            factor: scales.factor,
        };
        let blocks = size.queries.div_ceil(kernel.tile[0] as usize);
        let launch = self.grid(blocks.saturating_mul(kernel.parts as usize), size.heads, 1)?;
        // SAFETY: as in `stats`, of `round_sums`.
        unsafe { function.launch_block(self.stream, &self.after(launch, kernel.arch), &args) }
    }

    fn bias(&self, kernel: &Listed<BiasKernel>, function: &AnyFunction, d_bias: &Untyped) -> Result<()> {
        let Problem { size, ranges, scales, terms, bias, .. } = self.problem;
        let [q, k, v, d_o, stats] = self.streamed(kernel.name, kernel.arch)?;
        let args = BiasGradientArgs {
            q,
            k,
            v,
            d_o,
            stats,
            bias: bias.as_ref().map_or_else(|| Ok(absent()), |bias| self.plain(bias))?,
            d_bias: self.plain(d_bias)?,
            ranges: *ranges,
            scales: *scales,
            terms: *terms,
        };
        let [m, n] = kernel.tile.map(|tile| tile as usize);
        let tiles = size.queries.div_ceil(m).saturating_mul(size.keys.div_ceil(n));
        let tiles = u32::try_from(tiles).map_err(|_| {
            Error::argument("d_bias", format!("of {tiles} tiles of {m} x {n}"), "of fewer than 2^32")
        })?;
        // There are at most as many as heads and sequences.
        let [sequences, heads] = [0, 1].map(|dim| d_bias.layout.shape()[dim] as u32);
        let launch = Launch::grid([tiles, heads, sequences]);
        // SAFETY: as in `tiles`, of `bias_gradient`.
        unsafe { function.launch_block(self.stream, &launch, &args) }
    }

    fn sinks(&self, function: &AnyFunction, d_sinks: &Untyped) -> Result<()> {
        let Problem { size, ranges, terms, .. } = self.problem;
        let args = SinkGradientArgs {
            stats: self.plain(&self.stats)?,
            d_sinks: d_sinks.arg::<f32, 2>(self.device().backend(), true, 0)?,
            ranges: *ranges,
            terms: *terms,
            sequences: size.batch as u32,
        };
        // SAFETY: as in `stats`, of `sink_gradient`.
        unsafe { function.launch_block(self.stream, &Launch::grid([size.heads as u32, 1, 1]), &args) }
    }
}
