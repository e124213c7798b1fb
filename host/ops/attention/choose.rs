//! Which kernel computes an attention: an estimate of each one's time, from the blocks of keys that its tiles see.

use std::cmp::Reverse;
use std::fmt;

use tilewright_attention::AnySequences;

use super::problem::{Problem, Size};
use super::splits::{Split, mergeable, split};
use super::table::{Compiled, Way, blocks, kernels};
use crate::{Arch, Error, Result};

/// Bytes to which TMA and `cp.async` want addresses and strides aligned.
const ALIGNED: u32 = 16;
/// Elements of 16 bits in one piece of that size.
const PIECE: usize = 8;

/// A kernel that could compute an attention, or why it could not.
#[derive(Clone, Copy, Debug)]
pub struct AttentionCandidate {
    pub(super) kernel: Compiled,
    outcome: std::result::Result<Estimate, Rejection>,
}

/// What a kernel would take.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    tiles: u64,
    waves: u64,
    /// Launches, each for a part of V's columns.
    passes: u64,
    /// Parts of the keys.
    splits: u64,
    cycles: u64,
}

/// Why a kernel cannot compute an attention.
#[derive(Clone, Copy, Debug)]
enum Rejection {
    Architecture(Arch),
    SharedMemory { needs: u32, has: u32 },
    Wide { most: u32 },
    Unaligned { operand: &'static str },
    Ragged { operand: &'static str },
    NoMap { operand: &'static str },
    Cache,
    Packed,
    Apart,
    Whole,
    Merge,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Architecture(arch) => write!(f, "it is compiled for {}", arch.target()),
            Rejection::SharedMemory { needs, has } => {
                write!(f, "it needs {needs} bytes of shared memory, of {has}")
            }
            Rejection::Wide { most } => write!(f, "it has room for a head dimension of Q and K up to {most}"),
            Rejection::Unaligned { operand } => {
                write!(f, "the head dimension of its {operand} is contiguous, in lines aligned to 16 bytes")
            }
            Rejection::Ragged { operand } => {
                write!(f, "the lines of its {operand} are multiples of 16 bytes long")
            }
            Rejection::NoMap { operand } => write!(f, "TMA cannot address its {operand}"),
            Rejection::Cache => write!(f, "it reads keys of one length, not in pages"),
            Rejection::Packed => write!(f, "it reads sequences that lie one after the other"),
            Rejection::Apart => write!(f, "it reads sequences of one length"),
            Rejection::Whole => write!(f, "it does not divide the keys"),
            Rejection::Merge => write!(f, "it divides the keys of up to 65535 sequences"),
        }
    }
}

impl AttentionCandidate {
    /// The kernel's name, by which [`Attention::kernel`](super::Attention::kernel) forces it.
    pub fn name(&self) -> &'static str {
        self.kernel.name
    }
    /// Queries of its tiles, and keys of the blocks over which a tile walks.
    pub fn tile(&self) -> [u32; 2] {
        self.kernel.tile
    }
    /// The largest head dimension of Q and K, and that of V and O beyond which it is launched several times.
    pub fn columns(&self) -> [u32; 2] {
        self.kernel.columns
    }
    /// Stages of its pipelines of K and of V.
    pub fn stages(&self) -> u32 {
        self.kernel.stages
    }
    /// Parts into which it divides the keys; 0 when the kernel cannot compute this attention.
    pub fn splits(&self) -> u32 {
        self.outcome.map_or(0, |estimate| estimate.splits as u32)
    }
    /// Estimated time in cycles of an SM; `None` when the kernel cannot compute this attention.
    pub fn cycles(&self) -> Option<u64> {
        self.outcome.ok().map(|estimate| estimate.cycles)
    }
    /// Why the kernel cannot compute this attention.
    pub fn rejection(&self) -> Option<String> {
        self.outcome.err().map(|rejection| rejection.to_string())
    }

    /// The order of preference: by time, then larger tiles first, then impossible ones.
    fn rank(&self) -> (u64, Reverse<[u32; 2]>) {
        (self.cycles().unwrap_or(u64::MAX), Reverse(self.tile()))
    }
}

impl fmt::Display for AttentionCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Err(reason) => write!(f, "{}: not possible, {reason}", self.name()),
            Ok(Estimate { tiles, waves, passes, splits, cycles }) => {
                write!(f, "{}: {tiles} tiles in {waves} waves", self.name())?;
                if *splits > 1 {
                    write!(f, ", {splits} parts of the keys")?;
                }
                if *passes > 1 {
                    write!(f, ", {passes} times for parts of V")?;
                }
                write!(f, ", about {cycles} cycles")
            }
        }
    }
}

/// Every kernel of the kind, the fastest by estimate first, the impossible ones last.
pub(super) fn candidates(problem: &Problem) -> Result<Vec<AttentionCandidate>> {
    let mut all = rated(problem)?.collect::<Vec<_>>();
    all.sort_by_key(AttentionCandidate::rank);
    Ok(all)
}

