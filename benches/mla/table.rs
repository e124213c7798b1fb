//! The table: MLA decode beside the yardstick.

use std::fmt;

use tilewright::{Device, Stream};
use tilewright_support::Result;
use tilewright_support::timing::{Options, Timing, Variant, compare};

use crate::case::Case;
use crate::problem::Problem;
use crate::yardstick::Yardstick;

/// A case's line.
pub struct Row {
    case: Case,
    kernel: &'static str,
    /// Sequences that are cut into parts.
    cut: usize,
    ours: Timing,
    yardstick: Option<Timing>,
}

/// The table's first lines.
pub fn heading(with_yardstick: bool) -> &'static str {
    match with_yardstick {
        true => {
            "| case | kernel | cut | ms | TFLOP/s | GB/s | cuBLAS 8192³ | of it |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
        }
        false => "| case | kernel | cut | ms | TFLOP/s | GB/s |\n| --- | --- | ---: | ---: | ---: | ---: |",
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.ours.median();
        let (rate, bandwidth) = (self.case.flops() / ms / 1e9, self.case.bytes() / ms / 1e6);
        write!(f, "| {} | `{}` | {} ", self.case, self.kernel, self.cut)?;
        write!(f, "| {ms:.4} | **{rate:.0}** | **{bandwidth:.0}** |")?;
        let Some(yardstick) = &self.yardstick else { return Ok(()) };
        let of = Yardstick::rate(yardstick.median());
        write!(f, " {of:.0} | {:.3} |", rate / of)
    }
}

impl Row {
    /// How far apart the quartiles of the measurements lie, as a share of the median.
    pub fn spread(&self) -> f64 {
        (self.ours.quantile(0.75) - self.ours.quantile(0.25)) / self.ours.median()
    }

    /// Measures a case.
    pub fn measure(
        device: &Device,
        yardstick: Option<&Yardstick<'_>>,
        problem: &dyn Problem,
        options: fn(usize) -> Options,
    ) -> Result<Self> {
        problem.check(&Stream::new(device)?)?;
        let ours = |stream: &Stream, set| problem.launch(stream, set);
        let mut variants = vec![Variant::new("tilewright", ours)];
        if let Some(yardstick) = yardstick {
            variants.push(Variant::new("cuBLAS", |stream: &Stream, _| yardstick.launch(stream)));
        }
        let mut timings = compare(device, &variants, &options(problem.sets()))?.into_iter();
        let ours = timings.next().ok_or("nothing was measured")?;
        let (kernel, cut) = problem.plan()?;
        Ok(Self { case: *problem.case(), kernel, cut, ours, yardstick: timings.next() })
    }
}
