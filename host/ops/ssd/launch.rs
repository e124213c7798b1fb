//! The launches of a scan: steps of time, chunks' states, their passing on, results.

use tilewright_device::abi::GlobalAbi;
use tilewright_ssd::{ChunkScanArgs, ChunkStateArgs, Chunks, KERNELS, PASSING, StatePassingArgs};

use super::problem::{BLOCK, Problem};
use super::sequences::{argument, at, ctas, optional};
use super::steps::{Steps, find};
use super::table::{Compiled, Shares, state_kernel};
use super::time::Time;
use crate::ops::frame::expect_mapped;
use crate::tensor::{Layout, Untyped};
use crate::{Arch, Error, Launch, Result, Stream};

/// Where the parts of the workspace lie: elements before each, and all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    states: usize,
    decays: usize,
    pub(super) all: usize,
}

impl Room {
    pub(super) fn new(problem: &Problem, shares: &Shares) -> Result<Self> {
        let size = &problem.size;
        let len = |shape: &[usize]| Ok::<_, Error>(Layout::contiguous(shape)?.len());
        let steps = Steps::len(size, &problem.extent)?;
        if shares.chunks == 1 {
            return Ok(Room { states: steps, decays: steps, all: steps });
        }
        let chunks = len(&[problem.extent.count, shares.chunks, size.heads])?;
        // Each part begins at a multiple of 16 bytes.
        let decays = steps + len(&[chunks, size.p, size.n])?.next_multiple_of(4);
        Ok(Room { states: steps, decays, all: decays + chunks })
    }
}

/// A call that is about to be launched.
pub(super) struct Run<'a> {
    pub(super) problem: &'a Problem,
    pub(super) time: &'a Time<'a>,
    pub(super) kernel: &'static Compiled,
    pub(super) shares: Shares,
    pub(super) room: Room,
    /// Address of the workspace.
    pub(super) workspace: u64,
    pub(super) overlap: bool,
    pub(super) stream: &'a Stream,
}

