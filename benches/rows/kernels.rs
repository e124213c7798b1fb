//! All kernels of a case, beside their estimates.

use tilewright::{Device, Stream};
use tilewright_support::Result;
use tilewright_support::timing::{Variant, compare};

use crate::common::options;
use crate::problem::{By, ByKernel};

/// How many times what the best one should take a kernel may, to be measured.
const SLOWEST: u64 = 3;

fn by(name: &str) -> By<'_> {
    By { kernel: Some(name), ..By::CHOSEN }
}

/// Prints the time of every kernel that can compute a case and is not much slower by its estimate, beside that.
pub fn kernels(device: &Device, problem: &dyn ByKernel) -> Result<()> {
    let mut all = problem.kernels()?;
    let most = all.first().map_or(0, |(_, cycles)| cycles.saturating_mul(SLOWEST));
    all.retain(|&(_, cycles)| cycles <= most);
    let stream = Stream::new(device)?;
    // Where a build compiled some kernels alone, the others say so.
    all.retain(|(name, _)| {
        let checked = problem.check_by(&stream, by(name));
        checked.inspect_err(|error| println!("{name} is not measured: {error}")).is_ok()
    });
    if all.is_empty() {
        return Ok(());
    }
    let variant =
        |&(name, _)| Variant::new(name, move |stream: &Stream, set| problem.launch_by(stream, set, by(name)));
    let timings = compare(device, &all.iter().map(variant).collect::<Vec<_>>(), &options(problem.sets()))?;
    println!(
        "\n{}\n\n| kernel | estimate, cycles | µs | GB/s |\n| --- | ---: | ---: | ---: |",
        problem.case()
    );
    for (timing, (name, cycles)) in timings.iter().zip(all) {
        let ms = timing.median();
        let speed = problem.bytes() as f64 / ms / 1e6;
        println!("| `{name}` | {cycles} | {:.2} | {speed:.0} |", ms * 1e3);
    }
    Ok(())
}
