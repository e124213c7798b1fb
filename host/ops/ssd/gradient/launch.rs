//! The launches of a scan's gradients: steps, states in both directions, blocks on both sides, sums.

use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;
use tilewright_ssd::{
    BlockGradientArgs, BlockStatesArgs, Chunks, GATE, GateGradientArgs, Items, KERNELS, LINE_SUMS,
    LineSumsArgs, PASSING, SPLIT_SUMS, STEPS_GRADIENT, SUMS, SplitSumsArgs, StatePassingArgs,
    StepsGradientArgs, TileKernel,
};

use super::choose::{Compiled, Shares, alike};
use super::problem::Problem;
use super::room::Room;
use crate::ops::frame::expect_mapped;
use crate::ops::ssd::problem::BLOCK;
use crate::ops::ssd::sequences::{argument, at, column, ctas, optional};
use crate::ops::ssd::steps::{Steps, StepsKernel, find};
use crate::tensor::{Layout, Untyped};
use crate::{Arch, DType, Launch, Result, Stream};

/// A call that is about to be launched.
pub(super) struct Run<'a> {
    pub(super) problem: &'a Problem,
    /// The kernel of the gradients by B and x.
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
        let (problem, any) = (self.problem, self.problem.extent.blocks() > 0);
        let [queries, keys] = problem.sides().map(|wanted| wanted && any);
        if any {
            StepsKernel::new(&problem.device, &problem.dt, self.kernel)?
                .launch(self.stream, &self.steps())?;
            self.gate()?;
        }
        if queries {
            self.walk(false)?;
        }
        if keys || problem.d_initial.is_some() {
            self.walk(true)?;
        }
        for (side, wanted) in [queries, keys].into_iter().enumerate() {
            if wanted {
                self.blocks(side == 1)?;
                // Of B and C, in this order: the sides are the other way around.
                self.splits(problem.d_bc[1 - side])?;
            }
        }
        if problem.of_time() {
            self.times()?;
        }
        Ok(())
    }

    fn part(&self, first: usize) -> u64 {
        self.workspace + 4 * first as u64
    }
    fn steps(&self) -> Steps<'_> {
        let Problem { device, size, extent, dt, decay, time, .. } = self.problem;
        Steps { device, size, extent, dt: *dt, decay: *decay, time, address: self.workspace }
    }
    fn element(&self) -> DType {
        self.problem.inputs[0].dtype
    }
    /// dy in front of the scan: that of a gated one multiplied by the gate.
    fn dy(&self) -> Result<Untyped> {
        let Problem { size, inputs: [_, _, _, dy], z, .. } = self.problem;
        if z.is_none() {
            return Ok(*dy);
        }
        let line = size.p.next_multiple_of(8);
        let strides = [size.heads * size.rows * line, size.rows * line, line, 1];
        let layout = Layout::strided(&[size.matrices, size.heads, size.rows, size.p], &strides)?;
        Ok(Untyped { address: self.part(self.room.gated), dtype: self.element(), layout })
    }
    /// The states of all blocks that one walk writes.
    fn states(&self, reverse: bool) -> Result<Untyped> {
        let (size, extent) = (&self.problem.size, &self.problem.extent);
        let first = if reverse { self.room.behind } else { self.room.before };
        let rows = extent.blocks_of_steps() * size.parts() * BLOCK;
        let states = at(self.part(first), &[size.matrices, size.heads, rows, self.kernel.columns as usize])?;
        Ok(Untyped { dtype: self.element(), ..states })
    }
    fn chunk_states(&self) -> Result<GlobalAbi<(), 5>> {
        let Problem { device, size, extent, .. } = self.problem;
        if self.shares.chunks == 1 {
            return optional(device, None);
        }
        let shape = [extent.count, self.shares.chunks, size.heads, size.p, size.n];
        argument(device, at(self.part(self.room.chunks), &shape)?)
    }
    fn decays(&self) -> Result<GlobalAbi<(), 3>> {
        let Problem { device, size, extent, .. } = self.problem;
        let shape = [extent.count, self.shares.chunks, size.heads];
        let decays = at(self.part(self.room.decays), &shape)?;
        optional(device, (self.shares.chunks > 1).then_some(decays))
    }
    /// Sums of tokens: \[matrices, tiles of columns · kinds · heads, tokens\].
    fn sums(&self) -> Result<Untyped> {
        let (size, extent) = (&self.problem.size, &self.problem.extent);
        let lines = size.parts() * SUMS as usize * size.heads;
        at(self.part(self.room.sums), &[size.matrices, lines, extent.blocks_of_steps() * BLOCK])
    }
    /// The same as columns.
    fn sum_columns(&self) -> Result<GlobalAbi<(), 4>> {
        let sums = self.sums()?;
        argument(&self.problem.device, Untyped { layout: sums.layout.insert(3)?, ..sums })
    }
    fn chunks(&self) -> Result<Chunks> {
        let size = &self.problem.size;
        Ok(Chunks {
            parts: ctas(size.parts(), "tiles of columns")?,
            heads_per_group: ctas(size.heads / size.groups.max(1), "heads of a group")?,
            blocks: u32::try_from(self.shares.blocks).unwrap_or(u32::MAX),
        })
    }
    fn items(&self) -> Result<Items> {
        let (size, Chunks { parts, heads_per_group, .. }) = (&self.problem.size, self.chunks()?);
        let splits = ctas(self.shares.splits, "parts of a group's heads")?;
        Ok(Items { heads: ctas(size.heads, "heads")?, heads_per_group, parts, splits })
    }
    /// A tensor that the kernels of blocks copy to or from shared memory.
    fn streamed(&self, of: &Untyped) -> Result<GlobalAbi<(), 4>> {
        let lines = if self.kernel.arch == Arch::Sm90a { BLOCK as u32 } else { 0 };
        of.streamed(self.problem.device.backend(), lines)
    }
    /// One that a call may lack.
    fn streamed_if(&self, of: Option<&Untyped>) -> Result<GlobalAbi<(), 4>> {
        of.map_or_else(|| optional(&self.problem.device, None), |of| self.streamed(of))
    }
    fn expect_mapped(&self, kernel: &Compiled, maps: impl IntoIterator<Item = u32>) -> Result<()> {
        if self.problem.size.rows == 0 {
            return Ok(());
        }
        expect_mapped(kernel.name, kernel.arch, maps)
    }
    /// A grid of (`first`, `what` of a sequence, sequences), of a kernel of blocks.
    fn grid(&self, first: usize, second: usize, what: &str) -> Result<Launch> {
        let count = ctas(self.problem.extent.count, "sequences")?;
        let grid = [ctas(first, "heads and tiles of their columns")?, ctas(second, what)?, count];
        Ok(Launch::grid(grid).pdl(self.overlap && self.kernel.arch == Arch::Sm90a))
    }

    /// dy silu(z), where there is a gate.
    fn gate(&self) -> Result<()> {
        let Problem { device, size, extent, inputs: [_, _, _, dy], z, d_z, .. } = self.problem;
        let Some(z) = z else { return Ok(()) };
        let kernel = find(GATE.iter().find(|k| k.element == self.element().name()), self.kernel)?;
        let args = GateGradientArgs {
            dy: argument::<4>(device, *dy)?,
            z: argument::<4>(device, *z)?,
            to: argument::<4>(device, self.dy()?)?,
            slopes: optional::<4>(device, *d_z)?,
            sequences: extent.told,
        };
        self.tiles(kernel, [size.heads, size.p], |launch| {
            // SAFETY: the arguments are those of `gate_gradient`; the workspace has room for its result. See `blocks`.
            unsafe { device.listed(&KERNELS, kernel)?.launch_block(self.stream, launch, &args) }
        })
    }

    /// Launches a kernel of tiles of sequences' rows, for each of some heads or groups.
    fn tiles(
        &self,
        kernel: &Listed<TileKernel>,
        [matrices, columns]: [usize; 2],
        launch: impl FnOnce(&Launch) -> Result<()>,
    ) -> Result<()> {
        let [rows, cols] = kernel.tile.map(|n| n as usize);
        let tiles = self.problem.extent.longest.div_ceil(rows).saturating_mul(columns.div_ceil(cols));
        let tiles = u32::try_from(tiles).unwrap_or(u32::MAX);
        let grid = [tiles, ctas(matrices, "heads")?, ctas(self.problem.extent.count, "sequences")?];
        launch(&Launch::grid(grid))
    }

    /// The states before blocks, or the gradients by those behind them.
    fn walk(&self, reverse: bool) -> Result<()> {
        let chunked = self.shares.chunks > 1;
        if chunked {
            self.block_states(reverse, true)?;
            self.passing(reverse)?;
        }
        self.block_states(reverse, false)
    }

    /// A walk over all chunks, or what each but the last adds to the state.
    fn block_states(&self, reverse: bool, totals: bool) -> Result<()> {
        let Problem { device, size, extent, inputs: [x, b, c, _], initial, d_last, d_initial, .. } =
            self.problem;
        let kernel = find(alike(self.kernel)[1], self.kernel)?;
        let (dy, [before, behind]) = (self.dy()?, [self.states(false)?, self.states(true)?]);
        let (x, b) = if reverse { (&dy, c) } else { (x, b) };
        let (x, b, steps) = (self.streamed(x)?, self.streamed(b)?, self.steps().tiles(self.kernel.arch)?);
        self.expect_mapped(kernel, [x.tma, b.tma, steps.tma])?;
        let (to, others) =
            if reverse { (&behind, self.problem.of_time().then_some(before)) } else { (&before, None) };
        let args = BlockStatesArgs {
            x,
            b,
            steps,
            initial: optional::<4>(device, if reverse { *d_last } else { *initial })?,
            states: self.chunk_states()?,
            decays: self.decays()?,
            before: self.streamed_if((!totals).then_some(to))?,
            last: optional::<4>(device, d_initial.filter(|_| reverse && !totals))?,
            others: optional::<4>(device, others.filter(|_| !totals))?,
            sums: self.sum_columns()?,
            sequences: extent.told,
            chunks: self.chunks()?,
            items: self.items()?,
            reverse: u32::from(reverse),
        };
        let chunks = self.shares.chunks - usize::from(totals);
        let launch = self.grid(size.heads.saturating_mul(size.parts()), chunks, "chunks")?;
        let function = device.listed(&KERNELS, kernel)?;
        // SAFETY: the arguments are those of `block_states`; the workspace has room for the states of all chunks and blocks. See `blocks`.
        unsafe { function.launch_block(self.stream, &launch, &args) }
    }

    fn passing(&self, reverse: bool) -> Result<()> {
        let Problem { device, size, extent, initial, d_last, .. } = self.problem;
        let kernel = find(PASSING.iter().next(), self.kernel)?;
        let [rows, cols] = kernel.tile.map(|tile| tile as usize);
        let args = StatePassingArgs {
            initial: optional::<4>(device, if reverse { *d_last } else { *initial })?,
            states: self.chunk_states()?,
            decays: self.decays()?,
            sequences: extent.told,
            chunks: self.chunks()?,
        };
        let tiles = size.p.div_ceil(rows).saturating_mul(size.n.div_ceil(cols));
        let grid =
            [ctas(tiles, "tiles of a state")?, ctas(size.heads, "heads")?, ctas(extent.count, "sequences")?];
        let function = device.listed(&KERNELS, kernel)?;
        // SAFETY: the arguments are those of `state_passing`. See `blocks`.
        unsafe { function.launch_block(self.stream, &Launch::grid(grid), &args) }
    }

    /// The gradients of all blocks, by B and x if `keys`, else by C and z.
    fn blocks(&self, keys: bool) -> Result<()> {
        let Problem { device, size, extent, inputs: [x, b, c, _], dx, d_z, d_bc, .. } = self.problem;
        let kernel = if keys { self.kernel } else { find(alike(self.kernel)[0], self.kernel)? };
        let scanned = self.dy()?;
        let ([own, other], [own_n, other_n]) =
            if keys { ([x, &scanned], [b, c]) } else { ([&scanned, x], [c, b]) };
        let [own, other, own_n, other_n] =
            [self.streamed(own)?, self.streamed(other)?, self.streamed(own_n)?, self.streamed(other_n)?];
        let (states, steps) = (self.streamed(&self.states(keys)?)?, self.steps().tiles(self.kernel.arch)?);
        let maps = [own.tma, other.tma, own_n.tma, other_n.tma, states.tma, steps.tma];
        self.expect_mapped(kernel, maps)?;
        let [_, skip] = self.problem.time.columns(device)?;
        let gradient = d_bc[usize::from(!keys)].map(|_| self.split_gradients()).transpose()?;
        let args = BlockGradientArgs {
            own,
            other,
            own_n,
            other_n,
            states,
            steps,
            skip,
            // The kernel of the gate has left them where the gradient by z is to be.
            slopes: optional::<4>(device, d_z.filter(|_| !keys))?,
            result: self.streamed_if(if keys { dx.as_ref() } else { d_z.as_ref() })?,
            gradient: optional::<5>(device, gradient)?,
            sums: self.sum_columns()?,
            columns: argument::<3>(device, self.sums()?)?,
            sequences: extent.told,
            items: self.items()?,
        };
        let groups = size.groups.saturating_mul(self.shares.splits);
        let launch = self.grid(groups, extent.blocks(), "blocks of 64 tokens")?;
        let function = device.listed(&KERNELS, kernel)?;
        // SAFETY: the arguments are those of `block_gradient`. The views that the tensors come from are borrowed by the caller, those that are written
        // exclusively, and reach no further than their shapes, which the kernel keeps to; the workspace has room for the sums of all
        // blocks that offsets can name, of which there is one more than there are sequences. Programmatic launch only moves what precedes the wait for the preceding grid.
        unsafe { function.launch_block(self.stream, &launch, &args) }
    }

    /// Parts of the gradient by B or C: \[splits, matrices, groups, rows, N\].
    fn split_gradients(&self) -> Result<Untyped> {
        let size = &self.problem.size;
        at(self.part(self.room.splits), &[self.shares.splits, size.matrices, size.groups, size.rows, size.n])
    }

    /// Adds up the parts of a gradient by B or C, if it is wanted.
    fn splits(&self, to: Option<Untyped>) -> Result<()> {
        let Problem { device, size, extent, .. } = self.problem;
        let Some(to) = to else { return Ok(()) };
        let kernel = find(SPLIT_SUMS.iter().find(|k| k.element == self.element().name()), self.kernel)?;
        let args = SplitSumsArgs {
            x: argument::<5>(device, self.split_gradients()?)?,
            y: argument::<4>(device, to)?,
            sequences: extent.told,
        };
        self.tiles(kernel, [size.groups, size.n], |launch| {
            // SAFETY: the arguments are those of `split_sums`. See `blocks`.
            unsafe { device.listed(&KERNELS, kernel)?.launch_block(self.stream, launch, &args) }
        })
    }

    /// The gradients by dt, A, D and the bias, of the sums of all blocks.
    fn times(&self) -> Result<()> {
        let Problem { device, size, extent, dt, decay, d_dt, d_heads, .. } = self.problem;
        let lines = at(self.part(self.room.lines), &[3, extent.count, extent.blocks(), size.heads])?;
        if extent.blocks() > 0 {
            let kernel = find(STEPS_GRADIENT.iter().find(|k| k.element == dt.dtype.name()), self.kernel)?;
            let tokens = extent.blocks_of_steps() * BLOCK;
            let sums = [size.matrices, size.parts(), SUMS as usize, size.heads, tokens];
            let [bias, _] = self.problem.time.columns(device)?;
            let args = StepsGradientArgs {
                dt: argument::<3>(device, *dt)?,
                decay: column(device, Some(*decay))?,
                bias,
                sums: argument::<5>(device, at(self.part(self.room.sums), &sums)?)?,
                d_dt: optional::<3>(device, *d_dt)?,
                lines: argument::<5>(device, Untyped { layout: lines.layout.insert(4)?, ..lines })?,
                sequences: extent.told,
                softplus_first: u32::from(self.problem.time.softplus),
                least: self.problem.time.limits[0],
                most: self.problem.time.limits[1],
            };
            let heads = size.heads.div_ceil(kernel.tile[1] as usize);
            let grid = [
                ctas(extent.blocks(), "blocks of 64 tokens")?,
                ctas(heads, "tiles of heads")?,
                ctas(extent.count, "sequences")?,
            ];
            let function = device.listed(&KERNELS, kernel)?;
            // SAFETY: the arguments are those of `steps_gradient`; the workspace has a line for each block of each sequence. See `blocks`.
            unsafe { function.launch_block(self.stream, &Launch::grid(grid), &args)? };
        }
        let count = extent.count * extent.blocks();
        for (kind, to) in d_heads.iter().enumerate() {
            let Some(to) = to else { continue };
            let from = self.part(self.room.lines + kind * count * size.heads);
            let (from, to) =
                (at(from, &[1, count, size.heads])?, Untyped { layout: to.layout.insert(0)?, ..*to });
            let kernel = find(LINE_SUMS.iter().find(|k| k.element == to.dtype.name()), self.kernel)?;
            let args = LineSumsArgs { x: argument::<3>(device, from)?, y: argument::<2>(device, to)? };
            let grid = [ctas(size.heads.div_ceil(kernel.tile[1] as usize), "tiles of heads")?, 1, 1];
            let function = device.listed(&KERNELS, kernel)?;
            // SAFETY: the arguments are those of `line_sums`. See `blocks`.
            unsafe { function.launch_block(self.stream, &Launch::grid(grid), &args)? };
        }
        Ok(())
    }
}
