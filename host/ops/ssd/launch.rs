//! The launches of a scan: steps of time, chunks' states, their passing on, results.

use tilewright_device::abi::GlobalAbi;
use tilewright_ssd::{ChunkScanArgs, ChunkStateArgs, Chunks, KERNELS, PASSING, StatePassingArgs};

use super::problem::{BLOCK, Problem};
use super::sequences::{argument, at, ctas, optional};
use super::steps::{Steps, StepsKernel, find};
use super::table::{Compiled, Shares, state_kernel};
use crate::ops::frame::expect_mapped;
use crate::tensor::{Layout, Untyped};
use crate::{AnyFunction, Arch, Error, Launch, Result, Stream};

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

/// The kernels of a scan, loaded, and how it is shared out.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    kernel: &'static Compiled,
    /// The scan's.
    scan: AnyFunction,
    /// That of steps of time, if there are any.
    steps: Option<StepsKernel>,
    /// Those of chunks' states and of their passing on, if there are several.
    chunks: Option<[AnyFunction; 2]>,
    /// Rows and columns of a state that a CTA of the latter takes.
    passed: [usize; 2],
    shares: Shares,
    pub(super) room: Room,
    overlap: bool,
}

impl Ready {
    pub(super) fn new(problem: &Problem, kernel: &'static Compiled, overlap: bool) -> Result<Self> {
        let (device, shares) = (&problem.device, problem.shares(kernel));
        let passing = find(PASSING.iter().next(), kernel)?;
        let chunks = if shares.chunks > 1 {
            let states = device.listed(&KERNELS, find(state_kernel(kernel), kernel)?)?;
            Some([states, device.listed(&KERNELS, passing)?])
        } else {
            None
        };
        let any = problem.extent.blocks() > 0;
        Ok(Ready {
            kernel,
            scan: device.listed(&KERNELS, kernel)?,
            steps: any.then(|| StepsKernel::new(device, &problem.dt, kernel)).transpose()?,
            chunks,
            passed: passing.tile.map(|tile| tile as usize),
            shares,
            room: Room::new(problem, &shares)?,
            overlap,
        })
    }
}

/// A call that is about to be launched.
pub(super) struct Run<'a> {
    pub(super) problem: &'a Problem,
    pub(super) ready: &'a Ready,
    /// Address of the workspace.
    pub(super) workspace: u64,
    pub(super) stream: &'a Stream,
}

impl Run<'_> {
    /// Launches all.
    pub(super) fn all(&self) -> Result<()> {
        if let Some(kernel) = &self.ready.steps {
            kernel.launch(self.stream, &self.steps())?;
        }
        if let Some([states, passing]) = &self.ready.chunks {
            self.states(states)?;
            self.passing(passing)?;
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
        let states = [extent.count, self.ready.shares.chunks, size.heads, size.p, size.n];
        argument(device, self.part(self.ready.room.states, &states)?)
    }
    fn decays(&self) -> Result<GlobalAbi<(), 3>> {
        let Problem { device, size, extent, .. } = self.problem;
        argument(
            device,
            self.part(self.ready.room.decays, &[extent.count, self.ready.shares.chunks, size.heads])?,
        )
    }
    fn chunks(&self) -> Result<Chunks> {
        let size = &self.problem.size;
        Ok(Chunks {
            parts: ctas(size.parts(), "tiles of columns")?,
            heads_per_group: ctas(size.heads / size.groups.max(1), "heads of a group")?,
            blocks: u32::try_from(self.ready.shares.blocks).unwrap_or(u32::MAX),
        })
    }
    /// A grid of (heads and their parts, chunks, sequences).
    fn grid(&self, chunks: usize) -> Result<Launch> {
        let Problem { size, extent, .. } = self.problem;
        let heads = ctas(size.heads.saturating_mul(size.parts()), "heads and tiles of their columns")?;
        let grid = [heads, ctas(chunks, "chunks")?, ctas(extent.count, "sequences")?];
        Ok(Launch::grid(grid).pdl(self.ready.overlap && self.ready.kernel.arch == Arch::Sm90a))
    }
    /// An input as the scan's kernels read it.
    fn input(&self, of: &Untyped) -> Result<GlobalAbi<(), 4>> {
        let lines = if self.ready.kernel.arch == Arch::Sm90a { BLOCK as u32 } else { 0 };
        of.streamed(self.problem.device.backend(), lines)
    }
    fn expect_mapped(&self, maps: impl IntoIterator<Item = u32>) -> Result<()> {
        if self.problem.size.rows == 0 {
            return Ok(());
        }
        expect_mapped(self.ready.kernel.name, self.ready.kernel.arch, maps)
    }

    fn steps(&self) -> Steps<'_> {
        let Problem { device, size, extent, dt, decay, time, .. } = self.problem;
        Steps { device, size, extent, dt: *dt, decay: *decay, time, address: self.workspace }
    }

    fn states(&self, function: &AnyFunction) -> Result<()> {
        let Problem { inputs: [x, b, _], extent, .. } = self.problem;
        let (x, b, steps) = (self.input(x)?, self.input(b)?, self.steps().tiles(self.ready.kernel.arch)?);
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
        // SAFETY: the arguments are those of `chunk_state`; the workspace has room for the states of all chunks. See `scan`.
        unsafe { function.launch_block(self.stream, &self.grid(self.ready.shares.chunks - 1)?, &args) }
    }

    fn passing(&self, function: &AnyFunction) -> Result<()> {
        let Problem { device, size, extent, initial, .. } = self.problem;
        let [rows, cols] = self.ready.passed;
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
        // SAFETY: the arguments are those of `state_passing`. See `scan`.
        unsafe { function.launch_block(self.stream, &Launch::grid(grid), &args) }
    }

    fn scan(&self) -> Result<()> {
        let Problem { device, inputs: [x, b, c], extent, z, y, initial, last, .. } = self.problem;
        let (x, b, c, steps) =
            (self.input(x)?, self.input(b)?, self.input(c)?, self.steps().tiles(self.ready.kernel.arch)?);
        self.expect_mapped([x.tma, b.tma, c.tma, steps.tma])?;
        let [_, skip] = self.problem.time.columns(device)?;
        let states =
            if self.ready.shares.chunks > 1 { self.chunk_states()? } else { optional::<5>(device, None)? };
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
        // SAFETY: the arguments are those of `chunk_scan`. The views that the tensors come from are borrowed by the caller, those that are written
        // exclusively, and reach no further than their shapes, which the kernel keeps to; there is an offset more than there are
        // sequences. Programmatic launch only moves what precedes the wait for the preceding grid.
        unsafe { self.ready.scan.launch_block(self.stream, &self.grid(self.ready.shares.chunks)?, &args) }
    }
}
