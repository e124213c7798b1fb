//! All kernels of a case, beside their estimates.

use tilewright::{Device, Stream};
use tilewright_support::Result;
use tilewright_support::timing::{Variant, compare};

use crate::common::options;
use crate::problem::ByKernel;

/// How many times what the best one should take a kernel may, to be measured.
const SLOWEST: u64 = 3;

/// Prints the time of every kernel that can compute a case and is not much slower by its estimate, beside that.
pub fn kernels(device: &Device, problem: &dyn ByKernel) -> Result<()> {
    let mut all = problem.kernels()?;
    let most = all.first().map_or(0, |(_, cycles)| cycles.saturating_mul(SLOWEST));
    all.retain(|&(_, cycles)| cycles <= most);
    for &(name, _) in &all {
        problem.check_by(&Stream::new(device)?, Some(name))?;
    }
    let variant = |&(name, _)| {
        Variant::new(name, move |stream: &Stream, set| problem.launch_by(stream, set, Some(name)))
    };
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
