//! Which kernel computes products of groups: an estimate of each one's time, from the rows that a group has on average.

use tilewright_grouped_gemm::{GroupedKernel, RowsOf};

use super::problem::Problem;
use super::table::{Compiled, kernels};
use crate::ops::frame::{Choice, Copies, Cycles, Operand, Rated, Rejection};
use crate::ops::groups::{Size, Work};
use crate::tensor::Reading;
use crate::{Arch, Device, KernelSet, Result};

/// Depth that the estimate counts in.
const STEP: u64 = 64;

impl Rated for GroupedKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &tilewright_grouped_gemm::KERNELS;

    fn size(&self) -> [u32; 3] {
        self.tile
    }
    fn describe(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        describe_tile(f, self.tile, self.stages)
    }
}

/// What tells a kernel from the others.
pub(super) fn describe_tile(
    f: &mut std::fmt::Formatter<'_>,
    [m, n, k]: [u32; 3],
    stages: u32,
) -> std::fmt::Result {
    write!(f, "tiles of {m} x {n} x {k}, {stages} stages")
}

/// Products of groups, as far as they decide between kernels.
pub(super) struct Selection<'a> {
    problem: &'a Problem,
    element: &'static str,
    /// How A can be read, and B in columns and in rows; gates and ups are read in columns alone.
    a: Reading,
    b: [Reading; 2],
    expected: Option<usize>,
}

impl<'a> Selection<'a> {
    pub(super) fn new(problem: &'a Problem, element: &'static str, expected: Option<usize>) -> Result<Self> {
        let (backend, Problem { sides, b, .. }) = (problem.sides.device.backend(), problem);
        let a = sides.a.reading(backend, true)?;
        let columns = b.reading(backend, problem.gated.is_some())?;
        let b = [columns, if problem.gated.is_some() { columns } else { b.reading(backend, true)? }];
        Ok(Selection { problem, element, a, b, expected })
    }
}

impl Choice for Selection<'_> {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.problem.sides.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        kernels(self.element, self.problem.gated.is_some())
    }
    fn what(&self) -> String {
        let of = if self.problem.gated.is_some() { "gated units of " } else { "" };
        format!("{of}groups of {}", self.element)
    }

    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let sides = &self.problem.sides;
        let Size { n, k, .. } = sides.size;
        // Without elements nothing runs.
        if !kernel.any_strides && !sides.is_empty() {
            if k == 0 {
                return Err(Rejection::Because("there is no depth to load"));
            }
            let copies = Copies::of(kernel.arch);
            let row_major = kernel.row_major_b;
            Operand { name: "A", reading: self.a, row_major: true, line: k }.check(copies)?;
            let (reading, line) = (self.b[usize::from(row_major)], if row_major { n } else { k });
            Operand { name: "B", reading, row_major, line }.check(copies)?;
        }
        Ok(estimate(kernel, Work::average(sides, self.expected), sides.size, sides.device.sm_count()))
    }
}

/// The time of a tile of `m` x `n` and such a depth, see [`estimate`].
pub(super) fn of_tile(arch: Arch, any_strides: bool, [m, n]: [u64; 2], depth: u64) -> u64 {
    let slowness = match (arch, any_strides) {
        (Arch::Sm90a, _) => 1,
        (_, false) => 2,
        (_, true) => 16,
    };
    let step = (m * n / 28).max((m + n) * STEP * 2 / 53) * slowness;
    depth.div_ceil(STEP).saturating_mul(step).saturating_add(m * n / 8)
}

/// The time of all tiles.
///
/// The constants are those of the estimate of one product, see [`Gemm`](crate::ops::Gemm): 28 elements of a tile take a cycle for each step of 64, 53 bytes
/// arrive a cycle from L2, an epilogue takes a cycle for 8 elements, `mma.sync` has half of that rate and element-wise loads a sixteenth.
///
/// Of 18 cases on an H100 (experts of DeepSeek-V3, Qwen3 and Mixtral, 2026-11-26) 17 get the kernel that was the fastest, and one, the second product of 1024 tokens to
/// Mixtral's experts, one that took 3 % longer.
fn estimate(kernel: &Compiled, [groups, rows]: [u64; 2], size: Size, sms: u32) -> Cycles {
    let ([m, n, _], depth) = (kernel.tile.map(u64::from), size.k as u64);
    // Columns of products for each of C.
    let of_each = if kernel.gated { 2 } else { 1 };
    let work = Work {
        groups,
        rows,
        columns: (size.n as u64).div_ceil(n),
        high: m,
        each: of_tile(kernel.arch, kernel.any_strides, [m, of_each * n], depth),
        matrix: (2 * of_each * depth).saturating_mul(size.n as u64),
        few: kernel.of == RowsOf::Few,
    };
    Cycles(work.cycles(sms).saturating_add(Cycles::of_launch(kernel.arch)))
}
