//! How long operators take on the emulator.
//!
//! ```text
//! cargo bench --bench emulator [-- FILTER]
//! ```
//!
//! Criterion's measurements, in which an element is a multiplication or an addition, and a table of their medians.

mod case;

use std::cell::RefCell;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput};
use tilewright::{Arch, Device};
use tilewright_support::Result;

use case::Case;

fn main() -> Result<()> {
    let device = Device::emulator();
    let mut cases = Vec::new();
    for arch in [Arch::Sm90a, Arch::Sm80] {
        cases.push(Case::gemm(&device, arch, 512)?);
        cases.push(Case::attention(&device, arch, 2, 512)?);
        cases.push(Case::mla(&device, arch, 64, 1024)?);
    }
    cases.sort_by(|x, y| x.name().cmp(y.name()));
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(5))
        .configure_from_args();
    let mut group = criterion.benchmark_group("emulator");
    group.sampling_mode(SamplingMode::Flat);
    let mut rows = Vec::new();
    for case in &cases {
        group.throughput(Throughput::Elements(case.flops() as u64));
        let seconds = RefCell::new(Vec::new());
        group.bench_function(case.name(), |bencher| {
            bencher.iter_custom(|times| {
                let start = Instant::now();
                (0..times)
                    .for_each(|_| case.run().unwrap_or_else(|error| panic!("{}: {error}", case.name())));
                let time = start.elapsed();
                seconds.borrow_mut().push(time.as_secs_f64() / times as f64);
                time
            });
        });
        rows.push((case, seconds.into_inner()));
    }
    group.finish();
    println!("| case | kernel | ms | GFLOP/s | at best |\n| --- | --- | ---: | ---: | ---: |");
    for (case, mut seconds) in rows.into_iter().filter(|(_, seconds)| !seconds.is_empty()) {
        seconds.sort_by(f64::total_cmp);
        let (least, median) = (seconds[0], seconds[seconds.len() / 2]);
        let rate = |seconds: f64| case.flops() / seconds / 1e9;
        println!(
            "| {} | `{}` | {:.1} | {:.2} | {:.2} |",
            case.name(),
            case.kernel(),
            median * 1e3,
            rate(median),
            rate(least)
        );
    }
    Ok(())
}
