//! Which kernel finds the largest elements, and its launch.

use std::fmt;
use std::sync::LazyLock;

use tilewright_device::kernel::Listed;
use tilewright_reduce::{
    AHEAD, KERNELS, RowOf, SHORT_THREADS, TOP_K, TopKArgs, TopKKernel, TopKShortArgs, TopKWork, VECTOR,
};

use super::problem::Problem;
use crate::ops::frame::{Choice, Cycles, Rated, Rejection, Table};
use crate::tensor::Untyped;
use crate::{Arch, Device, Error, KernelSet, Launch, Result, Stream};

/// One compiled kernel.
pub type Compiled = Listed<TopKKernel>;

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(TOP_K.iter().map(|k| (k.element, *k))));

impl Rated for TopKKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &KERNELS;

    fn size(&self) -> [u32; 3] {
        match self.row {
            RowOf::Ctas(ctas) => [ctas, self.found, 1],
            RowOf::Lanes(list) => [1, list, 1],
        }
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            RowOf::Ctas(ctas) => write!(f, "{ctas} CTAs a row, up to {} elements", self.found),
            RowOf::Lanes(list) => write!(f, "several rows a warp, in lists of {list}"),
        }
    }
}

impl Choice for Problem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        TABLE.kernels(&self.tensors[0].dtype.name())
    }
    fn what(&self) -> String {
        self.tensors[0].dtype.name().to_owned()
    }

    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        if self.columns > kernel.columns {
            return Err(Rejection::AtMost { what: "columns", most: kernel.columns });
        }
        if self.found > kernel.found {
            return Err(Rejection::AtMost { what: "elements to find", most: kernel.found });
        }
        let cycles = match kernel.row {
            RowOf::Ctas(ctas) => self.cycles_of_ctas(kernel, ctas),
            RowOf::Lanes(list) => self.best_lanes(list).1,
        };
        Ok(Cycles(cycles.saturating_add(Cycles::of_launch(kernel.arch))))
    }
}

impl Problem {
    fn sms(&self) -> u64 {
        u64::from(self.device.sm_count()).max(1)
    }

    /// Columns of a CTA: whole vectors, so that all but the last end with one where the first begins with one.
    fn share(&self, ctas: u32) -> u32 {
        self.columns.div_ceil(ctas).next_multiple_of(8)
    }

    /// As measured on an H200 (2026-11-30) a CTA waits for memory, for barriers and for shared memory, the longer the more of them share an
    /// SM: for each column, for each element that is found, which is sorted, and besides. The first CTA of a cluster goes through what all have found.
    fn cycles_of_ctas(&self, kernel: &Compiled, ctas: u32) -> u64 {
        let [found, threads, at_once] = [self.found, kernel.threads, kernel.min_ctas].map(u64::from);
        let all = u64::from(self.rows.count()) * u64::from(ctas);
        let of_sm = all.div_ceil(self.sms()).min(at_once);
        let tenths = if threads < 512 { 12 } else { 2 * of_sm };
        let reading = u64::from(self.share(ctas)) * tenths / 10;
        let passes = 6000 + 150 * of_sm * threads / 32;
        let sorting = found * (12 + 9 * of_sm);
        let joining = if ctas > 1 { of_sm * (6000 + 20 * found) } else { 0 };
        all.div_ceil(self.sms() * at_once) * (reading + passes + sorting + joining)
    }

    /// The lanes of a row that take the least time with lists of so many elements, as a logarithm, and the cycles.
    pub(super) fn best_lanes(&self, list: u32) -> (u32, u64) {
        // Fewer read less than two sectors of a row at a time.
        let vectors = (self.columns as usize * self.tensors[0].dtype.bytes()).div_ceil(VECTOR);
        let least = vectors.clamp(1, 4).next_power_of_two().ilog2();
        let cycles = |lanes: u32| (lanes, self.cycles_of_lanes(list.into(), lanes));
        (least..=5).map(cycles).min_by_key(|&(_, cycles)| cycles).unwrap_or((least, u64::MAX))
    }

