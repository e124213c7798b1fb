//! Which kernel computes a dequantised GEMM: an estimate of each one's time.

use std::fmt;

use tilewright_dequant_gemm::CHUNK;

use super::problem::Problem;
use super::table::{Compiled, Kind, Reads, kernels};
use crate::kernel::has;
use crate::ops::frame::{Candidate, Choice, Copies, Cycles, Descriptor, Operand, Rejection};
use crate::{Arch, Device, KernelEntry, Result};

/// Depth that the estimate counts in.
pub(super) const STEP: u64 = 64;
/// The most tiles of A: a grid's second dimension.
const MOST: u32 = u16::MAX as u32;

impl Descriptor for Compiled {
    type Estimate = Cycles;

    fn name(&self) -> &'static str {
        self.name
    }
    fn arch(&self) -> Arch {
        self.arch
    }
    fn entry(&self) -> Option<&'static KernelEntry> {
        tilewright_dequant_gemm::KERNELS.get(self.name, self.arch)
    }
    fn is_built(&self) -> bool {
        has(&tilewright_dequant_gemm::KERNELS, self.arch)
    }
    fn shared_bytes(&self) -> u32 {
        self.shared_bytes
    }
    fn size(&self) -> [u32; 3] {
        self.tile
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compiled { tile: [n, m, k], stages, .. } = self;
        match self.widens() {
            Some(_) => write!(f, "weights made wide, {n} x {k} at a time, and a product of these"),
            None => write!(f, "tiles of {n} x {m} x {k}, {stages} stages"),
        }
    }
}

impl Candidate<Compiled> {
    /// Rows of W, rows of A and depth of its tiles; no rows of A of a kernel that makes weights wide for a product of [`Gemm`](crate::ops::Gemm).
    pub fn tile(&self) -> [u32; 3] {
        self.kernel.tile
    }
    /// Stages of its pipeline.
    pub fn stages(&self) -> u32 {
        self.kernel.stages
    }
}

/// A product with narrow weights, as far as it decides between kernels.
pub(super) struct Selection<'a> {
    problem: &'a Problem,
    kind: Kind,
    a: Operand,
}

impl<'a> Selection<'a> {
    pub(super) fn new(problem: &'a Problem, kind: Kind) -> Result<Self> {
        Ok(Selection { problem, kind, a: operand(problem)? })
    }
}

/// A as kernels read it.
pub(super) fn operand(problem: &Problem) -> Result<Operand> {
    let [.., k] = problem.size;
    let reading = problem.a.reading(problem.device.backend(), true)?;
    Ok(Operand { name: "A", reading, row_major: true, line: k })
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
        let (element, format, zeros) = self.kind;
        format!("{format} weights, zeros {zeros}, and {element} activations")
    }

    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let &Problem { size, group, gated, .. } = self.problem;
        let [m, _, k] = size;
        if gated && !kernel.gated {
            return Err(Rejection::Because("it has no gated units"));
        }
        if kernel.sums && group < k && !group.is_multiple_of(CHUNK as usize) {
            return Err(Rejection::Multiples { what: "groups of less than a row", of: CHUNK });
        }
        match kernel.reads {
            Reads::Elements => {}
            Reads::Boxes => self.a.check(Copies::Boxes)?,
            Reads::Pieces | Reads::Stream => self.a.check(Copies::Pieces)?,
        }
        let most = MOST * kernel.tile[1];
        if kernel.reads == Reads::Stream && m > most as usize {
            return Err(Rejection::AtMost { what: "a number of rows of A", most });
        }
        let device = &self.problem.device;
        let sms = device.sm_count();
        Ok(Cycles(if kernel.widens().is_some() {
            wide(size, (sms, device.runs(Arch::Sm90a)), self.kind.1)
        } else {
            estimate(kernel, size, sms)
        }))
    }
}

/// The time of a kernel, in cycles of an H200's SM; a launch takes 4000 of them.
fn estimate(kernel: &Compiled, size: [usize; 3], sms: u32) -> u64 {
    let sms = u64::from(sms).max(1);
    4000 + if kernel.reads == Reads::Stream {
        stream(kernel, size, sms)
    } else {
        shared_evenly(kernel, size, sms)
    }
}

