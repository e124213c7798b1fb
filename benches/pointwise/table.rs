//! The table: operators beside a copy of as many bytes.

use std::fmt;

use tilewright::{Device, Stream};
use tilewright_support::Result;
use tilewright_support::timing::{Timing, Variant, compare};

use crate::case::Case;
use crate::common::options;
use crate::problem::Problem;

/// A case's line.
pub struct Row {
    case: Case,
    kernel: &'static str,
    ours: Timing,
    copy: Timing,
}

/// The table's first lines.
pub const HEADING: &str =
    "| case | kernel | µs | GB/s | a copy, GB/s | of it |\n| --- | --- | ---: | ---: | ---: | ---: |";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let speed = |timing: &Timing| self.case.bytes() as f64 / timing.median() / 1e6;
        let (ours, copy) = (speed(&self.ours), speed(&self.copy));
        write!(f, "| {} | `{}` | {:.2} ", self.case, self.kernel, self.ours.median() * 1e3)?;
        write!(f, "| **{ours:.0}** | {copy:.0} | {:.3} |", ours / copy)
    }
}

impl Row {
    /// How far apart the quartiles of the measurements lie, as a share of the median.
    pub fn spread(&self) -> f64 {
        (self.ours.quantile(0.75) - self.ours.quantile(0.25)) / self.ours.median()
    }

    /// Measures a case.
    pub fn measure(device: &Device, problem: &dyn Problem) -> Result<Self> {
        let kernel = problem.check(&Stream::new(device)?)?;
        let variants = [
            Variant::new("tilewright", |stream: &Stream, set| problem.launch(stream, set)),
            Variant::new("copy", |stream: &Stream, set| problem.copy(stream, set)),
        ];
        let mut timings = compare(device, &variants, &options(problem.sets()))?.into_iter();
        let (Some(ours), Some(copy)) = (timings.next(), timings.next()) else {
            return Err("nothing was measured".into());
        };
        Ok(Self { case: problem.case(), kernel, ours, copy })
    }
}
