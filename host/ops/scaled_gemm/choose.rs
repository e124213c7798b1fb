//! Which kernel computes a product: an estimate of each one's time, from how tiles fill the SMs.

use std::fmt;

use tilewright_scaled_gemm::{Mode, ScaledKernel};

use super::problem::Problem;
use super::table::{Compiled, Kind, kernels, lines_read};
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
        let ScaledKernel { tile: [m, n, k], stages, split, stream, row_major, .. } = self;
        let of = if *row_major { "" } else { " of the transposed product" };
        write!(f, "tiles of {m} x {n} x {} bytes{of}, {stages} stages, ", 2 * k)?;
        if *stream { write!(f, "stream-K") } else { write!(f, "split-K {split}") }
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
        if kernel.stream && k == 0 {
            return Err(Rejection::Because("it divides a depth, of which there is none"));
        }
        let [m, n] = if kernel.row_major { [m, n] } else { [n, m] };
        Ok(estimate(kernel, [m, n, k], self.problem.device.sm_count()))
    }
}

/// The time of a step of [`STEP`] in a tile of so many lines of B, bound by the tensor cores or by what the L2 delivers to an SM.
///
/// The constants are those of GEMMs of 16-bit elements, with units in their place: 28 units' products of a tile's columns and rows take a
/// cycle for each step of 64, 53 bytes arrive a cycle. `mma.sync` has half of that rate.
///
/// Where sums of 128 are added up apart, 24 units' products take a cycle, 25 where three warpgroups share the tensor cores, 21 where two do whose CTA reads all of its tiles by itself. With scales
/// of blocks 21, and 15 in tiles of 64 columns; five eighths of that in those of the transposed product. A warpgroup that is alone takes 250 cycles for 64 rows, and 8 for 5 columns
/// (twenty-six shapes on an H200, 2026-11-30).
fn step(kernel: &Compiled, lines: u64) -> u64 {
    let [m, n, _] = kernel.tile.map(u64::from);
    let (cluster, split) = (u64::from(kernel.cluster[0]), u64::from(kernel.split));
    let slowness = if kernel.arch == Arch::Sm90a { 1 } else { 2 };
    let each = m * split / cluster;
    let units = match kernel.mode {
        Mode::Straight => 28,
        Mode::Promoted if kernel.threads == 4 * 128 => 25,
        Mode::Promoted if each == 128 && cluster == 1 => 21,
        Mode::Promoted => 24,
        Mode::Blocks if n < 128 && kernel.row_major => 15,
        Mode::Blocks => 21,
    };
    let products = match kernel.mode {
        Mode::Promoted if kernel.consumers == 128 && n >= 64 => 250 + 8 * n / 5,
        Mode::Blocks if !kernel.row_major => each * n * 8 / (5 * units),
        _ => each * n / units,
    };
    products.max((m + lines) * split / cluster * STEP * 2 / 53) * slowness
}

/// What it takes to hand over the sums of so many parts of a tile: 4200 cycles, and one for each 14 sums (20 shapes on an H200, 2026-11-30).
fn handing(kernel: &Compiled, parts: u64) -> u64 {
    let [m, n, _] = kernel.tile.map(u64::from);
    if parts > 1 { 4200 + m * n * parts / 14 } else { 0 }
}

/// The parts of each tile's steps that take the least time where so many CTAs run at a time: 1 of a kernel that does not divide tiles, and where more would
/// leave none for some tiles. Parts of several tiles for a CTA gained 4% where they gained, and cost up to 28% elsewhere (15 shapes on an H200, 2026-11-30).
pub(super) fn parts(kernel: &Compiled, [tiles, steps, ctas]: [u64; 3]) -> u64 {
    let most = if kernel.stream { ctas / tiles.max(1) } else { 1 };
    let step = step(kernel, kernel.tile[1].into());
    let time = |parts: u64| steps.div_ceil(parts).saturating_mul(step) + handing(kernel, parts);
    (1..=most.max(1)).min_by_key(|&parts| time(parts)).unwrap_or(1)
}

/// The time of a persistent kernel: waves of tiles, each a number of [steps](step), all no less than memory takes for the operands, of which an H200 brings 2200
/// bytes a cycle. A tile's epilogue takes a cycle for 8 elements, 800 more where sums of 128 are added up apart, a launch 3000, and handing over partial sums in a cluster 2000.
/// What TMA reads outside of the operands counts twice where there are few rows, and no other tile hides it.
fn estimate(kernel: &Compiled, size: [usize; 3], sms: u32) -> Estimate {
    let [m, n, _] = kernel.tile.map(u64::from);
    let (cluster, split) = (u64::from(kernel.cluster[0]), u64::from(kernel.split));
    let each = m * split / cluster;
    let [rows, columns, k] = size.map(|size| size as u64);
    let lines = u64::from(lines_read(kernel, size[1]));
    let ctas = rows.div_ceil(m).saturating_mul(columns.div_ceil(lines)).saturating_mul(cluster);
    let sms = u64::from(sms).max(1);
    let waves = ctas.div_ceil(sms);
    let steps = k.div_ceil(STEP).div_ceil(split);
    let parts = parts(kernel, [ctas, steps, sms]);
    let main = waves.saturating_mul(steps.div_ceil(parts)).saturating_mul(step(kernel, lines));
    let read = rows.next_multiple_of(m);
    let lines = columns.next_multiple_of(lines);
    let outside = |main: u64, read: u64, inside: u64| main.saturating_mul(2 * read - inside) / read.max(1);
    let main = if rows.min(columns) <= 512 {
        outside(outside(main, read, rows), lines, columns.next_multiple_of(8))
    } else {
        main
    };
    let memory = (rows + columns).saturating_mul(k * 2) / 2200;
    let scales = if kernel.mode == Mode::Straight { 0 } else { 800 };
    let sums = if split > 1 { 2000 } else { handing(kernel, parts) };
    let cycles = main.max(memory).saturating_add(waves.saturating_mul(each * n / 8 + scales + sums));
    Estimate { ctas: ctas * parts, waves, cycles: cycles.saturating_add(3000) }
}
