//! Which kernels compute gradients, and how blocks and heads are shared out.

use std::fmt;
use std::sync::LazyLock;

use tilewright_device::kernel::Listed;
use tilewright_ssd::{BLOCK_GRADIENT, BLOCK_STATES, BlockKernel};

use super::problem::Problem;
use crate::ops::frame::{Choice, Copies, Cycles, Rated, Rejection, Table};
use crate::{Arch, Device, KernelSet};

/// One compiled kernel.
pub type Compiled = Listed<BlockKernel>;

impl Rated for BlockKernel {
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
    LazyLock::new(|| Table::new(BLOCK_GRADIENT.iter().filter(|k| k.keys).map(|k| (k.element, *k))));

/// The kernels of an element type.
pub(super) fn kernels(element: &'static str) -> &'static [Compiled] {
    TABLE.kernels(&element)
}

/// What reads as a kernel does: the gradient by C, and states.
pub(super) fn alike(kernel: &Compiled) -> [Option<&'static Compiled>; 2] {
    let like = |k: &&Compiled| {
        (k.arch, k.element, k.columns, k.any_strides)
            == (kernel.arch, kernel.element, kernel.columns, kernel.any_strides)
    };
    [BLOCK_GRADIENT.iter().find(|k| !k.keys && like(k)), BLOCK_STATES.iter().find(like)]
}

/// How the work is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Blocks of a chunk of states.
    pub(super) blocks: usize,
    /// Chunks of the longest sequence.
    pub(super) chunks: usize,
    /// CTAs that the heads of a group are divided among, for each block.
    pub(super) splits: usize,
}

impl Problem {
    /// Tiles of columns of a group's heads.
    pub(super) fn items(&self) -> usize {
        self.size.heads / self.size.groups.max(1) * self.size.parts()
    }

    /// The shares for a kernel: chunks as asked for, or as many as it takes to fill the device, if they are three or more, since each is walked over twice; splits so that there are
    /// four CTAs for each that runs at a time.
    pub(super) fn shares(&self, kernel: &Compiled) -> Shares {
        let slots = ((self.device.sm_count() * kernel.min_ctas) as usize).max(1);
        let all = self.extent.blocks().max(1);
        let walks = self.extent.count.saturating_mul(self.size.heads * self.size.parts()).max(1);
        let chunks = if slots.div_ceil(walks) < 3 { 1 } else { slots.div_ceil(walks) };
        let blocks = self.blocks.unwrap_or_else(|| all.div_ceil(chunks).max(4)).min(all);
        let ctas = self.extent.count.saturating_mul(self.size.groups).saturating_mul(all).max(1);
        let splits = (4 * slots).div_ceil(ctas).clamp(1, self.items().max(1));
        Shares { blocks, chunks: all.div_ceil(blocks), splits }
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

    /// The constants are guesses, not measured: of two CTAs on an SM of an H200 each takes 6000 cycles for a block of a head with 128 columns of B, on both sides, and for its states.
    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        if self.size.n > kernel.columns as usize {
            return Err(Rejection::AtMost { what: "columns of B and C", most: kernel.columns });
        }
        for operand in self.operands.iter().filter(|_| !kernel.any_strides) {
            operand.check(Copies::of(kernel.arch))?;
        }
        let slowness = match (kernel.arch, kernel.any_strides) {
            (Arch::Sm90a, _) => 1,
            (Arch::Sm80, false) => 2,
            (Arch::Sm80, true) => 8,
        };
        let slots = u64::from(self.device.sm_count() * kernel.min_ctas).max(1);
        let heads = self.extent.count.saturating_mul(self.size.heads * self.size.parts());
        let turns = (heads.saturating_mul(self.extent.blocks().max(1)) as u64).div_ceil(slots);
        let cycles = turns.saturating_mul((2000 + 32 * u64::from(kernel.columns)) * slowness);
        Ok(Cycles(cycles.saturating_add(8 * Cycles::of_launch(kernel.arch))))
    }
}
