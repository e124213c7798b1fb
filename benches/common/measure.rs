//! Criterion's measurements, which it keeps and compares with those of earlier runs.

use std::fmt::Display;
use std::time::Duration;

use criterion::{Criterion, SamplingMode, Throughput};
use tilewright::{Device, Event, Result, Stream};

/// What is launched, on one of several sets of inputs.
pub struct Work<'a> {
    sets: usize,
    launch: Box<Launch<'a>>,
}

type Launch<'a> = dyn Fn(&Stream, usize) -> Result<()> + 'a;

impl<'a> Work<'a> {
    /// `launch` queues it once, on the inputs of the given number.
    pub fn new(sets: usize, launch: impl Fn(&Stream, usize) -> Result<()> + 'a) -> Self {
        Self { sets, launch: Box::new(launch) }
    }
}

/// Measures the cases that the program's arguments select; gives those, unless they were only listed or tried.
pub fn all<'a, C: Copy + Display + PartialEq>(
    device: &Device,
    group: &str,
    cases: &[C],
    throughput: impl Fn(&C) -> Throughput,
    work: impl Fn(C) -> tilewright_support::Result<Work<'a>>,
) -> tilewright_support::Result<Vec<C>> {
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    let mut measured = Vec::new();
    let mut group = criterion.benchmark_group(group);
    group.sampling_mode(SamplingMode::Flat);
    for &case in cases {
        group.throughput(throughput(&case));
        let work = work(case)?;
        let mut cycle = None;
        group.bench_function(case.to_string(), |bencher| {
            measured.push(case);
            bencher.iter_custom(|launches| {
                let cycle = cycle.get_or_insert_with(|| Cycle::new(device, &work));
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

/// Work on every set of inputs, recorded once.
struct Cycle {
    stream: Stream,
    graph: tilewright::Graph,
    launches: u64,
}

impl Cycle {
    fn new(device: &Device, Work { sets, launch }: &Work<'_>) -> Result<Self> {
        let stream = Stream::new(device)?;
        // Loads the kernel.
        launch(&stream, 0)?;
        let graph = stream.capture(|stream| (0..*sets).try_for_each(|set| launch(stream, set)))?;
        Ok(Self { stream, graph, launches: *sets as u64 })
    }

    /// Time on the device of so many launches, measured over whole cycles.
    fn time(&self, launches: u64) -> Result<Duration> {
        let device = self.stream.device();
        let (start, end) = (Event::new(device)?, Event::new(device)?);
        let cycles = launches.div_ceil(self.launches);
        self.stream.record(&start)?;
        for _ in 0..cycles {
            // SAFETY: what is launched outlives the measurement, which waits for the end.
            unsafe { self.graph.launch(&self.stream)? };
        }
        self.stream.record(&end)?;
        let ms = f64::from(start.elapsed_ms(&end)?) * launches as f64 / (cycles * self.launches) as f64;
        Ok(Duration::from_secs_f64(ms / 1e3))
    }
}
