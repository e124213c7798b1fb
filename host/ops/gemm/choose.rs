//! Which kernel computes a GEMM: an estimate of each one's time, from how tiles fill the SMs.

use std::fmt;

use tilewright_gemm::GemmKernel;

use super::Gemm;
use super::estimate::{estimate, of_one_warpgroup, out_of_step};
use super::lines::Lines;
use super::parts;
use super::plan::Sums;
use super::problem::{Matrices, Size};
use super::singles;
use super::table::{Compiled, Kind, kernels};
use crate::backend::H200_MEMORY_RATE;
use crate::ops::frame::{self, Candidate, Choice, Copies, Operand, Rated, Rejection};
use crate::tensor::{Reading, Untyped};
use crate::{Device, Error, KernelSet, Result};

/// What a kernel would take.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    pub(super) ctas: u64,
    pub(super) waves: u64,
    pub(super) cycles: u64,
    /// Computes the transposed product.
    pub(super) transposed: bool,
    /// A and B are copied into lines that it reads.
    pub(super) copied: [bool; 2],
}

/// The element type of products by ordinary instructions.
pub(super) const SINGLE: &str = "f32";

/// Columns of a narrow tile. A cluster of such waits for its CTAs longer than L2 takes, unless a line of TMA's is two of L2's: of lines that are one, five products of 240 to
/// 512 rows took 0.99 to 1.35 of the time of what the estimate takes else (H200, 2026-11-28), which does not see that.
const NARROW: u32 = 128;

/// The most rows for which small tiles are not taken: kernels that divide the depth read the weights by more CTAs.
const FEW: usize = 64;

impl Estimate {
    /// Whether tiles in turn lose more than the launch that is hidden where CTAs begin one by one, as those of the preceding grid end: where memory is
    /// slow. Ten products of 0.2 to 3.4 ms took 1 to 4.6 % longer on an H100 (2026-11-27), most of those of an H200 up to 1.4 % less.
    pub(super) fn loses_step(&self, device: &Device) -> bool {
        let slow = device.backend().properties().memory_rate < H200_MEMORY_RATE / 10 * 9;
        slow && self.cycles > 300_000
    }
}

impl frame::Estimate for Estimate {
    fn cycles(&self) -> Option<u64> {
        Some(self.cycles)
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { ctas, waves, cycles, transposed, copied } = self;
        write!(f, "{ctas} CTAs in {waves} waves, about {cycles} cycles")?;
        if *transposed {
            f.write_str(", computing the transposed product")?;
        }
        match copied {
            [false, false] => Ok(()),
            [true, false] => f.write_str(", of a copy of A"),
            [false, true] => f.write_str(", of a copy of B"),
            [true, true] => f.write_str(", of copies of A and B"),
        }
    }
}

impl Rated for GemmKernel {
    type Estimate = Estimate;
    const KERNELS: &'static KernelSet = &tilewright_gemm::KERNELS;

    fn size(&self) -> [u32; 3] {
        self.tile
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GemmKernel { tile: [m, n, k], stages, split, .. } = self;
        write!(f, "tiles of {m} x {n} x {k}, {stages} stages, split-K {split}")
    }
}

impl Candidate<Compiled> {
    /// Rows, columns and depth of its tiles.
    pub fn tile(&self) -> [u32; 3] {
        self.kernel.tile
    }
    /// Stages of its pipeline.
    pub fn stages(&self) -> u32 {
        self.kernel.stages
    }
    /// CTAs that divide a tile's depth among themselves.
    pub fn split(&self) -> u32 {
        self.kernel.split
    }
}

/// A GEMM, as far as it decides between kernels.
pub(super) struct Selection<'a> {
    matrices: &'a Matrices,
    kind: Kind,
    /// How A and B can be read, each in columns and in rows.
    readings: [[Reading; 2]; 2],
    /// C's rows are contiguous and its columns are not.
    prefers_columns: bool,
    /// There is a beta or a bias.
    terms: bool,
    /// SMs that it may take.
    sms: u32,
    sums: Sums,
    /// What copied operands that are among the matrices.
    lines: Option<&'a Lines>,
}

impl<'a> Selection<'a> {
    pub(super) fn new<U>(matrices: &'a Matrices, kind: Kind, gemm: &Gemm<'_, U>, sums: Sums) -> Result<Self> {
        let Matrices { device, a, b, c, size, .. } = matrices;
        let backend = device.backend();
        let both = |of: &Untyped| Ok::<_, Error>([of.reading(backend, false)?, of.reading(backend, true)?]);
        Ok(Selection {
            matrices,
            kind,
            readings: [both(a)?, both(b)?],
            terms: gemm.beta != 0.0 || matrices.bias.is_some(),
            sums,
            sms: gemm.sms.unwrap_or(u32::MAX).min(device.sm_count()),
            prefers_columns: matches!(c.layout.strides(), [.., 1, cols] if *cols > 1) && size.m > 1,
            lines: None,
        })
    }

    /// With what copies operands into these matrices first.
    pub(super) fn behind(self, lines: &'a Lines) -> Self {
        Selection { lines: Some(lines), ..self }
    }
}

