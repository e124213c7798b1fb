//! Which kernel computes products of groups, by an estimate of each one's time.

use std::sync::LazyLock;

use tilewright_device::kernel::Listed;
use tilewright_scaled_gemm::{GROUPED_SCALED, GroupedScaledKernel, KERNELS};

use super::problem::Problem;
use crate::ops::frame::{Choice, Cycles, Rated, Rejection, Table};
use crate::ops::groups::{Size, Work};
use crate::{Device, KernelSet};

/// One compiled kernel.
pub type Compiled = Listed<GroupedScaledKernel>;

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(GROUPED_SCALED.iter().map(|kernel| (kernel.output, *kernel))));

impl Rated for GroupedScaledKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &KERNELS;

    fn size(&self) -> [u32; 3] {
        self.tile
    }
    fn describe(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let GroupedScaledKernel { tile: [m, n, k], stages, few, .. } = self;
        let of = if *few { " of the transposed product" } else { "" };
        write!(f, "tiles of {m} x {n} x {} bytes{of}, {stages} stages", 2 * k)
    }
}

/// Products of groups, as far as they decide between kernels.
pub(super) struct Selection<'a> {
    problem: &'a Problem,
    expected: Option<usize>,
}

impl<'a> Selection<'a> {
    pub(super) fn new(problem: &'a Problem, expected: Option<usize>) -> Self {
        Selection { problem, expected }
    }

    fn output(&self) -> &'static str {
        self.problem.sides.c.dtype.name()
    }
}

impl Choice for Selection<'_> {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.problem.sides.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        TABLE.kernels(&self.output())
    }
    fn what(&self) -> String {
        format!("groups of e4m3 with scales of blocks, in {}", self.output())
    }

    /// The constants are those of the estimate of one product, see [`ScaledGemm`](crate::ops::ScaledGemm): 20 elements of a tile take a cycle for each step of 128 bytes, 23 where three warpgroups share the tensor
    /// cores, five eighths of 20 where they are few rows', 53 bytes arrive a cycle from L2, an epilogue takes a cycle for 8 elements and 800 more.
    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let sides = &self.problem.sides;
        let (Size { n, k, .. }, [groups, rows]) = (sides.size, Work::average(sides, self.expected));
        let [high, wide, _] = kernel.tile.map(u64::from);
        let products = match kernel.few {
            true => high * wide * 8 / 100,
            false if kernel.threads == 4 * 128 => high * wide / 23,
            false => high * wide / 20,
        };
        let step = products.max((high + wide) * 128 / 53);
        let work = Work {
            groups,
            rows,
            columns: (n as u64).div_ceil(wide),
            high,
            each: (k as u64).div_ceil(128).saturating_mul(step).saturating_add(high * wide / 8 + 800),
            matrix: (k as u64).saturating_mul(n as u64),
            few: kernel.few,
        };
        let cycles = work.cycles(sides.device.sm_count());
        Ok(Cycles(cycles.saturating_add(Cycles::of_launch(kernel.arch))))
    }
}