/// The best kernel, or the one that is asked for by name.
pub(super) fn choose(problem: &Problem, forced: Option<&str>) -> Result<AttentionCandidate> {
    let all = rated(problem)?;
    let Some(name) = forced else {
        let best = all.min_by_key(AttentionCandidate::rank);
        return best.filter(|c| c.outcome.is_ok()).ok_or_else(|| {
            let device = &problem.device;
            let why =
                best.and_then(|c| c.rejection()).unwrap_or_else(|| "there is none of the kind".to_owned());
            Error::UnsupportedGpu {
                device: device.name().into(),
                capability: device.compute_capability(),
                needs: format!("no attention kernel runs on it: {why}"),
            }
        });
    };
    let reason = match all.clone().find(|c| c.name() == name) {
        Some(candidate) if candidate.outcome.is_ok() => return Ok(candidate),
        Some(candidate) => candidate.rejection().unwrap_or_default(),
        None => {
            let (element, score) = problem.kind;
            format!("not a kernel for {element} and {score} scores")
        }
    };
    let names: Vec<_> = all.filter(|c| c.outcome.is_ok()).map(|c| c.name()).collect();
    Err(Error::argument("kernel", format!("{name:?}, {reason}"), format!("one of {}", names.join(", "))))
}

fn rated(problem: &Problem) -> Result<impl Iterator<Item = AttentionCandidate> + Clone> {
    let backend = problem.device.backend();
    let [q, k, v] = problem.inputs.each_ref().map(|input| input.reading(backend, true));
    let readings = [q?, k?, v?];
    let sms = problem.device.sm_count();
    Ok(kernels(problem.kind).map(move |kernel| {
        let rejection = runs(problem, &kernel).or_else(|| {
            let reads = ["Q", "K", "V"].into_iter().zip(readings).zip([0, 0, 1]);
            // Without keys nothing is read.
            let reads = reads.filter(|_| problem.size.keys > 0 && !kernel.any_strides);
            reads.into_iter().find_map(|((operand, reading), of)| {
                // TMA cuts lines off where they end; cp.async copies whole pieces.
                let ragged = kernel.arch == Arch::Sm80 && !problem.size.columns[of].is_multiple_of(PIECE);
                if reading.align < ALIGNED {
                    Some(Rejection::Unaligned { operand })
                } else if kernel.arch == Arch::Sm90a && !reading.tma {
                    Some(Rejection::NoMap { operand })
                } else {
                    ragged.then_some(Rejection::Ragged { operand })
                }
            })
        });
        let outcome = rejection.map_or_else(|| Ok(estimate(problem, &kernel, sms)), Err);
        AttentionCandidate { kernel, outcome }
    }))
}

/// Why the kernel does not run, wherever the tensors lie.
fn runs(problem: &Problem, kernel: &Compiled) -> Option<Rejection> {
    let device = &problem.device;
    if !device.runs(kernel.arch) {
        return Some(Rejection::Architecture(kernel.arch));
    }
    let (needs, has) = (kernel.shared_bytes, device.shared_memory_per_cta());
    if needs > has {
        return Some(Rejection::SharedMemory { needs, has });
    }
    match (kernel.packed(), matches!(problem.sequences, AnySequences::Packed(_))) {
        (true, false) => return Some(Rejection::Packed),
        (false, true) => return Some(Rejection::Apart),
        _ => {}
    }
    if let Way::Queries(_) = kernel.way {
        if problem.cached.any() {
            return Some(Rejection::Cache);
        }
        if problem.splits.is_some() {
            return Some(Rejection::Whole);
        }
    } else if problem.splits.is_some_and(|splits| splits > 1) && !mergeable(&problem.size) {
        return Some(Rejection::Merge);
    }
    let [most, _] = kernel.columns;
    (problem.size.columns[0] > most as usize).then_some(Rejection::Wide { most })
}

/// The time of a persistent kernel: waves of tiles, each as many blocks of keys as a tile sees in the mean.
///
/// The constants are of an H200: of both products' steps 4096 take a cycle, of exponentials 16, of which half hide under the
/// products, with a third warpgroup three fifths; a tile's load and epilogue take some 2000 cycles, a launch 3000. `mma.sync` is
/// taken to have a quarter of that rate and to hide nothing, element-wise loads a sixteenth.
fn estimate(problem: &Problem, kernel: &Compiled, sms: u32) -> Estimate {
    let Size { batch, heads, queries, columns: [_, columns], .. } = problem.size;
    let passes = (columns as u64).div_ceil(u64::from(kernel.columns[1]));
    let (slowness, shown) = match (kernel.arch, kernel.any_strides) {
        (Arch::Sm90a, _) if kernel.tile[0] > 128 => (1, 40),
        (Arch::Sm90a, _) => (1, 50),
        (_, false) => (4, 100),
        (_, true) => (16, 100),
    };
    let Way::Queries(of) = kernel.way else {
        let Split { splits, items, cycles } = split(problem, kernel, sms, slowness);
        let cycles = cycles.saturating_add(3000).saturating_mul(passes);
        return Estimate {
            tiles: items,
            waves: items.div_ceil(u64::from(sms).max(1)),
            passes,
            splits,
            cycles,
        };
    };
    let [[m, n], [d, dv]] = [kernel.tile, kernel.columns].map(|pair| pair.map(u64::from));
    let along = (queries as u64).div_ceil(m);
    let tiles = (batch as u64).saturating_mul(heads as u64).saturating_mul(along);
    let waves = tiles.div_ceil(u64::from(sms).max(1));
    let block = m * n * (d + dv) / 4096 * slowness + m * n / 16 * shown / 100;
    let seen = |tile: u64| u64::from(blocks(of, &problem.keys, tile.min(u64::from(u32::MAX)) as u32));
    let last = along.saturating_sub(1);
    // Exact where all tiles see as many, and where each sees as many more.
    let four_tiles = (seen(0) + 2 * seen(last / 2) + seen(last)) * block;
    let cycles = waves.saturating_mul(four_tiles / 4 + 2000).saturating_add(3000).saturating_mul(passes);
    Estimate { tiles, waves, passes, splits: 1, cycles }
}
