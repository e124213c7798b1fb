//! Which kernel computes a reduction, and its launch.

use std::fmt;
use std::sync::LazyLock;

use tilewright_device::kernel::Listed;
use tilewright_reduce::{KERNELS, REDUCE, ReduceColumnsArgs, ReduceKernel, ReduceRowsArgs, VECTOR};

use super::problem::Problem;
use super::shares::Shares;
use crate::ops::frame::{Choice, Cycles, Rated, Rejection, Table};
use crate::{Arch, Device, Error, KernelSet, Launch, Result, Stream};

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

    /// How the kernel would share it.
    pub(super) fn shares(&self, kernel: &Compiled) -> Shares {
        Shares::best(self, kernel, (self.device.sm_count() as usize).max(1)).0
    }

    /// Elements of memory for parts that the kernel takes.
    pub(in crate::ops) fn workspace_len(&self, kernel: &Compiled) -> usize {
        match self.shares(kernel).parts {
            0 | 1 => 0,
            parts => self.results().saturating_mul(parts),
        }
    }

    /// Queues it, by this kernel and, over parts in memory at `workspace`, by another one.
    ///
    /// # Safety
    /// The memory of x and y has the elements that the problem says, and that of parts as many as
    /// [`workspace_len`](Self::workspace_len) says; until the end of the work nobody else writes x, or uses the others.
    pub(in crate::ops) unsafe fn queue(
        &self,
        stream: &Stream,
        kernel: &'static Compiled,
        overlap: bool,
        workspace: u64,
    ) -> Result<()> {
        let shares = self.shares(kernel);
        if shares.parts == 1 {
            // SAFETY: the caller's.
            return unsafe { self.launch(stream, kernel, &shares, overlap) };
        }
        let [first, second] = self.parts(shares.parts, workspace, kernel.rows);
        let merging = second.choose(None)?.descriptor();
        // SAFETY: the caller's. The second kernel waits for the first one before it reads parts.
        unsafe {
            first.launch(stream, kernel, &shares, overlap)?;
            second.launch(stream, merging, &second.shares(merging), overlap)
        }
    }

    /// # Safety
    /// As for [`queue`](Self::queue); y has as many parts of each result as the shares say.
    unsafe fn launch(
        &self,
        stream: &Stream,
        kernel: &'static Compiled,
        shares: &Shares,
        overlap: bool,
    ) -> Result<()> {
        let function = self.device.listed(&KERNELS, kernel)?;
        let refused = |why: Rejection| Error::argument("kernel", kernel.name, format!("another one: {why}"));
        let ctas = u32::try_from(shares.ctas).ok().filter(|&ctas| ctas <= i32::MAX as u32);
        let ctas = ctas.ok_or_else(|| refused(Rejection::AtMost { what: "CTAs", most: i32::MAX as u32 }))?;
        let launch = Launch::grid([ctas, 1, 1]).pdl(overlap && kernel.arch == Arch::Sm90a);
        let how = self.how;
        // SAFETY: the arguments are those of the kernel, which keeps to what they count; the caller vouches for the memory. Programmatic
        // launch only moves what precedes the wait for the preceding grid.
        unsafe {
            if kernel.rows {
                let work = shares.rows_work(self).map_err(refused)?;
                function.launch_block(stream, &launch, &ReduceRowsArgs { work, how })
            } else {
                let work = shares.columns_work(self, kernel).map_err(refused)?;
                function.launch_block(stream, &launch, &ReduceColumnsArgs { work, how })
            }
        }
    }
}