    /// Instructions bound it too: those that compare and select. An SM of an H200 begins two warps' in a cycle, and one of a warp alone
    /// every other cycle; a shuffle takes as long as two, and a warp alone waits for it. Memory answers after some 700 cycles, for each
    /// turn of loads and for the values that are found.
    fn cycles_of_lanes(&self, list: u64, lanes: u32) -> u64 {
        let steps = u64::from(list.ilog2());
        // Of elements of 4 bytes the column is a word of its own.
        let wide = self.tensors[0].dtype.bytes() == 4;
        let [ordering, greater, exchange] = if wide { [6, 4, 4] } else { [2, 1, 2] };
        let merging = |places: u64| places / 2 * u64::from(places.ilog2()) * ordering;
        // Batcher's network, and what makes keys.
        let sorting = (list / 4 * (steps * steps - steps + 4)).saturating_sub(1) * ordering + 5 * list;
        let parts = u64::from(self.columns).div_ceil(list << lanes).max(1);
        let (mut each, mut exchanges) =
            (60 + parts * sorting + (parts - 1) * (list * greater + merging(list)), 0);
        for step in 0..u64::from(lanes) {
            let places = (list >> step >> 1).max(1);
            let own = 1 + step.min(steps) + u64::from(step < steps);
            each += own * places * (exchange + greater + 1) + merging(places);
            exchanges += own;
        }
        let ctas = (u64::from(self.rows.count()) << lanes).div_ceil(SHORT_THREADS.into());
        let warps = ctas.div_ceil(self.sms()) * u64::from(SHORT_THREADS / 32);
        let in_flight = (AHEAD * VECTOR / self.tensors[0].dtype.bytes()) as u64;
        let turns = u64::from(self.columns).div_ceil(in_flight << lanes);
        700 + (warps * each / 2).max(2 * each + 20 * exchanges + 700 * turns)
    }

    /// Whether rows begin and end with a vector.
    fn is_aligned(&self) -> bool {
        let x = &self.tensors[0];
        let aligned = |elements: usize| elements.wrapping_mul(x.dtype.bytes()).is_multiple_of(VECTOR);
        match x.layout.strides().split_last() {
            Some((&step, rows)) => {
                step == 1
                    && x.address.is_multiple_of(VECTOR as u64)
                    && aligned(self.columns as usize)
                    && rows.iter().all(|&stride| aligned(stride))
            }
            None => false,
        }
    }

    /// Queues it, by this kernel.
    ///
    /// # Safety
    /// The memory of the tensors has the elements that the problem says; until the end of the work nobody else writes x, or uses the others.
    pub(super) unsafe fn launch(
        &self,
        stream: &Stream,
        kernel: &'static Compiled,
        least: bool,
        overlap: bool,
    ) -> Result<()> {
        let function = self.device.listed(&KERNELS, kernel)?;
        let rows = self.rows.count();
        let (lanes, share, ctas) = match kernel.row {
            RowOf::Ctas(ctas) => (0, self.share(ctas), rows.checked_mul(ctas)),
            RowOf::Lanes(list) => {
                let (lanes, _) = self.best_lanes(list);
                (lanes, 0, Some(rows.div_ceil(SHORT_THREADS >> lanes)))
            }
        };
        let ctas = ctas.filter(|&ctas| ctas <= i32::MAX as u32).ok_or_else(|| {
            Error::argument(
                "kernel",
                kernel.name,
                "one that does not take several CTAs for each of so many rows",
            )
        })?;
        let launch = Launch::grid([ctas, 1, 1]).pdl(overlap && kernel.arch == Arch::Sm90a);
        let strides = |tensor: &Untyped| tensor.layout.strides().last().map_or(1, |&stride| stride as u64);
        let work = TopKWork {
            addresses: self.tensors.map(|tensor| tensor.address),
            rows: self.rows,
            steps: self.tensors.each_ref().map(strides),
            columns: self.columns,
            share,
            found: self.found,
            least: least.into(),
            index_bytes: self.tensors[2].dtype.bytes() as u32,
            lanes,
            vectors: self.is_aligned().into(),
        };
        // SAFETY: the arguments are those of the kernel; the caller vouches for the memory, which has the rows and columns that are
        // counted. Programmatic launch only moves what precedes the wait for the preceding grid.
        unsafe {
            match kernel.row {
                RowOf::Ctas(_) => function.launch_block(stream, &launch, &TopKArgs { work }),
                RowOf::Lanes(_) => function.launch_block(stream, &launch, &TopKShortArgs { work }),
            }
        }
    }
}