impl Run<'_> {
    /// Launches all.
    pub(super) fn all(&self) -> Result<()> {
        if self.problem.extent.blocks() > 0 {
            self.steps().launch(self.stream, self.kernel)?;
        }
        if self.shares.chunks > 1 {
            self.states()?;
            self.passing()?;
        }
        self.scan()
    }

    /// Elements of the workspace from `first` on.
    fn part(&self, first: usize, shape: &[usize]) -> Result<Untyped> {
        at(self.workspace + 4 * first as u64, shape)
    }
    /// States of chunks: \[sequences, chunks, heads, P, N\].
    fn chunk_states(&self) -> Result<GlobalAbi<(), 5>> {
        let Problem { device, size, extent, .. } = self.problem;
        let states = [extent.count, self.shares.chunks, size.heads, size.p, size.n];
        argument(device, self.part(self.room.states, &states)?)
    }
    fn decays(&self) -> Result<GlobalAbi<(), 3>> {
        let Problem { device, size, extent, .. } = self.problem;
        argument(device, self.part(self.room.decays, &[extent.count, self.shares.chunks, size.heads])?)
    }
    fn chunks(&self) -> Result<Chunks> {
        let size = &self.problem.size;
        Ok(Chunks {
            parts: ctas(size.parts(), "tiles of columns")?,
            heads_per_group: ctas(size.heads / size.groups.max(1), "heads of a group")?,
            blocks: u32::try_from(self.shares.blocks).unwrap_or(u32::MAX),
        })
    }
    /// A grid of (heads and their parts, chunks, sequences).
    fn grid(&self, chunks: usize) -> Result<Launch> {
        let Problem { size, extent, .. } = self.problem;
        let heads = ctas(size.heads.saturating_mul(size.parts()), "heads and tiles of their columns")?;
        let grid = [heads, ctas(chunks, "chunks")?, ctas(extent.count, "sequences")?];
        Ok(Launch::grid(grid).pdl(self.overlap && self.kernel.arch == Arch::Sm90a))
    }
    /// An input as the scan's kernels read it.
    fn input(&self, of: &Untyped) -> Result<GlobalAbi<(), 4>> {
        let lines = if self.kernel.arch == Arch::Sm90a { BLOCK as u32 } else { 0 };
        of.streamed(self.problem.device.backend(), lines)
    }
    fn expect_mapped(&self, maps: impl IntoIterator<Item = u32>) -> Result<()> {
        if self.problem.size.rows == 0 {
            return Ok(());
        }
        expect_mapped(self.kernel.name, self.kernel.arch, maps)
    }

    fn steps(&self) -> Steps<'_> {
        let Problem { device, size, extent, dt, decay, .. } = self.problem;
        Steps { device, size, extent, dt: *dt, decay: *decay, time: self.time, address: self.workspace }
    }

    fn states(&self) -> Result<()> {
        let Problem { device, inputs: [x, b, _], extent, .. } = self.problem;
        let kernel = find(state_kernel(self.kernel), self.kernel)?;
        let (x, b, steps) = (self.input(x)?, self.input(b)?, self.steps().tiles(self.kernel.arch)?);
        self.expect_mapped([x.tma, b.tma, steps.tma])?;
        let args = ChunkStateArgs {
            x,
            b,
            steps,
            states: self.chunk_states()?,
            decays: self.decays()?,
            sequences: extent.told,
            chunks: self.chunks()?,
        };
        let function = device.listed(&KERNELS, kernel)?;
        // SAFETY: the arguments are those of `chunk_state`; the workspace has room for the states of all chunks. See `scan`.
        unsafe { function.launch_block(self.stream, &self.grid(self.shares.chunks - 1)?, &args) }
    }

    fn passing(&self) -> Result<()> {
        let Problem { device, size, extent, initial, .. } = self.problem;
        let kernel = find(PASSING.iter().next(), self.kernel)?;
        let [rows, cols] = kernel.tile.map(|tile| tile as usize);
        let args = StatePassingArgs {
            initial: optional::<4>(device, *initial)?,
            states: self.chunk_states()?,
            decays: self.decays()?,
            sequences: extent.told,
            chunks: self.chunks()?,
        };
        let grid = [
            ctas(size.p.div_ceil(rows).saturating_mul(size.n.div_ceil(cols)), "tiles of a state")?,
            ctas(size.heads, "heads")?,
            ctas(extent.count, "sequences")?,
        ];
        let function = device.listed(&KERNELS, kernel)?;
        // SAFETY: the arguments are those of `state_passing`. See `scan`.
        unsafe { function.launch_block(self.stream, &Launch::grid(grid), &args) }
    }

    fn scan(&self) -> Result<()> {
        let Problem { device, inputs: [x, b, c], extent, z, y, initial, last, .. } = self.problem;
        let (x, b, c, steps) =
            (self.input(x)?, self.input(b)?, self.input(c)?, self.steps().tiles(self.kernel.arch)?);
        self.expect_mapped([x.tma, b.tma, c.tma, steps.tma])?;
        let [_, skip] = self.time.columns(device)?;
        let states = if self.shares.chunks > 1 { self.chunk_states()? } else { optional::<5>(device, None)? };
        let args = ChunkScanArgs {
            x,
            b,
            c,
            steps,
            z: optional::<4>(device, *z)?,
            skip,
            initial: optional::<4>(device, *initial)?,
            states,
            y: self.input(y)?,
            last: optional::<4>(device, *last)?,
            sequences: extent.told,
            chunks: self.chunks()?,
        };
        let function = device.listed(&KERNELS, self.kernel)?;
        // SAFETY: the arguments are those of `chunk_scan`. The views that the tensors come from are borrowed by the caller, those that are written
        // exclusively, and reach no further than their shapes, which the kernel keeps to; there is an offset more than there are
        // sequences. Programmatic launch only moves what precedes the wait for the preceding grid.
        unsafe { function.launch_block(self.stream, &self.grid(self.shares.chunks)?, &args) }
    }
}