/// The time of a product of weights that are made wide first, 960 of them a cycle, in two launches: at least a wave of tiles of 256 x 128, of which a step of 64 takes 1090 on Hopper, and is
/// reckoned at four times that with `mma.sync`.
///
/// Kernels for narrow weights take longer than [`estimate`] says, by a factor of the format's that does not decide between them: this is divided by it (eight shapes of four formats on an
/// H200, 2026-11-30).
fn wide([m, n, k]: [usize; 3], (sms, hopper): (u32, bool), format: &str) -> u64 {
    let ([m, n, k], sms) = ([m, n, k].map(|size| size as u64), u64::from(sms).max(1));
    let tiles = m.div_ceil(128).saturating_mul(n.div_ceil(256)).max(sms);
    let products =
        tiles.saturating_mul(k.div_ceil(STEP)).saturating_mul(if hopper { 1090 } else { 4360 }) / sms;
    let percent = match format {
        "u4" | "i4" => 85,
        "nf4" => 153,
        "i8" | "fp4" | "e4m3" | "e5m2" => 133,
        _ => 122,
    };
    let all = products.saturating_add(n.saturating_mul(k) / 960).saturating_add(8000);
    all.saturating_mul(100) / percent
}

/// The time of a step of a tile of so many rows of weights and of A.
///
/// On Hopper it takes 160, 2 for each row of weights, whose decoding is not hidden, and a cycle for 128 of the tile's elements; for more than 32 rows of A 70, 1 for
/// each row, and a cycle for 40 elements; where sums are scaled 1.09 for each row, and a cycle for 34 elements. With `mma.sync` it takes four times 200, 2.6 for each row
/// and a cycle for 32 elements, with element-wise loads sixteen times.
pub(super) fn of_step(reads: Reads, sums: bool, [rows, columns]: [u64; 2]) -> u64 {
    let ampere = 200 + rows * 26 / 10 + rows * columns / 32;
    match reads {
        Reads::Boxes if sums => rows * 109 / 100 + rows * columns / 34,
        Reads::Boxes if columns > 32 => 70 + rows + rows * columns / 40,
        Reads::Boxes => 160 + 2 * rows + rows * columns / 128,
        Reads::Elements => 16 * ampere,
        _ => 4 * ampere,
    }
}

/// Of a kernel whose steps are shared evenly. Parts of a tile take 8000 to meet, 3000 where sums are scaled, and are read at 15 elements a cycle.
fn shared_evenly(kernel: &Compiled, [m, n, k]: [usize; 3], sms: u64) -> u64 {
    let [together, columns, _] = kernel.tile.map(u64::from);
    let (rows, sms) = (together / u64::from(kernel.cluster), (sms / u64::from(kernel.cluster)).max(1));
    let tiles = (n as u64).div_ceil(together).saturating_mul((m as u64).div_ceil(columns));
    let steps = tiles.saturating_mul((k as u64).div_ceil(STEP)).div_ceil(sms);
    let step = of_step(kernel.reads, kernel.sums, [rows, columns]);
    let parts = sms.div_ceil(tiles.max(1));
    let meet = if kernel.sums { 3000 } else { 8000 };
    let parts = if parts > 1 { meet + parts * rows * columns / 15 } else { 0 };
    steps.saturating_mul(step).saturating_add(parts)
}

/// Of a kernel whose SMs take whole slabs: a step of 64 takes 30 and 2.1 for each of the tile's rows of A, a tile 1500 more. The
/// depth counts in the warps' turns.
fn stream(kernel: &Compiled, [m, n, k]: [usize; 3], sms: u64) -> u64 {
    let [slab, columns, turn] = kernel.tile.map(u64::from);
    let slabs = (n as u64).div_ceil(slab).div_ceil(sms);
    let steps = slabs.saturating_mul((k as u64).next_multiple_of(turn) / STEP);
    (m as u64)
        .div_ceil(columns)
        .saturating_mul(steps.saturating_mul(30 + columns * 21 / 10).saturating_add(1500))
}