impl Choice for Selection<'_> {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.matrices.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        kernels(self.kind)
    }
    fn what(&self) -> String {
        let (input, output, activation, gated) = self.kind;
        let of = if gated { ", of gates" } else { "" };
        format!("{input} -> {output} with activation {activation}{of}")
    }

    fn rate(&self, kernel: &Compiled) -> Result<Estimate, Rejection> {
        let estimate = self.product(kernel)?;
        let Some(lines) = self.lines else { return Ok(estimate) };
        let cycles = estimate.cycles.saturating_add(lines.cycles());
        Ok(Estimate { cycles, copied: lines.copied(), ..estimate })
    }
}

impl Selection<'_> {
    /// What the product alone takes.
    fn product(&self, kernel: &Compiled) -> Result<Estimate, Rejection> {
        let Size { batch, m, n, k } = self.matrices.size;
        // A kernel with a column-major C is made for the transposed product; a kernel with a row-major C computes that
        // when C itself is column-major.
        let transposed = match kernel.row_major[2] {
            // Those of f32 for few rows store C in any order, element by element: the product's shorter side is their rows.
            true if kernel.input == SINGLE && kernel.tile[0] < singles::MANY => n < m,
            true => self.prefers_columns && !kernel.any_strides,
            // Those for few rows stream the operand on the right, which alone may be constant.
            false => !(kernel.apart && self.prefers_columns),
        };
        let memory = self.sums != Sums::InClusters;
        // Without memory for sums, kernels of f32 take tiles whole; others are refused.
        if kernel.stream && kernel.input != SINGLE && !memory {
            return Err(Rejection::Because(
                "it needs a workspace, which a captured call must be given: plan it",
            ));
        }
        if kernel.plain && self.terms {
            return Err(Rejection::Because("it takes neither beta nor a bias"));
        }
        let [m, n] = if transposed { [n, m] } else { [m, n] };
        // Of more rows other tiles fill waves, and warpgroups in turn hide their epilogues.
        let clustered = kernel.cluster[0] > kernel.split && !kernel.apart;
        if clustered && n > kernel.tile[1] as usize * parts::MOST_BESIDE as usize {
            return Err(Rejection::Because("it is for fewer rows"));
        }
        if clustered && !kernel.stream && kernel.tile[1] <= NARROW && self.split_lines() == 0 {
            return Err(Rejection::Because("it is for lines that begin anywhere in those of L2"));
        }
        if !kernel.any_strides {
            if k == 0 {
                return Err(Rejection::Because("there is no depth to load"));
            }
            for (i, name) in ["A", "B"].into_iter().enumerate() {
                let row_major = kernel.row_major[i];
                // The transposed product's A is B read the other way, and its B is A.
                let of = if transposed { 1 - i } else { i };
                let reading = self.readings[of][usize::from(row_major != transposed)];
                // In units of 16 bits.
                let width = self.matrices.a.dtype.bytes() / 2;
                let line = width * if row_major { [k, n][i] } else { [m, k][i] };
                Operand { name, reading, row_major, line }.check(Copies::of(kernel.arch))?;
            }
        }
        let size = Size { batch, m, n, k };
        let rates = [self.l2_rate(), self.device().backend().properties().memory_rate.into()];
        if kernel.input == SINGLE {
            return Ok(singles::estimate(kernel, size, transposed, rates[1], self.sms, memory));
        }
        if kernel.stream {
            return Ok(parts::estimate(kernel, size, transposed, rates, self.sms));
        }
        let mut estimate = estimate(kernel, size, transposed, rates, self.sms);
        // Lines that begin anywhere in those of L2 take small tiles 1.2 to 2 times as long as the fastest kernel (five products on an H200, 2026-11-30).
        if of_one_warpgroup(kernel) && (self.split_lines() > 0 || n <= FEW) {
            estimate.cycles = estimate.cycles.saturating_mul(2);
        }
        if kernel.apart {
            estimate.cycles += out_of_step(kernel, estimate, k, rates[1] as u32);
        }
        Ok(estimate)
    }

    /// Bytes a cycle that L2 delivers to all SMs: 6.6 kB, or 5.4 where lines of A and B begin anywhere in the lines of L2, of which one of TMA's then has
    /// two. Of 19 products of 160 to 4100 rows of such lines on an H200 (2026-11-28) what that chooses takes 5.9 % longer than the fastest kernel, at most 25 %;
    /// to tell their alignments apart made no difference.
    fn l2_rate(&self) -> u64 {
        6600 - 600 * self.split_lines()
    }

    /// How many of A and B have lines that begin anywhere in the lines of L2.
    fn split_lines(&self) -> u64 {
        let Matrices { a, b, .. } = self.matrices;
        let begins = |of: &Untyped| {
            let line = of.layout.strides().iter().rev().take(2).max().copied().unwrap_or(0);
            u64::from(!(line * of.dtype.bytes()).is_multiple_of(128))
        };
        begins(a) + begins(b)
    }
}
