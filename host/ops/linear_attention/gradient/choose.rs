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
            Way::Channels => &[v, &self.d_o_operand][..],
            Way::Heads | Way::Delta => &[q, k, v, &self.d_o_operand][..],
        };
        if self.of.o.layout.len() > 0 && !kernel.any_strides {
            copied.iter().try_for_each(|operand| operand.check(Copies::of(kernel.arch)))?;
        }
        if self.of.way == Way::Channels {
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
        let wanted = (kernel.element, kernel.columns[1], true, false);
        PREPARE.iter().find(|k| (k.element, k.columns, k.channels, k.delta) == wanted)
    }

    /// Chunks' states follow each other in a CTA, twice; then all chunks are computed at a time. Loads by elements are taken to have a sixteenth of the
    /// rate.
    fn estimate(&self, kernel: &Compiled) -> Cycles {
        let Size { sequences, heads, columns, .. } = self.of.size;
        let [dv, d] = kernel.columns.map(u64::from);
        let [width, columns] = columns.map(|columns| columns as u64);
        let chunks = self.of.chunks() as u64;
        let sms = u64::from(self.of.device.sm_count()).max(1);
        let all = (sequences as u64).saturating_mul(heads as u64);
        let ctas = all.saturating_mul(columns.div_ceil(dv));
        let slowness = if kernel.any_strides { 16 } else { 1 };
        let sharing = ctas.div_ceil(sms).max(1);
        let rows = CHUNK as u64;
        let (products, bytes) = (rows * d * dv / PRODUCTS, 2 * (rows * (d + dv) + d * dv) / BANDWIDTH);
        let each = (products * slowness).max(bytes).saturating_mul(sharing).max(WAITS * slowness);
        let states = chunks.saturating_mul(each).saturating_mul(2);
        let blocks = width.div_ceil(rows) + 1;
        let gradients = all.saturating_mul(chunks).saturating_mul(blocks * GRADIENTS) / sms;
        let launches = 3 * Cycles::of_launch(kernel.arch);
        Cycles(states.saturating_add(gradients).saturating_add(launches))
    }
}
