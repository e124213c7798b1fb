//! Which kernel computes the states of a gradient.

use std::fmt;
use std::sync::LazyLock;

use tilewright_device::kernel::Listed;
use tilewright_linear_attention::{
    CHUNK, CHUNK_STATES, ChunkStatesKernel, KERNELS, PREPARE, PrepareKernel, Way,
};

use super::problem::GradientProblem;
use crate::ops::frame::{Choice, Copies, Cycles, Rated, Rejection, Table};
use crate::ops::linear_attention::problem::Size;
use crate::{Device, KernelSet};

/// One compiled kernel.
pub type Compiled = Listed<ChunkStatesKernel>;

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(CHUNK_STATES.iter().map(|k| (k.element, *k))));

/// Products of `mma.sync` a cycle of an SM, bytes a cycle of its share of the memory, and what a chunk waits for its own results: of an H200.
const PRODUCTS: u64 = 512;
const BANDWIDTH: u64 = 37;
const WAITS: u64 = 1800;
/// The most segments that are looked at.
const MOST: u64 = 64;
/// Cycles in which an SM computes a chunk's gradients by 64 columns.
const GRADIENTS: u64 = 6000;

impl Rated for ChunkStatesKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &KERNELS;

    fn size(&self) -> [u32; 3] {
        [self.columns[0], self.columns[1], 0]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChunkStatesKernel { columns: [dv, d], stages, .. } = self;
        write!(
            f,
            "chunks of {CHUNK} rows, {dv} columns of V, head dimensions of K up to {d}, {stages} stages"
        )
    }
}

impl Choice for GradientProblem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.of.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        TABLE.kernels(&self.of.o.dtype.name())
    }
    fn what(&self) -> String {
        format!("gradients of {}", self.of.o.dtype.name())
    }

    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let [_, most] = kernel.columns;
        if self.of.size.columns[0] > most as usize {
            return Err(Rejection::AtMost { what: "a head dimension of Q and K", most });
        }
        let [q, k, v] = &self.of.operands;
        let copied = match self.of.way {
            // Q and K are read by what prepares chunks, in any strides.
            Way::Channels | Way::ChannelsDelta => &[v, &self.d_o_operand][..],
            Way::Heads | Way::Delta => &[q, k, v, &self.d_o_operand][..],
        };
        if self.of.o.layout.len() > 0 && !kernel.any_strides {
            copied.iter().try_for_each(|operand| operand.check(Copies::of(kernel.arch)))?;
        }
        if self.of.way.by_channels() {
            let prepare =
                self.prepare_kernel(kernel).ok_or(Rejection::Because("nothing prepares its chunks"))?;
            let (needs, has) = (KERNELS.shared_bytes(prepare), self.of.device.shared_memory_per_cta());
            if needs > has {
                return Err(Rejection::SharedMemory { needs, has });
            }
        }
        Ok(self.estimate(kernel))
    }
}

impl GradientProblem {
    /// The kernel that prepares chunks for this one.
    pub(super) fn prepare_kernel(&self, kernel: &Compiled) -> Option<&'static Listed<PrepareKernel>> {
        let wanted = (kernel.element, kernel.columns[1], false);
        PREPARE.iter().find(|k| (k.element, k.columns, k.delta) == wanted)
    }

    /// Segments of a sequence: as many as are asked for, or the least of those that are about as fast.
    pub(super) fn segments(&self, kernel: &Compiled) -> u32 {
        let chunks = self.of.chunks() as u64;
        let doubled = (1..).map(|log2| 1 << log2).take_while(|&n: &u64| n <= MOST.min(chunks / 2));
        let best = |best: u64, next: u64| {
            if self.cycles_of_walk(kernel, next) * 10 < self.cycles_of_walk(kernel, best) * 9 {
                next
            } else {
                best
            }
        };
        self.of.segments.unwrap_or_else(|| doubled.fold(1, best) as u32)
    }

    /// What a walk over the chunks takes: those of a segment follow each other. Of several each is walked over twice, and its state is written, read, written and
    /// read again. Loads by elements are taken to have a sixteenth of the rate.
    fn cycles_of_walk(&self, kernel: &Compiled, segments: u64) -> u64 {
        let Size { sequences, heads, columns: [_, columns], .. } = self.of.size;
        let [dv, d] = kernel.columns.map(u64::from);
        let sms = u64::from(self.of.device.sm_count()).max(1);
        let ctas = ((sequences as u64).saturating_mul(heads as u64))
            .saturating_mul((columns as u64).div_ceil(dv) * segments);
        let slowness = if kernel.any_strides { 16 } else { 1 };
        let sharing = ctas.div_ceil(sms).max(1);
        let rows = CHUNK as u64;
        let (products, bytes) = (rows * d * dv / PRODUCTS, 2 * (rows * (d + dv) + d * dv) / BANDWIDTH);
        let each = (products * slowness).max(bytes).saturating_mul(sharing).max(WAITS * slowness);
        let chunks = (self.of.chunks() as u64).div_ceil(segments).saturating_mul(each);
        let passing = ctas.saturating_mul(d * dv * 16) / (sms * BANDWIDTH) + 300 * segments;
        match segments {
            1 => chunks,
            _ => chunks.saturating_mul(7) / 4 + passing + 2 * Cycles::of_launch(kernel.arch),
        }
    }

    /// Two walks; then all chunks are computed at a time.
    fn estimate(&self, kernel: &Compiled) -> Cycles {
        let Size { sequences, heads, columns: [width, _], .. } = self.of.size;
        let sms = u64::from(self.of.device.sm_count()).max(1);
        let all = (sequences as u64).saturating_mul(heads as u64);
        let states = self.cycles_of_walk(kernel, self.segments(kernel).into()).saturating_mul(2);
        let blocks = width.div_ceil(CHUNK) as u64 + 1;
        let gradients = all.saturating_mul(self.of.chunks() as u64).saturating_mul(blocks * GRADIENTS) / sms;
        let launches = 3 * Cycles::of_launch(kernel.arch);
        Cycles(states.saturating_add(gradients).saturating_add(launches))
    }
}
