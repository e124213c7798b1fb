//! Which kernel computes a dequantised GEMM: an estimate of each one's time.

use std::cmp::Reverse;
use std::fmt;

use super::DeviceWeights;
use super::problem::Problem;
use super::table::{Compiled, Kind, kernels, zeros_of};
use crate::tensor::Reading;
use crate::{Arch, Error, Result};

/// Bytes to which TMA and `cp.async` want addresses and strides aligned.
const ALIGNED: u32 = 16;
/// Elements of 16 bits in one piece of that size.
const PIECE: usize = 8;
/// Depth that the estimate counts in.
const STEP: u64 = 64;

/// A kernel that could compute a dequantised GEMM, or why it could not.
#[derive(Clone, Copy, Debug)]
pub struct DequantCandidate {
    pub(super) kernel: &'static Compiled,
    pub(super) outcome: std::result::Result<u64, Rejection>,
}

/// Why a kernel cannot compute it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rejection {
    Architecture(Arch),
    SharedMemory { needs: u32, has: u32 },
    Unaligned,
    Ragged,
    NoMap,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Architecture(arch) => write!(f, "it is compiled for {}", arch.target()),
            Rejection::SharedMemory { needs, has } => {
                write!(f, "it needs {needs} bytes of shared memory, of {has}")
            }
            Rejection::Unaligned => f.write_str("its A is row-major in lines aligned to 16 bytes"),
            Rejection::Ragged => f.write_str("the lines of its A are multiples of 16 bytes long"),
            Rejection::NoMap => f.write_str("TMA cannot address its A"),
        }
    }
}

impl DequantCandidate {
    /// The kernel's name, by which [`DequantGemm::kernel`](super::DequantGemm::kernel) forces it.
    pub fn name(&self) -> &'static str {
        self.kernel.name
    }
    /// Rows of W, rows of A and depth of its tiles.
    pub fn tile(&self) -> [u32; 3] {
        self.kernel.tile
    }
    /// Stages of its pipeline.
    pub fn stages(&self) -> u32 {
        self.kernel.stages
    }
    /// Estimated time in cycles of an SM; `None` when the kernel cannot compute this product.
    pub fn cycles(&self) -> Option<u64> {
        self.outcome.ok()
    }
    /// Why the kernel cannot compute this product.
    pub fn rejection(&self) -> Option<String> {
        self.outcome.err().map(|rejection| rejection.to_string())
    }

    /// The order of preference: by time, then larger tiles first, then impossible ones.
    pub(super) fn rank(&self) -> (u64, Reverse<[u32; 3]>) {
        (self.cycles().unwrap_or(u64::MAX), Reverse(self.tile()))
    }
}

impl fmt::Display for DequantCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Err(reason) => write!(f, "{}: not possible, {reason}", self.name()),
            Ok(cycles) => write!(f, "{}: about {cycles} cycles", self.name()),
        }
    }
}

/// Every kernel of the kind, the fastest by estimate first, the impossible ones last.
pub(super) fn candidates(problem: &Problem, kind: Kind) -> Result<Vec<DequantCandidate>> {
    let reading = problem.a.reading(problem.device.backend(), true)?;
    let mut all: Vec<_> = kernels(kind).iter().map(|kernel| candidate(problem, reading, kernel)).collect();
    all.sort_by_key(DequantCandidate::rank);
    Ok(all)
}

/// The best kernel, or the one that is asked for by name.
pub(super) fn choose(
    problem: &Problem,
    w: &DeviceWeights,
    kind: Kind,
    forced: Option<&str>,
) -> Result<DequantCandidate> {
    let all = candidates(problem, kind)?;
    let Some(best) = all.first() else {
        let was = format!("{}, for activations of {}", kind.2, kind.0);
        return Err(w.error("zeros", was, format!("one of {}", zeros_of(kind.0, kind.1).join(", "))));
    };
    let what = format!("{} weights, zeros {}, and {} activations", kind.1, kind.2, kind.0);
    take(problem, best, &all, forced, &what)
}

/// The best of the kernels for `what`, or the one that is asked for by name.
pub(super) fn take(
    problem: &Problem,
    best: &DequantCandidate,
    all: &[DequantCandidate],
    forced: Option<&str>,
    what: &str,
) -> Result<DequantCandidate> {
    let Some(name) = forced else {
        return match best.rejection() {
            None => Ok(*best),
            Some(why) => Err(Error::UnsupportedGpu {
                device: problem.device.name().into(),
                capability: problem.device.compute_capability(),
                needs: format!("no kernel for {what} runs on it: {why}"),
            }),
        };
    };
    let reason = match all.iter().find(|c| c.name() == name) {
        Some(candidate) if candidate.outcome.is_ok() => return Ok(*candidate),
        Some(candidate) => candidate.rejection().unwrap_or_default(),
        None => format!("not a kernel for {what}"),
    };
    let names: Vec<_> = all.iter().filter(|c| c.outcome.is_ok()).map(DequantCandidate::name).collect();
    Err(Error::argument("kernel", format!("{name:?}, {reason}"), format!("one of {}", names.join(", "))))
}

fn candidate(problem: &Problem, reading: Reading, kernel: &'static Compiled) -> DequantCandidate {
    let outcome = match rejection(problem, reading, kernel) {
        Some(rejection) => Err(rejection),
        None => Ok(estimate(kernel, problem.size, problem.device.sm_count())),
    };
    DequantCandidate { kernel, outcome }
}

pub(super) fn rejection(problem: &Problem, reading: Reading, kernel: &Compiled) -> Option<Rejection> {
    let device = &problem.device;
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
    if reading.align < ALIGNED {
        return Some(Rejection::Unaligned);
    }
    if kernel.arch == Arch::Sm90a && !reading.tma {
        return Some(Rejection::NoMap);
    }
    // TMA cuts lines off where they end; cp.async copies whole pieces.
    let ragged = kernel.arch == Arch::Sm80 && !problem.size[2].is_multiple_of(PIECE);
    ragged.then_some(Rejection::Ragged)
}

/// The time of a persistent kernel whose steps are shared evenly.
///
/// The constants are of an H200: for each step of 64 a row of weights takes 2.6 cycles to decode, a tile 200 more, and 32 of its
/// elements a cycle to multiply; sums of parts are read at 15 elements a cycle; a launch takes 4000. `mma.sync` and `cp.async`
/// take four times as long, element-wise loads sixteen times.
fn estimate(kernel: &Compiled, [m, n, k]: [usize; 3], sms: u32) -> u64 {
    let [rows, columns, _] = kernel.tile.map(u64::from);
    let tiles = (n as u64).div_ceil(rows).saturating_mul((m as u64).div_ceil(columns));
    let steps = tiles.saturating_mul((k as u64).div_ceil(STEP)).div_ceil(u64::from(sms).max(1));
    let slowness = match (kernel.arch, kernel.any_strides) {
        (Arch::Sm90a, _) => 1,
        (_, false) => 4,
        (_, true) => 16,
    };
    let parts = u64::from(sms).div_ceil(tiles.max(1));
    let sums = if parts > 1 { parts * rows * columns / 15 } else { 0 };
    steps.saturating_mul((200 + rows * 26 / 10 + rows * columns / 32) * slowness).saturating_add(sums + 4000)
}
