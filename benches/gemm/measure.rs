//! Criterion's measurements, which it keeps and compares with those of earlier runs.

use std::time::Duration;

use criterion::{Criterion, SamplingMode, Throughput};
use tilewright::{Device, Event, Result, Stream};

use crate::case::{self, Case};
use crate::problem::{Matrices, Problem, kernel};

/// Measures the cases that the program's arguments select; gives those, unless they were only listed or tried.
pub fn all(device: &Device) -> tilewright_support::Result<Vec<Case>> {
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    let cases = case::all();
    let matrices = Matrices::new(device, &cases);
    let mut measured = Vec::new();
    let mut group = criterion.benchmark_group("gemm");
    group.sampling_mode(SamplingMode::Flat);
    for &case in &cases {
        // An element is a multiplication or an addition.
        group.throughput(Throughput::Elements(case.flops() as u64));
        let problem = matrices.problem(case)?;
        let kernel = kernel(&*problem)?;
        let mut cycle = None;
        group.bench_function(case.to_string(), |bencher| {
            measured.push(case);
            bencher.iter_custom(|launches| {
                let cycle = cycle.get_or_insert_with(|| Cycle::new(device, &*problem, kernel));
                let time = cycle.as_ref().map_err(Clone::clone).and_then(|cycle| cycle.time(launches));
                time.unwrap_or_else(|error| panic!("{case}: {error}"))
            });
        });
    }
    group.finish();
    measured.dedup();
    let only_tried = std::env::args().any(|argument| ["--test", "--list"].contains(&argument.as_str()));
    Ok(if only_tried { Vec::new() } else { measured })
}

/// A product on every set of inputs, recorded once.
struct Cycle {
    stream: Stream,
    graph: tilewright::Graph,
    launches: u64,
}

impl Cycle {
    fn new(device: &Device, problem: &dyn Problem, kernel: &str) -> Result<Self> {
        let stream = Stream::new(device)?;
        // Loads it.
        problem.launch(&stream, 0, Some(kernel), true)?;
        let sets = problem.sets();
        let graph = stream.capture(|stream| {
            (0..sets).try_for_each(|set| problem.launch(stream, set, Some(kernel), true))
        })?;
        Ok(Self { stream, graph, launches: sets as u64 })
    }

    /// Time on the device of so many launches, measured over whole cycles.
    fn time(&self, launches: u64) -> Result<Duration> {
        let device = self.stream.device();
        let (start, end) = (Event::new(device)?, Event::new(device)?);
        let cycles = launches.div_ceil(self.launches);
        self.stream.record(&start)?;
        for _ in 0..cycles {
            // SAFETY: the problem's matrices outlive the measurement, which waits for the end.
            unsafe { self.graph.launch(&self.stream)? };
        }
        self.stream.record(&end)?;
        let ms = f64::from(start.elapsed_ms(&end)?) * launches as f64 / (cycles * self.launches) as f64;
        Ok(Duration::from_secs_f64(ms / 1e3))
    }
}
