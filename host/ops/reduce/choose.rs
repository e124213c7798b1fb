//! Which kernel computes a reduction, and its launch.

use std::fmt;
use std::sync::LazyLock;

use tilewright_device::kernel::Listed;
use tilewright_reduce::{
    ColumnsWork, How, KERNELS, REDUCE, ReduceColumnsArgs, ReduceKernel, ReduceRowsArgs, RowsWork, VECTOR,
};

use super::folded::Folded;
use super::problem::Problem;
use super::shares::Shares;
use crate::ops::frame::{Choice, Cycles, PLANNED_ROOM, Places, Rated, Rejection, Table};
use crate::{AnyFunction, Arch, Device, Error, KernelSet, Launch, Result, Stream};

/// What a folded reduction takes beside its groups: two launches, over rows behind them and over parts, in cycles of an SM.
const FOLDING: u64 = 3000;

/// One compiled kernel.
pub(in crate::ops) type Compiled = Listed<ReduceKernel>;

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(REDUCE.iter().map(|k| (k.element, *k))));

impl Rated for ReduceKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &KERNELS;

    fn size(&self) -> [u32; 3] {
        [self.bytes, self.ctas, 1]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.rows { "along memory" } else { "across memory" };
        write!(f, "{} bytes at a time, {order}, {} CTAs a result", self.bytes, self.ctas)
    }
}

impl Choice for Problem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        TABLE.kernels(&self.dtype.name())
    }
    fn what(&self) -> String {
        self.dtype.name().to_owned()
    }

    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        if let Some(Folded { groups, .. }) = self.folded_for(kernel) {
            let Cycles(cycles) = groups.rate(kernel)?;
            return Ok(Cycles(cycles.saturating_add(FOLDING)));
        }
        let sms = self.device.sm_count() as usize;
        let (shares, cycles) = Shares::best(self, kernel, sms.max(1));
        if kernel.rows {
            if self.lines().0.strides[0] != 1 {
                return Err(Rejection::Because("it reads elements of a result that are contiguous"));
            }
            shares.rows_work(self)?;
        } else {
            self.check_columns(kernel)?;
            shares.columns_work(self, kernel)?;
        }
        Ok(Cycles(cycles.saturating_add(Cycles::of_launch(kernel.arch))))
    }
}

impl Problem {
    /// Checks that neighbouring results' elements can be read in the kernel's pieces.
    fn check_columns(&self, kernel: &Compiled) -> Result<(), Rejection> {
        if kernel.piece == 1 {
            return Ok(());
        }
        let (columns, outer) = self.columns();
        let steps =
            outer.iter().map(|run| run.strides[0]).chain(self.reduced.iter().map(|run| run.strides[0]));
        let aligned = |elements: usize| elements.wrapping_mul(self.dtype.bytes()).is_multiple_of(VECTOR);
        if columns.strides[0] != 1 || !self.x.is_multiple_of(VECTOR as u64) || !steps.into_iter().all(aligned)
        {
            return Err(Rejection::Because("it reads neighbouring results' elements in vectors of 16 bytes"));
        }
        if !columns.size.is_multiple_of(kernel.piece as usize) {
            return Err(Rejection::Multiples { what: "neighbouring results", of: kernel.piece });
        }
        Ok(())
    }

    /// How it is folded for a kernel of columns that reads vectors, if it must be.
    fn folded_for(&self, kernel: &Compiled) -> Option<Folded> {
        if kernel.rows || self.check_columns(kernel).is_ok() { None } else { self.folded() }
    }

    /// How the kernel would share it.
    pub(super) fn shares(&self, kernel: &Compiled) -> Shares {
        Shares::best(self, kernel, (self.device.sm_count() as usize).max(1)).0
    }

    /// The launches of this kernel and, over parts in the run's workspace, of another one.
    pub(in crate::ops) fn prepare(&self, kernel: &'static Compiled, overlap: bool) -> Result<Prepared> {
        if self.is_empty() {
            return Ok(Prepared { steps: Vec::new(), workspace_len: 0 });
        }
        if let Some(folded) = self.folded_for(kernel) {
            return folded.prepare(self, kernel, overlap);
        }
        let shares = self.shares(kernel);
        if shares.parts == 1 {
            return Ok(Prepared { steps: vec![self.step(kernel, &shares, overlap)?], workspace_len: 0 });
        }
        let [first, second] = self.parts(shares.parts, PLANNED_ROOM, kernel.rows);
        // The second kernel waits for the first one before it reads parts.
        let steps = vec![first.step(kernel, &shares, overlap)?, second.chosen_step(overlap)?];
        Ok(Prepared { steps, workspace_len: self.results().saturating_mul(shares.parts) })
    }

    /// The launch of the kernel that is chosen for it.
    pub(super) fn chosen_step(&self, overlap: bool) -> Result<Step> {
        let kernel = self.choose(None)?.descriptor();
        self.step(kernel, &self.shares(kernel), overlap)
    }

    pub(super) fn step(&self, kernel: &'static Compiled, shares: &Shares, overlap: bool) -> Result<Step> {
        let function = self.device.listed(&KERNELS, kernel)?;
        let refused = |why: Rejection| Error::argument("kernel", kernel.name, format!("another one: {why}"));
        let ctas = u32::try_from(shares.ctas).ok().filter(|&ctas| ctas <= i32::MAX as u32);
        let ctas = ctas.ok_or_else(|| refused(Rejection::AtMost { what: "CTAs", most: i32::MAX as u32 }))?;
        let launch = Launch::grid([ctas, 1, 1]).pdl(overlap && kernel.arch == Arch::Sm90a);
        let work = if kernel.rows {
            Work::Rows(shares.rows_work(self).map_err(refused)?)
        } else {
            Work::Columns(shares.columns_work(self, kernel).map_err(refused)?)
        };
        Ok(Step { function, launch, work, how: self.how })
    }
}

/// All that the launches of a reduction need but memory.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Prepared {
    /// None where there are no results.
    pub(super) steps: Vec<Step>,
    /// Elements of f32 of the run's workspace.
    pub(in crate::ops) workspace_len: usize,
}

/// A launch.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Step {
    function: AnyFunction,
    launch: Launch,
    work: Work,
    how: How,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Rows(RowsWork),
    Columns(ColumnsWork),
}

impl Prepared {
    /// Queues it for tensors and a workspace that lie so.
    ///
    /// # Safety
    /// The memory of x and y has the elements that the problem says, and the workspace as many as are told here; until the end of the
    /// work nobody else writes x, or uses the others.
    pub(in crate::ops) unsafe fn run(&self, stream: &Stream, places: &Places) -> Result<()> {
        self.steps.iter().try_for_each(|Step { function, launch, work, how }| {
            let how = *how;
            // SAFETY: the arguments are those of the kernel, which keeps to what they count; the caller vouches for the memory. Programmatic
            // launch only moves what precedes the wait for the preceding grid.
            unsafe {
                match *work {
                    Work::Rows(work) => {
                        let work = RowsWork { x: places.at(work.x), y: places.at(work.y), ..work };
                        function.launch_block(stream, launch, &ReduceRowsArgs { work, how })
                    }
                    Work::Columns(work) => {
                        let work = ColumnsWork { x: places.at(work.x), y: places.at(work.y), ..work };
                        function.launch_block(stream, launch, &ReduceColumnsArgs { work, how })
                    }
                }
            }
        })
    }
}
