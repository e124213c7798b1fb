//! Which kernel computes a dequantised GEMM: an estimate of each one's time.

use std::cmp::Reverse;
use std::fmt;

use super::DeviceWeights;
use super::problem::Problem;
use tilewright_device::tile::CHUNK;

use super::table::{Compiled, Kind, Reads, kernels, zeros_of};
use crate::tensor::Reading;
use crate::{Arch, Error, Result};

/// Bytes to which TMA and `cp.async` want addresses and strides aligned.
const ALIGNED: u32 = 16;
/// Elements of 16 bits in one piece of that size.
const PIECE: usize = 8;
/// Depth that the estimate counts in.
const STEP: u64 = 64;
/// The most tiles of A: a grid's second dimension.
const MOST: usize = u16::MAX as usize;

/// A kernel that could compute a dequantised GEMM, or why it could not.
#[derive(Clone, Copy, Debug)]
pub struct DequantCandidate {
    pub(super) kernel: Compiled,
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
    Groups,
    Rows,
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
            Rejection::Groups => write!(f, "its groups are multiples of {CHUNK}, or whole rows"),
            Rejection::Rows => f.write_str("it is for fewer rows of A"),
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
    let mut all: Vec<_> = kernels(kind).map(|kernel| candidate(problem, reading, kernel)).collect();
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

fn candidate(problem: &Problem, reading: Reading, kernel: Compiled) -> DequantCandidate {
    let outcome = match rejection(problem, reading, &kernel) {
        Some(rejection) => Err(rejection),
        None => Ok(estimate(&kernel, problem.size, problem.device.sm_count())),
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
    let [m, _, k] = problem.size;
    if kernel.sums && problem.group < k && !problem.group.is_multiple_of(CHUNK as usize) {
        return Some(Rejection::Groups);
    }
    if kernel.reads == Reads::Elements {
        return None;
    }
    if reading.align < ALIGNED {
        return Some(Rejection::Unaligned);
    }
    match kernel.reads {
        Reads::Boxes => (!reading.tma).then_some(Rejection::NoMap),
        // TMA cuts lines off where they end; cp.async copies whole pieces.
        _ if !k.is_multiple_of(PIECE) => Some(Rejection::Ragged),
        Reads::Stream if m.div_ceil(kernel.tile[1] as usize) > MOST => Some(Rejection::Rows),
        _ => None,
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

/// Of a kernel whose steps are shared evenly.
///
/// On Hopper a step of 64 takes 160, 2 for each row of weights, whose decoding is not hidden, and a cycle for 128 of the tile's
/// elements; for more than 32 rows of A 70, 1 for each row, and a cycle for 40 elements; where sums are scaled 1.09 for each row, and a
/// cycle for 34 elements. Parts of a tile take 8000 to meet, 3000 where sums are scaled, and are read at 15 elements a cycle. With
/// `mma.sync` a step takes four times 200, 2.6 for each row and a cycle for 32 elements, with element-wise loads sixteen times.
fn shared_evenly(kernel: &Compiled, [m, n, k]: [usize; 3], sms: u64) -> u64 {
    let [together, columns, _] = kernel.tile.map(u64::from);
    let (rows, sms) = (together / u64::from(kernel.cluster), (sms / u64::from(kernel.cluster)).max(1));
    let tiles = (n as u64).div_ceil(together).saturating_mul((m as u64).div_ceil(columns));
    let steps = tiles.saturating_mul((k as u64).div_ceil(STEP)).div_ceil(sms);
    let ampere = 200 + rows * 26 / 10 + rows * columns / 32;
    let step = match kernel.reads {
        Reads::Boxes if kernel.sums => rows * 109 / 100 + rows * columns / 34,
        Reads::Boxes if columns > 32 => 70 + rows + rows * columns / 40,
        Reads::Boxes => 160 + 2 * rows + rows * columns / 128,
        Reads::Elements => 16 * ampere,
        _ => 4 * ampere,
    };
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
