//! Which kernel computes products of groups with narrow weights: an estimate of each one's time, from the rows that a group has on average.

use std::fmt;

use tilewright_dequant_gemm::{CHUNK, GroupedDequantKernel, KERNELS};

use super::super::choose::{STEP, of_step};
use super::super::table::{Kind, Reads};
use super::problem::Problem;
use super::table::{Compiled, kernels};
use crate::ops::frame::{Choice, Copies, Cycles, Operand, Rated, Rejection};
use crate::ops::groups::{Size, Work};
use crate::{Device, KernelSet, Result};

impl Rated for GroupedDequantKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &KERNELS;

    fn size(&self) -> [u32; 3] {
        self.tile
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupedDequantKernel { tile: [m, n, k], stages, .. } = self;
        write!(f, "tiles of {m} x {n} x {k}, {stages} stages")
    }
}

/// Products of groups, as far as they decide between kernels.
pub(super) struct Selection<'a> {
    problem: &'a Problem,
    kind: Kind,
    a: Operand,
    expected: Option<usize>,
}

impl<'a> Selection<'a> {
    pub(super) fn new(problem: &'a Problem, kind: Kind, expected: Option<usize>) -> Result<Self> {
        let sides = &problem.sides;
        let reading = sides.a.reading(sides.device.backend(), true)?;
        let a = Operand { name: "A", reading, row_major: true, line: sides.size.k };
        Ok(Selection { problem, kind, a, expected })
    }
}

impl Choice for Selection<'_> {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.problem.sides.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        kernels(self.kind)
    }
    fn what(&self) -> String {
        let (element, format, zeros) = self.kind;
        format!("groups of {element}, {format} weights, zeros {zeros}")
    }

    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let &Problem { ref sides, scaled, bytes, .. } = self.problem;
        let Size { n, k, .. } = sides.size;
        if kernel.sums && scaled < k && !scaled.is_multiple_of(CHUNK as usize) {
            return Err(Rejection::Multiples { what: "groups of less than a row", of: CHUNK });
        }
        let reads = Reads::of(kernel.arch, kernel.any_strides);
        match reads {
            Reads::Boxes => self.a.check(Copies::Boxes)?,
            Reads::Pieces => self.a.check(Copies::Pieces)?,
            Reads::Elements | Reads::Stream => {}
        }
        let ([groups, rows], [high, wide, _]) =
            (Work::average(sides, self.expected), kernel.tile.map(u64::from));
        let step = of_step(reads, kernel.sums, [wide, high]);
        // Measured where no parts of tiles meet.
        let step = if kernel.sums { step * 6 / 7 } else { step };
        let work = Work {
            groups,
            rows,
            columns: (n as u64).div_ceil(wide),
            high,
            // Of a tile: its steps, and its epilogue, which takes a cycle for 8 elements.
            each: (k as u64).div_ceil(STEP).saturating_mul(step).saturating_add(high * wide / 8),
            matrix: bytes,
            // Its tiles in a column of rows of A follow each other, so that L2 has the weights for all of them.
            few: false,
        };
        Ok(Cycles(work.cycles(sides.device.sm_count()).saturating_add(Cycles::of_launch(kernel.arch))))
    }
}
