//! The compiled kernels of a scan, and which one is chosen.

use std::fmt;
use std::sync::LazyLock;

use tilewright_device::kernel::Listed;
use tilewright_ssd::{SCAN, STATE, ScanKernel};

use super::problem::Problem;
use crate::ops::frame::{Choice, Copies, Cycles, Rated, Rejection, Table};
use crate::{Arch, Device, KernelSet};

/// One compiled kernel.
pub type Compiled = Listed<ScanKernel>;

impl Rated for ScanKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &tilewright_ssd::KERNELS;

    fn size(&self) -> [u32; 3] {
        [self.columns, self.stages, 1]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blocks of 64 tokens, {} columns of B and C, {} stages", self.columns, self.stages)
    }
}

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(SCAN.iter().map(|k| (k.element, *k))));

/// The kernels of an element type.
pub(super) fn kernels(element: &'static str) -> &'static [Compiled] {
    TABLE.kernels(&element)
}

/// The kernel of chunks' states that reads as a kernel of the scan does.
pub(super) fn state_kernel(scan: &Compiled) -> Option<&'static Compiled> {
    let alike = |k: &Compiled| (k.arch, k.element, k.columns, k.any_strides);
    STATE.iter().find(|k| alike(k) == alike(scan))
}

/// How a scan is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Blocks of a chunk.
    pub(super) blocks: usize,
    /// Chunks of the longest sequence.
    pub(super) chunks: usize,
    pub(super) cycles: u64,
}

impl Problem {
    /// The chunks for a kernel: as asked for, or those that take the least time by estimate.
    ///
    /// The constants are guesses, not measured. Of two CTAs on an SM of an H200 each takes 2000 cycles for a block with 128 columns of B: 900 of them products.
    /// A block of a chunk's state takes 800, and three more launches 9000. Without TMA and `wgmma` it is twice as long, element by
    /// element eight times.
    pub(super) fn shares(&self, kernel: &Compiled) -> Shares {
        let slowness = match (kernel.arch, kernel.any_strides) {
            (Arch::Sm90a, _) => 1,
            (Arch::Sm80, false) => 2,
            (Arch::Sm80, true) => 8,
        };
        let (scan, state) = (1000 + 8 * u64::from(kernel.columns), 500 + 2 * u64::from(kernel.columns));
        let slots = u64::from(self.device.sm_count() * kernel.min_ctas).max(1);
        let heads = self.extent.count.saturating_mul(self.size.heads * self.size.parts()) as u64;
        let all = self.extent.blocks().max(1);
        let shares = |blocks: usize| {
            let chunks = all.div_ceil(blocks).max(1);
            let turns = |chunks: usize, each: u64| {
                let turns = heads.saturating_mul(chunks as u64).div_ceil(slots);
                turns.saturating_mul(each * blocks as u64 * slowness)
            };
            let of_states = if chunks > 1 { turns(chunks - 1, state).saturating_add(9000) } else { 0 };
            Shares { blocks, chunks, cycles: turns(chunks, scan).saturating_add(of_states) }
        };
        if let Some(blocks) = self.blocks {
            return shares(blocks);
        }
        let halves = std::iter::successors(Some(all), |&blocks| (blocks > 4).then(|| blocks.div_ceil(2)));
        halves.map(shares).min_by_key(|shares| (shares.cycles, shares.chunks)).unwrap_or_else(|| shares(all))
    }
}

impl Choice for Problem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        self.kernels
    }
    fn what(&self) -> String {
        self.inputs[0].dtype.name().to_owned()
    }

    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        if self.size.n > kernel.columns as usize {
            return Err(Rejection::AtMost { what: "columns of B and C", most: kernel.columns });
        }
        for operand in self.operands.iter().filter(|_| !kernel.any_strides) {
            operand.check(Copies::of(kernel.arch))?;
        }
        Ok(Cycles(self.shares(kernel).cycles.saturating_add(Cycles::of_launch(kernel.arch))))
    }
}
