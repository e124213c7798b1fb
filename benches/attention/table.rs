//! The table: this crate's attention beside its peers.

use std::fmt;

use tilewright::{Device, Stream};
use tilewright_support::Result;
use tilewright_support::timing::{Timing, Variant, compare};

use crate::case::{Case, Kind};
use crate::common::options;
use crate::peer::{NAMES, Peer};
use crate::problem::{Problem, kernel};
use crate::rank;

/// A case's line.
pub struct Row {
    case: Case,
    kernel: &'static str,
    ours: Timing,
    /// Those that can compute it; none if there are no peers at all.
    peers: Option<Vec<Timing>>,
}

/// The table's first lines, for cases of a kind.
pub fn heading(kind: Kind, with_peers: bool) -> String {
    let rate = match kind {
        Kind::Prefill => "TFLOP/s",
        Kind::Decode => "GB/s",
    };
    let peers = NAMES.join(" | ");
    match with_peers {
        true => format!(
            "| case | kernel | ms | {rate} | {peers} | of cuDNN | of the best |\n\
             | --- | --- | ---: | ---: |{} ---: | ---: |",
            " ---: |".repeat(NAMES.len())
        ),
        false => format!("| case | kernel | ms | {rate} |\n| --- | --- | ---: | ---: |"),
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.ours.median();
        write!(f, "| {} | `{}` | {ms:.4} | **{:.0}** |", self.case, self.kernel, self.case.rate(ms))?;
        let Some(peers) = &self.peers else { return Ok(()) };
        let of = |name| peers.iter().find(|peer| peer.name == name).map(Timing::median);
        for name in NAMES {
            match of(name) {
                Some(ms) => write!(f, " {:.0} |", self.case.rate(ms))?,
                None => f.write_str(" |")?,
            }
        }
        let best = peers.iter().map(Timing::median).min_by(f64::total_cmp);
        for (other, mark) in [(of(NAMES[0]), "**"), (best, "")] {
            match other {
                Some(other) => write!(f, " {mark}{:.3}{mark} |", other / ms)?,
                None => f.write_str(" |")?,
            }
        }
        Ok(())
    }
}

impl Row {
    /// How far apart the quartiles of this crate's measurements lie, as a share of the median.
    pub fn spread(&self) -> f64 {
        (self.ours.quantile(0.75) - self.ours.quantile(0.25)) / self.ours.median()
    }

    /// Measures a case.
    pub fn measure(device: &Device, peer: Option<&Peer>, problem: &dyn Problem) -> Result<Self> {
        let (case, kernel) = (*problem.case(), kernel(problem)?);
        problem.check(&Stream::new(device)?)?;
        let ours = |stream: &Stream, set| problem.launch(stream, set, Some(kernel));
        let mut variants = vec![Variant::new("tilewright", ours)];
        if let Some(peer) = peer {
            for name in peer.prepare(&case, problem.sets())? {
                variants.push(Variant::elsewhere(name.clone(), move || peer.turn(&name)));
            }
        }
        let mut timings = compare(device, &variants, &options(problem.sets()))?;
        let others = timings.split_off(1);
        let ours = timings.pop().ok_or("nothing was measured")?;
        Ok(Self { case, kernel, ours, peers: peer.map(|_| others) })
    }
}

/// Measures the kernels that can compute a case, and prints them beside their estimates.
pub fn kernels(device: &Device, problem: &dyn Problem) -> Result<()> {
    let (case, sets) = (problem.case(), problem.sets());
    let estimates = problem.candidates()?.iter().map(|c| (c.name(), c.cycles())).collect();
    rank::kernels(device, case, case.flops(), sets, estimates, |stream, set, name| {
        problem.launch(stream, set, Some(name))
    })
}
