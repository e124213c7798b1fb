//! Which kernel computes a product: an estimate of each one's time, from how tiles fill the SMs.

use std::fmt;

use tilewright_scaled_gemm::{Mode, ScaledKernel};

use super::problem::Problem;
use super::table::{Compiled, Kind, kernels};
use crate::ops::frame::{self, Choice, Copies, Operand, Rated, Rejection};
use crate::tensor::Reading;
use crate::{Arch, Device, KernelSet, Result};

/// Units of depth, of 16 bits, that the estimate counts in.
const STEP: u64 = 64;

/// What a kernel would take.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    ctas: u64,
    waves: u64,
    cycles: u64,
}

impl frame::Estimate for Estimate {
    fn cycles(&self) -> Option<u64> {
        Some(self.cycles)
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { ctas, waves, cycles } = self;
        write!(f, "{ctas} CTAs in {waves} waves, about {cycles} cycles")
    }
}

impl Rated for ScaledKernel {
    type Estimate = Estimate;
    const KERNELS: &'static KernelSet = &tilewright_scaled_gemm::KERNELS;

    fn size(&self) -> [u32; 3] {
        self.tile
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScaledKernel { tile: [m, n, k], stages, split, row_major, .. } = self;
        let of = if *row_major { "" } else { " of the transposed product" };
        write!(f, "tiles of {m} x {n} x {} bytes{of}, {stages} stages, split-K {split}", 2 * k)
    }
}

/// A product, as far as it decides between kernels.
pub(super) struct Selection<'a> {
    problem: &'a Problem,
    kind: Kind,
    /// How A and B can be read.
    readings: [Reading; 2],
}

impl<'a> Selection<'a> {
    pub(super) fn new(problem: &'a Problem, kind: Kind) -> Result<Self> {
        let backend = problem.device.backend();
        let readings = [problem.a.reading(backend, true)?, problem.b.reading(backend, true)?];
        Ok(Selection { problem, kind, readings })
    }
}

impl Choice for Selection<'_> {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.problem.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        kernels(self.kind)
    }
    fn what(&self) -> String {
        let Kind { input, output, blocks, .. } = self.kind;
        let of = if blocks { ", with scales of blocks" } else { "" };
        format!("{input} -> {output}{of}")
    }

    fn rate(&self, kernel: &Compiled) -> Result<Estimate, Rejection> {
        let [m, n, k] = self.problem.size;
        // Without elements nothing runs, without depth nothing is loaded.
        if m > 0 && n > 0 && k > 0 {
            for (name, reading) in ["A", "B"].into_iter().zip(self.readings) {
                Operand { name, reading, row_major: true, line: k }.check(Copies::of(kernel.arch))?;
            }
        }
        let [m, n] = if kernel.row_major { [m, n] } else { [n, m] };
        Ok(estimate(kernel, [m, n, k], self.problem.device.sm_count()))
    }
}

/// The time of a persistent kernel: waves of tiles, each a number of steps, each bound by the tensor cores or by what the L2
/// delivers to an SM.
///
/// The constants are those of GEMMs of 16-bit elements, with units in their place: 28 units' products of a tile's columns and rows take a
/// cycle for each step of 64, 53 bytes arrive a cycle, a tile's epilogue takes a cycle for 8 elements, a launch 3000, and handing over
/// partial sums 1000. `mma.sync` has half of that rate.
///
/// Where sums of 128 are added up apart, 24 units' products take a cycle, 26 where three warpgroups share the tensor cores, 20 with scales of blocks, and five
/// eighths of that where a sum is too short to hide another's addition; an epilogue takes 800 cycles more (four shapes on an H100, 2026-11-27).
fn estimate(kernel: &Compiled, size: [usize; 3], sms: u32) -> Estimate {
    let [m, n, _] = kernel.tile.map(u64::from);
    let (cluster, split) = (u64::from(kernel.cluster[0]), u64::from(kernel.split));
    let each = m * split / cluster;
    let [rows, columns, k] = size.map(|size| size as u64);
    let ctas = rows.div_ceil(m).saturating_mul(columns.div_ceil(n)).saturating_mul(cluster);
    let waves = ctas.div_ceil(u64::from(sms).max(1));
    let slowness = if kernel.arch == Arch::Sm90a { 1 } else { 2 };
    let (units, scales) = match kernel.mode {
        Mode::Straight => (28, 0),
        Mode::Promoted if kernel.threads == 4 * 128 => (26, 800),
        Mode::Promoted => (24, 800),
        Mode::Blocks => (20, 800),
    };
    let short = kernel.mode != Mode::Straight && n < 128;
    let products = if short { each * n * 8 / (5 * units) } else { each * n / units };
    let step = products.max((m + n) * split / cluster * STEP * 2 / 53) * slowness;
    let steps = k.div_ceil(STEP).div_ceil(split);
    let sums = if split > 1 { 1000 } else { 0 };
    let cycles =
        waves.saturating_mul(steps.saturating_mul(step) + each * n / 8 + scales + sums).saturating_add(3000);
    Estimate { ctas, waves, cycles }
}
