//! Which kernel computes a GEMM: an estimate of each one's time, from how tiles fill the SMs.

use std::cmp::Reverse;
use std::fmt;

use super::problem::{Matrices, Size};
use super::table::{Compiled, Kind, kernels};
use crate::tensor::{Reading, Untyped};
use crate::{Arch, Error, Result};

/// Bytes to which TMA and `cp.async` want addresses and strides aligned.
const ALIGNED: u32 = 16;
/// Elements of 16 bits in one piece of that size.
const PIECE: usize = 8;
/// Depth that the estimate counts in.
const STEP: u64 = 64;

/// A kernel that could compute a GEMM, or why it could not.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub(super) kernel: &'static Compiled,
    /// Computes the transposed product.
    pub(super) transposed: bool,
    outcome: std::result::Result<Estimate, Rejection>,
}

/// What a kernel would take.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    ctas: u64,
    waves: u64,
    cycles: u64,
}

/// Why a kernel cannot compute a GEMM.
#[derive(Clone, Copy, Debug)]
enum Rejection {
    Architecture(Arch),
    SharedMemory { needs: u32, has: u32 },
    NoDepth,
    Unaligned { operand: &'static str, row_major: bool },
    Ragged { operand: &'static str },
    NoMap { operand: &'static str },
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Architecture(arch) => write!(f, "it is compiled for {}", arch.target()),
            Rejection::SharedMemory { needs, has } => {
                write!(f, "it needs {needs} bytes of shared memory, of {has}")
            }
            Rejection::NoDepth => f.write_str("there is no depth to load"),
            Rejection::Unaligned { operand, row_major } => {
                let order = if *row_major { "row" } else { "column" };
                write!(f, "its {operand} is {order}-major in lines aligned to 16 bytes")
            }
            Rejection::Ragged { operand } => {
                write!(f, "the lines of its {operand} are multiples of 16 bytes long")
            }
            Rejection::NoMap { operand } => write!(f, "TMA cannot address its {operand}"),
        }
    }
}

impl Candidate {
    /// The kernel's name, by which [`Gemm::kernel`](super::Gemm::kernel) forces it.
    pub fn name(&self) -> &'static str {
        self.kernel.name
    }
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
    /// Estimated time in cycles of an SM; `None` when the kernel cannot compute this GEMM.
    pub fn cycles(&self) -> Option<u64> {
        self.outcome.ok().map(|estimate| estimate.cycles)
    }
    /// Why the kernel cannot compute this GEMM.
    pub fn rejection(&self) -> Option<String> {
        self.outcome.err().map(|rejection| rejection.to_string())
    }

    /// The order of preference: by time, then larger tiles first, then impossible ones.
    fn rank(&self) -> (u64, Reverse<[u32; 3]>) {
        (self.cycles().unwrap_or(u64::MAX), Reverse(self.tile()))
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Err(reason) => write!(f, "{}: not possible, {reason}", self.name()),
            Ok(Estimate { ctas, waves, cycles }) => {
                write!(f, "{}: {ctas} CTAs in {waves} waves, about {cycles} cycles", self.name())?;
                if self.transposed { f.write_str(", computing the transposed product") } else { Ok(()) }
            }
        }
    }
}

/// Every kernel of the kind, the fastest by estimate first, the impossible ones last.
pub(super) fn candidates(matrices: &Matrices, kind: Kind) -> Result<Vec<Candidate>> {
    let problem = Problem::of(matrices)?;
    let mut all: Vec<_> = kernels(kind).map(|kernel| problem.candidate(kernel)).collect();
    all.sort_by_key(Candidate::rank);
    Ok(all)
}

/// The best kernel, or the one that is asked for by name.
pub(super) fn choose(matrices: &Matrices, kind: Kind, forced: Option<&str>) -> Result<Candidate> {
    let problem = Problem::of(matrices)?;
    let all = kernels(kind).map(|kernel| problem.candidate(kernel));
    let Some(name) = forced else {
        let best = all.min_by_key(Candidate::rank);
        return best.filter(|c| c.outcome.is_ok()).ok_or_else(|| {
            let device = &matrices.device;
            let why =
                best.and_then(|c| c.rejection()).unwrap_or_else(|| "there is none of the kind".to_owned());
            Error::UnsupportedGpu {
                device: device.name().into(),
                capability: device.compute_capability(),
                needs: format!("no GEMM kernel runs on it: {why}"),
            }
        });
    };
    let reason = match all.clone().find(|c| c.name() == name) {
        Some(candidate) if candidate.outcome.is_ok() => return Ok(candidate),
        Some(candidate) => candidate.rejection().unwrap_or_default(),
        None => {
            let (input, output, activation) = kind;
            format!("not a kernel for {input} -> {output} with activation {activation}")
        }
    };
    let names: Vec<_> = all.filter(|c| c.outcome.is_ok()).map(|c| c.name()).collect();
    Err(Error::argument("kernel", format!("{name:?}, {reason}"), format!("one of {}", names.join(", "))))
}

