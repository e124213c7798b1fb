//! The table: this crate's GEMM beside cuBLAS's.

use std::fmt;

use tilewright::{Device, Stream};
use tilewright_support::Result;
use tilewright_support::cublas::{self, CublasLt};
use tilewright_support::reference::relative_error;
use tilewright_support::timing::{Timing, Variant, compare};

use crate::case::Case;
use crate::common::options;
use crate::problem::{Problem, forced};
use crate::rank;

/// Algorithms of cuBLAS that are measured: the first by its own heuristic.
const PEERS: usize = 8;

/// A case's line.
pub struct Row {
    case: Case,
    kernel: String,
    ours: Timing,
    /// Without programmatic dependent launch.
    apart: Timing,
    /// cuBLAS's own choice, and the best of its algorithms.
    peers: Option<[Timing; 2]>,
}

pub const HEADING: &str = "\
| case | kernel | ms | TFLOP/s | GB/s | without overlap | cuBLAS | best of its 8 | of cuBLAS | of its best |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |timing: &Timing| format!("{:.1}", self.case.flops() / timing.median() / 1e9);
        let ratio = |timing: &Timing| format!("{:.3}", timing.median() / self.ours.median());
        let ms = self.ours.median();
        let bandwidth = match self.case.skinny() {
            true => format!("{:.0}", self.case.bytes() as f64 / ms / 1e6),
            false => String::new(),
        };
        write!(f, "| {} | `{}` | {ms:.4} | **{}** ", self.case, self.kernel, rate(&self.ours))?;
        write!(f, "| {bandwidth} | {} ", rate(&self.apart))?;
        match &self.peers {
            Some([own, best]) => {
                write!(f, "| {} | {} | **{}** | {} |", rate(own), rate(best), ratio(own), ratio(best))
            }
            None => f.write_str("| | | | |"),
        }
    }
}

impl Row {
    /// How far apart the quartiles of this crate's measurements lie, as a share of the median.
    pub fn spread(&self) -> f64 {
        (self.ours.quantile(0.75) - self.ours.quantile(0.25)) / self.ours.median()
    }

    /// Measures a case.
    pub fn measure(device: &Device, cublas: Option<&CublasLt>, problem: &dyn Problem) -> Result<Self> {
        let forced = forced(problem)?;
        let kernel = problem.way(forced)?;
        let peer = cublas.map(|library| Peer::new(library, problem)).transpose()?;
        if let Some(peer) = &peer {
            check(device, peer, problem, forced)?;
        }
        let ours = |overlap| move |stream: &Stream, set| problem.launch(stream, set, forced, overlap);
        let mut variants =
            vec![Variant::new("tilewright", ours(true)), Variant::new("without overlap", ours(false))];
        if let Some(peer) = &peer {
            variants.extend((0..peer.algorithms()).map(|i| {
                Variant::new(format!("cuBLAS {i}"), move |stream: &Stream, set| peer.launch(stream, set, i))
            }));
        }
        let timings = compare(device, &variants, &options(problem.sets()))?;
        let mut timings = timings.into_iter();
        let (Some(ours), Some(apart)) = (timings.next(), timings.next()) else {
            return Err("nothing was measured".into());
        };
        let peers: Vec<_> = timings.collect();
        let best = peers.iter().min_by(|x, y| x.median().total_cmp(&y.median()));
        let peers = peers.first().zip(best).map(|(own, best)| [own.clone(), best.clone()]);
        Ok(Self { case: *problem.case(), kernel, ours, apart, peers })
    }
}

/// cuBLAS for a problem.
struct Peer<'a> {
    plan: cublas::Plan<'a>,
    problem: &'a dyn Problem,
}

impl<'a> Peer<'a> {
    fn new(library: &'a CublasLt, problem: &'a dyn Problem) -> Result<Self> {
        let Case { dtype, m, n, k, b_transposed, .. } = *problem.case();
        let asked = cublas::Gemm {
            input: dtype,
            output: dtype,
            m,
            n,
            k,
            a_transposed: false,
            b_transposed,
            batch: 1,
        };
        Ok(Self { plan: library.plan(&asked, PEERS)?, problem })
    }

    fn algorithms(&self) -> usize {
        self.plan.algorithms()
    }

    fn launch(&self, stream: &Stream, set: usize, algorithm: usize) -> tilewright::Result<()> {
        let [a, b, c] = self.problem.addresses(set)?;
        // SAFETY: the problem's matrices are as was asked of cuBLAS, and one computation runs at a time.
        unsafe { self.plan.run(stream, algorithm, a, b, c) }
    }
}

/// Some rows of both results must agree to rounding. Against references in f64 the tests compare.
fn check(device: &Device, peer: &Peer<'_>, problem: &dyn Problem, forced: Option<&str>) -> Result<()> {
    let stream = Stream::new(device)?;
    problem.poison(&stream, 0)?;
    peer.launch(&stream, 0, 0)?;
    let expected: Vec<_> = problem.some_rows(&stream, 0)?.into_iter().map(f64::from).collect();
    problem.poison(&stream, 0)?;
    problem.launch(&stream, 0, forced, true)?;
    let error = relative_error(&problem.some_rows(&stream, 0)?, &expected);
    let allowed = 2.0 * problem.case().rounding();
    if error <= allowed {
        return Ok(());
    }
    let kernel = problem.way(forced)?;
    Err(format!("{}: {kernel} and cuBLAS differ by {error:.1e}, {allowed:.1e} is allowed", problem.case())
        .into())
}

/// Measures the kernels that can compute a case, and prints them beside their estimates.
pub fn kernels(device: &Device, problem: &dyn Problem) -> Result<()> {
    let (case, sets) = (problem.case(), problem.sets());
    let candidates = problem.candidates()?;
    for kernel in candidates.iter().filter(|kernel| kernel.cycles().is_some()) {
        problem.way(Some(kernel.name()))?;
    }
    let estimates = candidates.iter().map(|c| (c.name(), c.cycles())).collect();
    rank::kernels(device, case, case.flops(), sets, estimates, |stream, set, name| {
        problem.launch(stream, set, Some(name), true)
    })
}
