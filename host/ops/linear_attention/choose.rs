//! Which kernel computes a linear attention, and in how many segments.

use std::fmt;
use std::sync::LazyLock;

use tilewright_device::kernel::Listed;
use tilewright_linear_attention::{CHUNK, ChunkKernel, KERNELS, RETENTION, SCAN, Way};

use super::problem::{Problem, Size};
use crate::ops::frame::{self, Choice, Copies, Cycles, Rated, Rejection, Table};
use crate::{Arch, Device, KernelSet};

/// One compiled kernel.
pub type Compiled = Listed<ChunkKernel>;

/// What a kernel is chosen by first: the element type and what it computes.
type Kind = (&'static str, Way);

static TABLE: LazyLock<Table<Kind, Compiled>> = LazyLock::new(|| {
    let all = RETENTION.iter().chain(SCAN.iter());
    Table::new(all.map(|k| ((k.element, k.way), *k)))
});

/// Products a cycle of an SM, bytes a cycle of its share of the memory, and what a chunk waits for its own results: of an H200.
const PRODUCTS: u64 = 2048;
const BANDWIDTH: u64 = 37;
const WAITS: u64 = 1800;
/// The most segments that are looked at.
const MOST: u64 = 64;

/// What a kernel would take.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    ctas: u64,
    /// Segments of a sequence.
    pub(super) segments: u32,
    cycles: u64,
}

impl frame::Estimate for Estimate {
    fn cycles(&self) -> Option<u64> {
        Some(self.cycles)
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { ctas, segments, cycles } = self;
        write!(f, "{ctas} CTAs")?;
        if *segments > 1 {
            write!(f, ", {segments} segments")?;
        }
        write!(f, ", about {cycles} cycles")
    }
}

impl Rated for ChunkKernel {
    type Estimate = Estimate;
    const KERNELS: &'static KernelSet = &KERNELS;

    fn size(&self) -> [u32; 3] {
        [self.columns[0], self.columns[1], 0]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChunkKernel { columns: [dv, d], stages, .. } = self;
        write!(
            f,
            "chunks of {CHUNK} rows, {dv} columns of V, head dimensions of K up to {d}, {stages} stages"
        )
    }
}

impl Choice for Problem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        TABLE.kernels(&(self.o.dtype.name(), self.way))
    }
    fn what(&self) -> String {
        let what = match self.way {
            Way::Heads => "decays of heads",
            Way::Channels => "gates of channels",
            Way::Delta => "the delta rule",
            Way::ChannelsDelta => "the delta rule with gates of channels",
        };
        format!("{} and {what}", self.o.dtype.name())
    }

    fn rate(&self, kernel: &Compiled) -> Result<Estimate, Rejection> {
        let [_, most] = kernel.columns;
        if self.size.columns[0] > most as usize {
            return Err(Rejection::AtMost { what: "a head dimension of Q and K", most });
        }
        let copied = match self.way {
            // By what prepares chunks, in any strides: V too, where it is not copied as it lies.
            Way::Channels | Way::ChannelsDelta => &self.operands[..0],
            _ if kernel.any_strides => &self.operands[..0],
            Way::Heads => &self.operands[..],
            // V by what solves triangles.
            Way::Delta => &self.operands[..2],
        };
        if self.o.layout.len() > 0 {
            copied.iter().try_for_each(|operand| operand.check(Copies::of(kernel.arch)))?;
        }
        let prepare = match self.way {
            Way::Heads => 0,
            Way::Delta => self.cycles_of_solving(kernel)?,
            Way::Channels | Way::ChannelsDelta => self.cycles_of_preparation(kernel)?,
        };
        let scan = self.estimate(kernel);
        Ok(Estimate { cycles: scan.cycles.saturating_add(prepare), ..scan })
    }
}

impl Problem {
    /// The division into segments that is done first: the one that is asked for, or the smallest of those that are about as fast.
    fn estimate(&self, kernel: &Compiled) -> Estimate {
        let chunks = self.chunks() as u64;
        let time = |segments: u64| self.in_segments(kernel, chunks.max(1), segments);
        if let Some(segments) = self.segments {
            return time(segments.into());
        }
        let doubled = (1..).map(|log2| 1 << log2).take_while(|&n: &u64| n <= MOST.min(chunks / 2));
        let best = |best: Estimate, next: Estimate| {
            if next.cycles * 10 < best.cycles * 9 { next } else { best }
        };
        doubled.map(time).fold(time(1), best)
    }

