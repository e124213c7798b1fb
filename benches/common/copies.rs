//! Operators that memory bounds, beside a copy of as many bytes.

use std::fmt;

use tilewright::{Device, Element, Stream, Tensor};
use tilewright_support::empty::EmptyKernel;
use tilewright_support::random::normal;
use tilewright_support::timing::{Timing, Variant, compare};
use tilewright_support::{Real, Result};

use crate::common::{introduce, options};

/// A case that can be computed on a device, on one of several sets of tensors.
pub trait Problem {
    /// Its name.
    fn case(&self) -> String;
    /// The least that moves between memory and the SMs.
    fn bytes(&self) -> usize;
    /// Number of sets; it takes all of them to find none in the cache when it is used again.
    fn sets(&self) -> usize;
    /// The kernel that is chosen.
    fn kernel(&self) -> tilewright::Result<&'static str>;
    /// Queues it.
    fn launch(&self, stream: &Stream, set: usize) -> tilewright::Result<()>;
    /// Queues a copy of as many bytes.
    fn copy(&self, stream: &Stream, set: usize) -> tilewright::Result<()>;
    /// Computes it into an output that was not a number, and compares rows with a reference in f64.
    fn check(&self, stream: &Stream) -> Result<()>;
}

/// A case's line.
struct Row {
    case: String,
    bytes: usize,
    kernel: &'static str,
    ours: Timing,
    copy: Timing,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let speed = |timing: &Timing| self.bytes as f64 / timing.median() / 1e6;
        let (ours, copy) = (speed(&self.ours), speed(&self.copy));
        write!(f, "| {} | `{}` | {:.2} ", self.case, self.kernel, self.ours.median() * 1e3)?;
        write!(f, "| **{ours:.0}** | {copy:.0} | {:.3} |", ours / copy)
    }
}

impl Row {
    fn measure(device: &Device, problem: &dyn Problem) -> Result<Self> {
        problem.check(&Stream::new(device)?)?;
        let variants = [
            Variant::new("tilewright", |stream: &Stream, set| problem.launch(stream, set)),
            Variant::new("copy", |stream: &Stream, set| problem.copy(stream, set)),
        ];
        let mut timings = compare(device, &variants, &options(problem.sets()))?.into_iter();
        let (Some(ours), Some(copy)) = (timings.next(), timings.next()) else {
            return Err("nothing was measured".into());
        };
        Ok(Row { case: problem.case(), bytes: problem.bytes(), kernel: problem.kernel()?, ours, copy })
    }
    /// How far apart the quartiles of the measurements lie, as a share of the median.
    fn spread(&self) -> f64 {
        (self.ours.quantile(0.75) - self.ours.quantile(0.25)) / self.ours.median()
    }
}

/// Prints the table of these cases.
pub fn tabulate<'d, C: Copy>(
    device: &Device,
    cases: &[C],
    problem: impl Fn(C) -> tilewright::Result<Box<dyn Problem + 'd>>,
) -> Result<()> {
    introduce(device, Ok(()), |()| "beside copies of as many bytes from device to device".to_owned());
    println!(
        "\n| case | kernel | µs | GB/s | a copy, GB/s | of it |\n| --- | --- | ---: | ---: | ---: | ---: |"
    );
    let mut spread = 0.0f64;
    for &case in cases {
        let row = Row::measure(device, &*problem(case)?)?;
        println!("{row}");
        spread = spread.max(row.spread());
    }
    println!("\nQuartiles lie at most {:.1}% of the median apart.", spread * 100.0);
    if let Ok(empty) = EmptyKernel::new() {
        let variant = Variant::new("empty", |stream: &Stream, _| empty.launch(stream, true));
        let timings = compare(device, &[variant], &options(LAUNCHES))?;
        let least = timings.first().map_or(f64::NAN, Timing::median) * 1e3;
        println!("An empty kernel takes {least:.2} µs in such a graph.");
    }
    Ok(())
}

/// Launches of an empty kernel in a graph: as many as of small tensors.
const LAUNCHES: usize = 64;

/// Normally distributed elements, repeated as often as a tensor needs; an odd period keeps rows from being equal.
pub struct Random<T>(Tensor<T>);

impl<T: Real + Element> Random<T> {
    /// Of at most so many different ones.
    pub fn new(device: &Device, most: usize) -> tilewright::Result<Self> {
        let data = normal::<T>(1, most.min((1 << 22) - 77));
        Tensor::from_slice(device, &data, &[data.len()]).map(Random)
    }

    /// A tensor of them, when `stream` has come so far.
    pub fn tensor(&self, stream: &Stream, shape: &[usize]) -> tilewright::Result<Tensor<T>> {
        let (all, period) = (shape.iter().product(), self.0.len());
        let mut tensor = Tensor::<T>::uninit(self.0.device(), &[all])?;
        for start in (0..all).step_by(period.max(1)) {
            let len = period.min(all - start);
            let mut to = tensor.view_mut().narrow(0, start, len)?;
            to.copy_from(stream, &self.0.view().narrow(0, 0, len)?)?;
        }
        tensor.reshape(shape)
    }
}
