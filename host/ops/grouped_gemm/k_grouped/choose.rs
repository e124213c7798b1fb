//! Which kernel computes products over groups' rows, by an estimate of each one's time.

use std::sync::LazyLock;

use tilewright_device::kernel::Listed;
use tilewright_grouped_gemm::{K_GROUPED, KERNELS, KGroupedKernel};

use super::problem::{Problem, Size};
use crate::ops::frame::{Choice, Copies, Cycles, Operand, Rated, Rejection, Table};
use crate::ops::grouped_gemm::choose::{describe_tile, of_tile};
use crate::tensor::Reading;
use crate::{Device, KernelSet, Result};

/// One compiled kernel.
pub type Compiled = Listed<KGroupedKernel>;

static TABLE: LazyLock<Table<[&'static str; 2], Compiled>> =
    LazyLock::new(|| Table::new(K_GROUPED.iter().map(|kernel| ([kernel.element, kernel.output], *kernel))));

impl Rated for KGroupedKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &KERNELS;

    fn size(&self) -> [u32; 3] {
        self.tile
    }
    fn describe(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        describe_tile(f, self.tile, self.stages)
    }
}

/// Products over groups' rows, as far as they decide between kernels.
pub(super) struct Selection<'a> {
    problem: &'a Problem,
    /// How A and B can be read.
    readings: [Reading; 2],
}

impl<'a> Selection<'a> {
    pub(super) fn new(problem: &'a Problem) -> Result<Self> {
        let (backend, Problem { a, b, .. }) = (problem.device.backend(), problem);
        Ok(Selection { problem, readings: [a.reading(backend, true)?, b.reading(backend, true)?] })
    }

    fn types(&self) -> [&'static str; 2] {
        [self.problem.a.dtype.name(), self.problem.c.dtype.name()]
    }
}

impl Choice for Selection<'_> {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.problem.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        TABLE.kernels(&self.types())
    }
    fn what(&self) -> String {
        let [element, output] = self.types();
        format!("products of {element} over groups' rows, in {output}")
    }

    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let Size { groups, rows, m, n } = self.problem.size;
        if !kernel.any_strides {
            if rows == 0 {
                return Err(Rejection::Because("there is no depth to load"));
            }
            let copies = Copies::of(kernel.arch);
            for (name, reading, line) in [("A", self.readings[0], m), ("B", self.readings[1], n)] {
                Operand { name, reading, row_major: true, line }.check(copies)?;
            }
        }
        // Counts leave it open how many of a matrix's rows a group has: all.
        let depth = if self.problem.apart { rows } else { rows.div_ceil(groups.max(1)) };
        let [high, wide, _] = kernel.tile.map(u64::from);
        let [down, across] = [(m, high), (n, wide)].map(|(all, tile)| (all as u64).div_ceil(tile));
        let tiles = down.saturating_mul(across).saturating_mul(groups as u64);
        let waves = tiles.div_ceil(u64::from(self.problem.device.sm_count()).max(1));
        let each = of_tile(kernel.arch, kernel.any_strides, [high, wide], depth as u64);
        Ok(Cycles(waves.saturating_mul(each).saturating_add(Cycles::of_launch(kernel.arch))))
    }
}