    /// What prepares chunks: an SM of an H200 takes so many cycles of one with 128 columns, with those beside it.
    fn cycles_of_preparation(&self, kernel: &Compiled) -> Result<u64, Rejection> {
        let prepare = self.prepare_kernel(kernel).ok_or(Rejection::Because("nothing prepares its chunks"))?;
        let each = if prepare.delta { 20_000 } else { 8500 };
        self.cycles_before(kernel, KERNELS.shared_bytes(prepare), each)
    }

    /// The same of what solves triangles.
    fn cycles_of_solving(&self, kernel: &Compiled) -> Result<u64, Rejection> {
        let solve = self.solve_kernel(kernel).ok_or(Rejection::Because("nothing solves its chunks"))?;
        self.cycles_before(kernel, KERNELS.shared_bytes(solve), 8500)
    }

    /// Cycles of a kernel that takes `each` of a chunk of 128 columns.
    fn cycles_before(&self, kernel: &Compiled, needs: u32, each: u64) -> Result<u64, Rejection> {
        let has = self.device.shared_memory_per_cta();
        if needs > has {
            return Err(Rejection::SharedMemory { needs, has });
        }
        let Size { sequences, heads, .. } = self.size;
        let all = (sequences as u64).saturating_mul(heads as u64).saturating_mul(self.chunks() as u64);
        let each = each * u64::from(kernel.columns[1]) / 128;
        let waves = all.div_ceil(u64::from(self.device.sm_count()).max(1));
        Ok(waves.saturating_mul(each) + Cycles::of_launch(kernel.arch))
    }

    /// Chunks follow each other in a CTA. Each takes its products or, where few warpgroups share an SM, as long as results wait for each
    /// other, or until its share of the memory's bandwidth brings it. `mma.sync` is taken to have a quarter of the rate, loads by elements
    /// a sixteenth.
    fn in_segments(&self, kernel: &Compiled, chunks: u64, segments: u64) -> Estimate {
        let Size { sequences, heads, columns, .. } = self.size;
        let [dv, d] = kernel.columns.map(u64::from);
        let sms = u64::from(self.device.sm_count()).max(1);
        let heads = (sequences as u64).saturating_mul(heads as u64);
        let blocks = (columns[1] as u64).div_ceil(dv);
        let resident = u64::from(kernel.min_ctas).max(1);
        let slowness = match (kernel.arch, kernel.any_strides) {
            (Arch::Sm90a, _) => 1,
            (_, false) => 4,
            (_, true) => 16,
        };
        // Of a column of V: what a state is multiplied by and what is added to it; and blocks beside those of V that a pass over
        // states has.
        let (c, delta) = (CHUNK as u64, u64::from(self.way.corrects()));
        let (seen, turned) = ((1 + delta) * c * d, delta * d.div_ceil(dv));
        let walk = |blocks: u64, macs: u64, bytes: u64| {
            let ctas = heads.saturating_mul(blocks * segments);
            // Of CTAs that share an SM, one's products run while the other waits, and so of warpgroups.
            let sharing = ctas.div_ceil(sms).clamp(1, resident);
            let (products, memory) = (macs * slowness / PRODUCTS, bytes / BANDWIDTH);
            let alone = products / dv.div_ceil(64) + WAITS;
            let each = (products * sharing).max(memory * sharing).max(alone);
            ctas.div_ceil(sms * resident)
                .max(1)
                .saturating_mul(chunks.div_ceil(segments))
                .saturating_mul(each)
        };
        let outputs =
            walk(blocks, dv * (seen + c * d + c * c) + c * c * d, 2 * c * ((2 + delta) * d + 2 * dv));
        let states =
            walk(blocks + turned, dv * (delta * c * d + c * d), 2 * c * ((1 + delta) * d + dv)) / 4 * 3;
        // States are written, read, written and read again; by the delta rule each is a product of its own.
        let ctas = heads.saturating_mul(blocks * segments);
        let passing = ctas.saturating_mul(d * dv * 16) / (sms * BANDWIDTH);
        let passing = passing.saturating_add((300 + delta * 12 * d) * segments);
        let launch = Cycles::of_launch(kernel.arch);
        let more = if segments > 1 { states.saturating_add(passing) + 2 * launch } else { 0 };
        Estimate { ctas, segments: segments as u32, cycles: outputs.saturating_add(more) + launch }
    }
}
