//! Which kernel computes a GEMM: an estimate of each one's time, from how tiles fill the SMs.

use std::fmt;

use super::problem::{Matrices, Size};
use super::table::{Compiled, Kind, kernels};
use crate::{Arch, Error, Result};

/// Bytes to which TMA and `cp.async` want addresses and strides aligned.
const ALIGNED: u32 = 16;
/// Depth that the estimate counts in.
const STEP: u64 = 64;

/// A kernel that could compute a GEMM, or why it could not.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub(super) kernel: &'static Compiled,
    /// Computes the transposed product.
    pub(super) transposed: bool,
    outcome: std::result::Result<Estimate, String>,
}

/// What a kernel would take.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    ctas: u64,
    waves: u64,
    cycles: u64,
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
        self.outcome.as_ref().ok().map(|estimate| estimate.cycles)
    }
    /// Why the kernel cannot compute this GEMM.
    pub fn rejection(&self) -> Option<&str> {
        self.outcome.as_ref().err().map(String::as_str)
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
    let swapped = matrices.t()?;
    let mut all = Vec::new();
    for kernel in kernels(kind) {
        // A kernel with a column-major C is made for the transposed product; a kernel with a row-major C computes that
        // when C itself is column-major.
        let transposed = !kernel.row_major[2] || (prefers_columns(matrices) && !kernel.any_strides);
        let matrices = if transposed { &swapped } else { matrices };
        let outcome = match rejection(kernel, matrices)? {
            Some(reason) => Err(reason),
            None => Ok(estimate(kernel, matrices.size, matrices.device.sm_count())),
        };
        all.push(Candidate { kernel, transposed, outcome });
    }
    all.sort_by_key(|c| (c.cycles().unwrap_or(u64::MAX), std::cmp::Reverse(c.tile())));
    Ok(all)
}

/// C's rows are contiguous and its columns are not.
fn prefers_columns(matrices: &Matrices) -> bool {
    let strides = matrices.c.layout.strides();
    matches!(strides, [.., rows, cols] if *rows == 1 && *cols > 1) && matrices.size.m > 1
}

/// The best kernel, or the one that is asked for by name.
pub(super) fn choose(matrices: &Matrices, kind: Kind, forced: Option<&str>) -> Result<(Candidate, String)> {
    let all = candidates(matrices, kind)?;
    if let Some(name) = forced {
        let found = all.iter().find(|c| c.name() == name);
        let reason = match found {
            Some(Candidate { outcome: Ok(_), .. }) => None,
            Some(candidate) => candidate.rejection().map(str::to_owned),
            None => {
                let (input, output, activation) = kind;
                Some(format!("not a kernel for {input} -> {output} with activation {activation}"))
            }
        };
        return match (found, reason) {
            (Some(candidate), None) => Ok((candidate.clone(), "asked for by name".to_owned())),
            (_, reason) => {
                let names: Vec<_> =
                    all.iter().filter(|c| c.cycles().is_some()).map(Candidate::name).collect();
                let was = format!("{name:?}, {}", reason.unwrap_or_default());
                Err(Error::argument("kernel", was, format!("one of {}", names.join(", "))))
            }
        };
    }
    let possible = all.iter().filter(|c| c.cycles().is_some()).count();
    match all.into_iter().next() {
        Some(best) if best.cycles().is_some() => {
            Ok((best, format!("the fastest by estimate of {possible} possible kernels")))
        }
        best => {
            let device = &matrices.device;
            let why =
                best.and_then(|c| c.outcome.err()).unwrap_or_else(|| "there is none of the kind".to_owned());
            Err(Error::UnsupportedGpu {
                device: device.name().into(),
                capability: device.compute_capability(),
                needs: format!("no GEMM kernel runs on it: {why}"),
            })
        }
    }
}

/// Why the kernel cannot compute it, if it cannot.
fn rejection(kernel: &Compiled, matrices: &Matrices) -> Result<Option<String>> {
    let device = &matrices.device;
    if !device.runs(kernel.arch) {
        return Ok(Some(format!("it is compiled for {}", kernel.arch.target())));
    }
    if kernel.shared_bytes > device.shared_memory_per_cta() {
        let (needs, has) = (kernel.shared_bytes, device.shared_memory_per_cta());
        return Ok(Some(format!("it needs {needs} bytes of shared memory, of {has}")));
    }
    if kernel.any_strides {
        return Ok(None);
    }
    if matrices.size.k == 0 {
        return Ok(Some("there is no depth to load".to_owned()));
    }
    let operands = [("A", &matrices.a, kernel.row_major[0]), ("B", &matrices.b, kernel.row_major[1])];
    for (name, operand, row_major) in operands {
        if operand.alignment(row_major)? < ALIGNED {
            let order = if row_major { "row" } else { "column" };
            return Ok(Some(format!("its {name} is {order}-major in lines aligned to 16 bytes")));
        }
    }
    Ok(None)
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
    let tiles = size.batch as u64 * (size.m as u64).div_ceil(m) * (size.n as u64).div_ceil(n);
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
