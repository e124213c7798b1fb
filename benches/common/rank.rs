//! Kernels beside their estimates: for tuning the choice.

use std::fmt::Display;

use tilewright::{Device, Result, Stream};
use tilewright_support::timing::{Variant, compare};

/// A kernel's name and its estimated cycles; none if it cannot compute the case.
pub type Estimate = (&'static str, Option<u64>);

/// Measures the kernels that can compute a case of so many operations, and prints them beside their estimates.
///
/// The first of `kernels` are the best by estimate; `launch` queues one on the inputs of a number.
pub fn kernels(
    device: &Device,
    case: &dyn Display,
    flops: f64,
    sets: usize,
    mut kernels: Vec<Estimate>,
    launch: impl Fn(&Stream, usize, &'static str) -> Result<()>,
) -> tilewright_support::Result<()> {
    let best = kernels.first().and_then(|(_, cycles)| *cycles).unwrap_or(0);
    // Those that read element by element would take most of the time.
    kernels.retain(|(_, cycles)| cycles.is_some_and(|cycles| cycles <= best.saturating_mul(6)));
    let launch = &launch;
    let variant = |name| Variant::new(name, move |stream: &Stream, set| launch(stream, set, name));
    let variants: Vec<_> = kernels.iter().map(|&(name, _)| variant(name)).collect();
    let timings = compare(device, &variants, &crate::common::options(sets))?;
    let mut rows: Vec<_> = kernels.iter().zip(&timings).enumerate().collect();
    rows.sort_by(|(_, (_, x)), (_, (_, y))| x.median().total_cmp(&y.median()));
    let fastest = rows.first().map_or(f64::NAN, |(_, (_, timing))| timing.median());
    println!("\n{case}\n");
    println!("| kernel | ms | TFLOP/s | of the fastest | rank by estimate | estimated cycles |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for (i, ((name, cycles), timing)) in rows {
        let (ms, rate) = (timing.median(), flops / timing.median() / 1e9);
        let cycles = cycles.unwrap_or_default();
        println!("| `{name}` | {ms:.4} | {rate:.1} | {:.3} | {} | {cycles} |", fastest / ms, i + 1);
    }
    Ok(())
}
