//! The table: this crate's products beside PyTorch's.

use std::fmt;

use tilewright::{Device, Stream};
use tilewright_support::Result;
use tilewright_support::timing::{Timing, Variant, compare};

use crate::case::{Case, Of};
use crate::common::options;
use crate::problem::Problem;
use crate::rank;
use crate::turns::Peer;

/// A case's line.
pub struct Row {
    case: Case,
    kernel: &'static str,
    ours: Timing,
    /// Of gated units: the products, then their units.
    steps: Option<Timing>,
    peer: Option<Timing>,
}

pub const HEADING: &str = "\
| case | kernel | ms | TFLOP/s | GB/s | PyTorch | of PyTorch | two steps, ms |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.ours.median();
        let rate = |ms: f64| self.case.flops() / ms / 1e9;
        let bandwidth = self.case.bytes() as f64 / ms / 1e6;
        write!(f, "| {} | `{}` | {ms:.4} | **{:.1}** | {bandwidth:.0} ", self.case, self.kernel, rate(ms))?;
        match &self.peer {
            Some(peer) => write!(f, "| {:.1} | **{:.3}** |", rate(peer.median()), peer.median() / ms)?,
            None => f.write_str("| | |")?,
        }
        match &self.steps {
            Some(steps) => write!(f, " {:.4} |", steps.median()),
            None => f.write_str(" |"),
        }
    }
}

impl Row {
    /// How far apart the quartiles of this crate's measurements lie, as a share of the median.
    pub fn spread(&self) -> f64 {
        (self.ours.quantile(0.75) - self.ours.quantile(0.25)) / self.ours.median()
    }

    /// Measures a case. What PyTorch has no function for has no peer.
    pub fn measure(device: &Device, peer: Option<&Peer>, problem: &Problem) -> Result<Self> {
        let kernel = problem.candidates()?.first().ok_or("no kernel")?.0;
        let ours = |stream: &Stream, set| problem.launch(stream, set, None);
        let mut variants = vec![Variant::new("tilewright", ours)];
        let gated = problem.case.of == Of::Gated;
        if gated {
            variants
                .push(Variant::new("two steps", |stream: &Stream, set| problem.launch_steps(stream, set)));
        }
        let words = problem.case.words(problem.sets);
        if let Some(peer) = peer.filter(|peer| peer.prepare(&words).is_ok()) {
            variants.push(Variant::elsewhere("PyTorch", || peer.turn()));
        }
        let mut timings = compare(device, &variants, &options(problem.sets))?.into_iter();
        let ours = timings.next().ok_or("nothing was measured")?;
        let steps = if gated { timings.next() } else { None };
        Ok(Self { case: problem.case, kernel, ours, steps, peer: timings.next() })
    }
}

/// Measures the kernels that can compute a case, and prints them beside their estimates.
pub fn kernels(device: &Device, problem: &Problem) -> Result<()> {
    let estimates = problem.candidates()?;
    let case = &problem.case;
    rank::kernels(device, case, case.flops(), problem.sets, estimates, |stream, set, name| {
        problem.launch(stream, set, Some(name))
    })
}
