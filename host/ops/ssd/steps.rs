//! The steps of time that the kernels of a scan and of its gradients read.

use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;
use tilewright_ssd::{ChunkStepsArgs, KERNELS, STEPS, STEPS_COLUMNS};

use super::problem::{BLOCK, Size};
use super::sequences::{Extent, argument, at, column, ctas};
use super::time::Told;
use crate::tensor::{Layout, Untyped};
use crate::{AnyFunction, Arch, Device, Error, Launch, Result, Stream};

/// Lines of a block's steps, of 32 values each.
const STEP_LINES: usize = STEPS_COLUMNS as usize / 32;

/// The steps of a call, in its workspace.
pub(super) struct Steps<'a> {
    pub(super) device: &'a Device,
    pub(super) size: &'a Size,
    pub(super) extent: &'a Extent,
    pub(super) dt: Untyped,
    pub(super) decay: Untyped,
    pub(super) time: &'a Told,
    /// Their address.
    pub(super) address: u64,
}

impl Extent {
    /// Blocks of the longest sequence.
    pub(super) fn blocks(&self) -> usize {
        self.longest.div_ceil(BLOCK)
    }

    /// Blocks of which memory has steps, of each matrix: packed sequences begin theirs anew.
    pub(super) fn blocks_of_steps(&self) -> usize {
        if self.told.offsets == 0 { self.blocks() } else { self.told.rows as usize / BLOCK + self.count }
    }
}

impl Steps<'_> {
    /// Elements that they take.
    pub(super) fn len(size: &Size, extent: &Extent) -> Result<usize> {
        let shape = [size.matrices, size.heads, extent.blocks_of_steps(), STEPS_COLUMNS as usize];
        Ok(Layout::contiguous(&shape)?.len())
    }

    /// As kernels of an architecture read them.
    pub(super) fn tiles(&self, arch: Arch) -> Result<GlobalAbi<(), 4>> {
        let lines = self.extent.blocks_of_steps() * STEP_LINES;
        let steps = at(self.address, &[self.size.matrices, self.size.heads, lines, 32])?;
        let boxes = if arch == Arch::Sm90a { STEP_LINES as u32 } else { 0 };
        steps.streamed(self.device.backend(), boxes)
    }
}

/// The kernel that computes them, loaded.
#[derive(Clone, Debug)]
pub(super) struct StepsKernel {
    function: AnyFunction,
    /// Heads that a CTA takes.
    heads: usize,
}

impl StepsKernel {
    /// For steps of this type, in front of `kernel`.
    pub(super) fn new<D>(device: &Device, dt: &Untyped, kernel: &'static Listed<D>) -> Result<Self> {
        let own = find(STEPS.iter().find(|k| k.element == dt.dtype.name()), kernel)?;
        Ok(StepsKernel { function: device.listed(&KERNELS, own)?, heads: own.heads as usize })
    }

    /// Launches it.
    pub(super) fn launch(&self, stream: &Stream, of: &Steps<'_>) -> Result<()> {
        let Steps { device, size, extent, .. } = *of;
        let blocks = extent.blocks_of_steps();
        // A block's heads are rows here: each is a line of all its values.
        let columns = STEPS_COLUMNS as usize;
        let strides = [size.heads * blocks * columns, columns, blocks * columns, 1];
        let layout = Layout::strided(&[size.matrices, blocks, size.heads, columns], &strides)?;
        let steps = Untyped { layout, ..at(of.address, &[1])? };
        let [bias, _] = of.time.columns(device)?;
        let args = ChunkStepsArgs {
            dt: argument::<3>(device, of.dt)?,
            decay: column(device, Some(of.decay))?,
            bias,
            steps: argument::<4>(device, steps)?,
            sequences: extent.told,
            softplus_first: u32::from(of.time.softplus),
            least: of.time.limits[0],
            most: of.time.limits[1],
        };
        let grid = [
            ctas(extent.blocks(), "blocks of 64 tokens")?,
            ctas(size.heads.div_ceil(self.heads), "tiles of heads")?,
            ctas(extent.count, "sequences")?,
        ];
        // SAFETY: the arguments are those of `chunk_steps`; the workspace has room for the steps of all blocks that offsets can name, and the views
        // that the tensors come from are borrowed by the caller.
        unsafe { self.function.launch_block(stream, &Launch::grid(grid), &args) }
    }
}

/// A kernel that goes with one that was chosen.
pub(super) fn find<D, E>(
    kernel: Option<&'static Listed<D>>,
    chosen: &'static Listed<E>,
) -> Result<&'static Listed<D>> {
    kernel.ok_or_else(|| Error::KernelMissing {
        kernel: chosen.name,
        arch: chosen.arch,
        reason: "the set lacks a kernel that goes with it".to_owned(),
    })
}
