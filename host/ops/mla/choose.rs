//! Which kernel computes it: the one that reads the cache by the largest copies.

use std::cmp::Reverse;
use std::fmt;

use super::problem::{Problem, wrong};
use super::table::{Compiled, kernels};
use crate::{Arch, Error, Result};

/// Bytes to which TMA and `cp.async` want addresses and strides aligned.
const ALIGNED: u32 = 16;

/// A kernel that could compute an MLA, or why it could not.
#[derive(Clone, Copy, Debug)]
pub struct MlaCandidate {
    pub(super) kernel: &'static Compiled,
    rejection: Option<Rejection>,
}

/// Why a kernel cannot compute it.
#[derive(Clone, Copy, Debug)]
enum Rejection {
    Architecture(Arch),
    SharedMemory { needs: u32, has: u32 },
    Columns([u32; 2]),
    Pages { rows: u32 },
    NoMap { operand: &'static str },
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Architecture(arch) => write!(f, "it is compiled for {}", arch.target()),
            Rejection::SharedMemory { needs, has } => {
                write!(f, "it needs {needs} bytes of shared memory, of {has}")
            }
            Rejection::Columns([d, dv]) => write!(f, "its keys have {d} columns, its values {dv}"),
            Rejection::Pages { rows } => write!(f, "its pages have a multiple of {rows} rows"),
            Rejection::NoMap { operand } => write!(f, "TMA cannot address its {operand}"),
        }
    }
}

impl MlaCandidate {
    /// The kernel's name, by which [`Mla::kernel`](super::Mla::kernel) forces it.
    pub fn name(&self) -> &'static str {
        self.kernel.name
    }
    /// Columns of queries and keys, and of values and output.
    pub fn columns(&self) -> [u32; 2] {
        self.kernel.columns
    }
    /// Rows of the cache that one copy reads.
    pub fn box_rows(&self) -> u32 {
        self.kernel.box_of[0]
    }
    /// Why the kernel cannot compute it.
    pub fn rejection(&self) -> Option<String> {
        self.rejection.map(|rejection| rejection.to_string())
    }
}

impl fmt::Display for MlaCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rejection {
            Some(reason) => write!(f, "{}: not possible, {reason}", self.name()),
            None => write!(f, "{}: {} rows of the cache a copy", self.name(), self.box_rows()),
        }
    }
}

/// Every kernel for the element type, the best first, the impossible ones last.
pub(super) fn candidates(problem: &Problem) -> Result<Vec<MlaCandidate>> {
    let backend = problem.device.backend();
    let mut readings = Vec::new();
    for (operand, tensor) in [("q", &problem.q), ("cache", &problem.cache.pool)] {
        let reading = tensor.reading(backend, true)?;
        if reading.align < ALIGNED {
            let was = format!("at {:#x}, of strides {:?} by rows", tensor.address, tensor.layout.strides());
            return wrong(operand, was, "of contiguous columns, in lines aligned to 16 bytes");
        }
        readings.push((operand, reading));
    }
    let no_map = readings.into_iter().find(|(_, reading)| !reading.tma).map(|(operand, _)| operand);
    let rate =
        |kernel: &'static Compiled| MlaCandidate { kernel, rejection: rejection(problem, kernel, no_map) };
    let mut all: Vec<_> = kernels(problem.element).map(rate).collect();
    all.sort_by_key(|candidate| (candidate.rejection.is_some(), Reverse(candidate.box_rows())));
    Ok(all)
}

fn rejection(problem: &Problem, kernel: &Compiled, no_map: Option<&'static str>) -> Option<Rejection> {
    let Problem { device, cache, columns, .. } = problem;
    if kernel.columns != *columns {
        return Some(Rejection::Columns(kernel.columns));
    }
    if !device.runs(kernel.arch) {
        return Some(Rejection::Architecture(kernel.arch));
    }
    let (needs, has) = (kernel.shared_bytes, device.shared_memory_per_cta());
    if needs > has {
        return Some(Rejection::SharedMemory { needs, has });
    }
    let [rows, _] = kernel.box_of;
    if !cache.is_dense() && !cache.rows.is_multiple_of(rows as usize) {
        return Some(Rejection::Pages { rows });
    }
    no_map.filter(|_| kernel.arch == Arch::Sm90a).map(|operand| Rejection::NoMap { operand })
}

/// The best kernel, or the one that is asked for by name.
pub(super) fn choose(problem: &Problem, forced: Option<&str>) -> Result<MlaCandidate> {
    let all = candidates(problem)?;
    let possible = || all.iter().filter(|candidate| candidate.rejection.is_none());
    let Some(name) = forced else {
        let device = &problem.device;
        return possible().next().copied().ok_or_else(|| {
            let of = |candidate: &&MlaCandidate| candidate.columns() == problem.columns;
            let why = all.iter().rev().find(of).and_then(MlaCandidate::rejection).unwrap_or_default();
            Error::UnsupportedGpu {
                device: device.name().into(),
                capability: device.compute_capability(),
                needs: format!("no MLA kernel runs on it: {why}"),
            }
        });
    };
    match all.iter().find(|candidate| candidate.name() == name) {
        Some(candidate) if candidate.rejection.is_none() => Ok(*candidate),
        candidate => {
            let not = || format!("not a kernel for {}", problem.element);
            let reason = candidate.and_then(MlaCandidate::rejection).unwrap_or_else(not);
            let names: Vec<_> = possible().map(MlaCandidate::name).collect();
            wrong("kernel", format!("{name:?}, {reason}"), format!("one of {}", names.join(", ")))
        }
    }
}
