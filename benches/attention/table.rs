//! The table: this crate's attention beside its peers.

use tilewright::{Device, Stream};
use tilewright_support::Result;
use tilewright_support::timing::{Timing, Variant, compare};

use crate::case::{Case, Kind};
use crate::common::options;
use crate::peer::Peer;
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

/// The table's first lines, for cases of a kind, beside peers of such names.
pub fn heading(kind: Kind, names: &[&str]) -> String {
    let rate = match kind {
        Kind::Prefill => "TFLOP/s",
        Kind::Decode => "GB/s",
    };
    match names {
        [first, ..] => format!(
            "| case | kernel | ms | {rate} | {} | of {first} | of the best |\n\
             | --- | --- | ---: | ---: |{} ---: | ---: |",
            names.join(" | "),
            " ---: |".repeat(names.len())
        ),
        [] => format!("| case | kernel | ms | {rate} |\n| --- | --- | ---: | ---: |"),
    }
}

impl Row {
    /// It, beside peers of such names.
    pub fn line(&self, names: &[&str]) -> String {
        let ms = self.ours.median();
        let mut line =
            format!("| {} | `{}` | {ms:.4} | **{:.0}** |", self.case, self.kernel, self.case.rate(ms));
        let Some(peers) = &self.peers else { return line };
        let of = |name: &str| peers.iter().find(|peer| peer.name == name).map(Timing::median);
        for name in names {
            line += &of(name).map_or(" |".to_owned(), |ms| format!(" {:.0} |", self.case.rate(ms)));
        }
        let best = peers.iter().map(Timing::median).min_by(f64::total_cmp);
        for (other, mark) in [(names.first().and_then(|first| of(first)), "**"), (best, "")] {
            line += &other.map_or(" |".to_owned(), |other| format!(" {mark}{:.3}{mark} |", other / ms));
        }
        line
    }
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