/// What decides between kernels.
struct Problem<'a> {
    matrices: &'a Matrices,
    /// How A and B can be read, each in columns and in rows.
    readings: [[Reading; 2]; 2],
    /// C's rows are contiguous and its columns are not.
    prefers_columns: bool,
}

impl<'a> Problem<'a> {
    fn of(matrices: &'a Matrices) -> Result<Self> {
        let Matrices { device, a, b, c, size, .. } = matrices;
        let backend = device.backend();
        let both = |of: &Untyped| Ok::<_, Error>([of.reading(backend, false)?, of.reading(backend, true)?]);
        Ok(Problem {
            matrices,
            readings: [both(a)?, both(b)?],
            prefers_columns: matches!(c.layout.strides(), [.., 1, cols] if *cols > 1) && size.m > 1,
        })
    }

    fn candidate(&self, kernel: &'static Compiled) -> Candidate {
        // A kernel with a column-major C is made for the transposed product; a kernel with a row-major C computes that
        // when C itself is column-major.
        let transposed = !kernel.row_major[2] || (self.prefers_columns && !kernel.any_strides);
        let Size { batch, m, n, k } = self.matrices.size;
        let size = if transposed { Size { batch, m: n, n: m, k } } else { self.matrices.size };
        let outcome = match self.rejection(kernel, transposed) {
            Some(rejection) => Err(rejection),
            None => Ok(estimate(kernel, size, self.matrices.device.sm_count())),
        };
        Candidate { kernel, transposed, outcome }
    }

    fn rejection(&self, kernel: &Compiled, transposed: bool) -> Option<Rejection> {
        let device = &self.matrices.device;
        if !device.runs(kernel.arch) {
            return Some(Rejection::Architecture(kernel.arch));
        }
        let (needs, has) = (kernel.shared_bytes, device.shared_memory_per_cta());
        if needs > has {
            return Some(Rejection::SharedMemory { needs, has });
        }
        if kernel.any_strides {
            return None;
        }
        let Size { m, n, k, .. } = self.matrices.size;
        if k == 0 {
            return Some(Rejection::NoDepth);
        }
        ["A", "B"].into_iter().enumerate().find_map(|(i, operand)| {
            let row_major = kernel.row_major[i];
            // The transposed product's A is B read the other way, and its B is A.
            let of = if transposed { 1 - i } else { i };
            let reading = self.readings[of][usize::from(row_major != transposed)];
            if reading.align < ALIGNED {
                return Some(Rejection::Unaligned { operand, row_major });
            }
            if kernel.arch == Arch::Sm90a && !reading.tma {
                return Some(Rejection::NoMap { operand });
            }
            // TMA cuts lines off where they end; cp.async copies whole pieces.
            let [m, n] = if transposed { [n, m] } else { [m, n] };
            let line = if row_major { [k, n][i] } else { [m, k][i] };
            let ragged = kernel.arch == Arch::Sm80 && !line.is_multiple_of(PIECE);
            ragged.then_some(Rejection::Ragged { operand })
        })
    }
}

/// The time of a persistent kernel: waves of tiles, each a number of steps, each bound by the tensor cores or by what the L2
/// delivers to an SM.
///
/// The constants are of an H200: 32 elements of a tile take a cycle for each step of 64, 50 bytes arrive a cycle, a tile's
/// epilogue takes some 1800 cycles, a launch 3000, and handing over partial sums 1000. `mma.sync` has half of that rate,
/// element-wise loads a sixteenth.
fn estimate(kernel: &Compiled, size: Size, sms: u32) -> Estimate {
    let [m, n, _] = kernel.tile.map(u64::from);
    let split = u64::from(kernel.split);
    let tiles = (size.batch as u64)
        .saturating_mul((size.m as u64).div_ceil(m))
        .saturating_mul((size.n as u64).div_ceil(n));
    let ctas = tiles.saturating_mul(split);
    let waves = ctas.div_ceil(u64::from(sms).max(1));
    let slowness = match (kernel.arch, kernel.any_strides) {
        (Arch::Sm90a, _) => 1,
        (_, false) => 2,
        (_, true) => 16,
    };
    let step = (m * n / 32).max((m + n) * STEP * 2 / 50) * slowness;
    let steps = (size.k as u64).div_ceil(STEP).div_ceil(split);
    let sums = if split > 1 { 1000 } else { 0 };
    let cycles = waves.saturating_mul(steps.saturating_mul(step) + 1800 + sums).saturating_add(3000);
    Estimate { ctas, waves, cycles }
}
