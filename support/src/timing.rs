//! Comparing variants in one run.
//!
//! A GPU's clock moves by a tenth with its temperature and power, so numbers of different runs do not compare, and
//! neither do those of a fixed order. [`compare`] measures all variants many times in shuffled order and gives medians.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use tilewright::{Device, Event, Graph, Result, Stream, Tensor};

/// One of the things to be compared.
pub struct Variant<'a> {
    name: String,
    work: Work<'a>,
}

enum Work<'a> {
    Launch(Box<Launch<'a>>),
    Elsewhere(Box<Turn<'a>>),
}

type Launch<'a> = dyn Fn(&Stream, usize) -> Result<()> + 'a;
type Turn<'a> = dyn Fn() -> crate::Result<f64> + 'a;

impl<'a> Variant<'a> {
    /// `launch` queues the work once, on the inputs of the given number.
    pub fn new(name: impl Into<String>, launch: impl Fn(&Stream, usize) -> Result<()> + 'a) -> Self {
        Self { name: name.into(), work: Work::Launch(Box::new(launch)) }
    }

    /// `turn` takes one measurement itself, as another process does: it gives the milliseconds of one launch.
    pub fn elsewhere(name: impl Into<String>, turn: impl Fn() -> crate::Result<f64> + 'a) -> Self {
        Self { name: name.into(), work: Work::Elsewhere(Box::new(turn)) }
    }
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of input sets: see [`sets`].
    pub sets: usize,
    /// Measurements of each variant.
    pub rounds: usize,
    /// How long one measurement shall take at least.
    pub burst: Duration,
    /// How long all variants take turns, at least once each, before what they take counts.
    pub warm_up: Duration,
    /// Pause before each measurement, so that the GPU cools.
    pub idle: Duration,
    /// Instead of graphs over rotating inputs: single launches, each after the L2 cache was overwritten.
    pub flush_l2: bool,
    /// Of the order.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sets: 3,
            rounds: 30,
            burst: Duration::from_millis(2),
            warm_up: Duration::ZERO,
            idle: Duration::ZERO,
            flush_l2: false,
            seed: 1,
        }
    }
}

/// What came of a variant.
#[derive(Clone, Debug)]
pub struct Timing {
    /// The variant's name.
    pub name: String,
    /// Milliseconds of one launch, of each measurement, ascending.
    pub ms: Vec<f64>,
}

impl Timing {
    /// The median, in milliseconds.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The value below which this share of the measurements lies.
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.ms.len().saturating_sub(1);
        self.ms.get((share * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
    }
}

/// How many sets of inputs of `bytes` bytes it takes so that none is left in the L2 cache when its turn comes again:
/// four times the cache, and at least three.
pub fn sets(device: &Device, bytes: usize) -> usize {
    (4 * device.l2_bytes()).div_ceil(bytes.max(1)).clamp(3, 64)
}

/// Measures the variants, in shuffled order, each as often.
pub fn compare(device: &Device, variants: &[Variant<'_>], options: &Options) -> crate::Result<Vec<Timing>> {
    let stream = Stream::new(device)?;
    let mut measured = Vec::new();
    for variant in variants {
        measured.push(match &variant.work {
            Work::Elsewhere(turn) => Measured::Elsewhere(turn),
            Work::Launch(launch) if options.flush_l2 => {
                Measured::Single(launch, RefCell::new(Tensor::zeros(device, &[4 * device.l2_bytes()])?))
            }
            Work::Launch(launch) => record(&stream, launch, options)?,
        });
    }
    let mut timings: Vec<_> = variants
        .iter()
        .map(|v| Timing { name: v.name.clone(), ms: Vec::with_capacity(options.rounds) })
        .collect();
    let mut order: Vec<_> = (0..variants.len()).collect();
    let mut generator = StdRng::seed_from_u64(options.seed);
    let mut turns = |round| -> crate::Result<Vec<f64>> {
        order.shuffle(&mut generator);
        let mut ms = vec![f64::NAN; order.len()];
        for &i in &order {
            std::thread::sleep(options.idle);
            ms[i] = measured[i].measure(&stream, round, options)?;
        }
        Ok(ms)
    };
    let begin = Instant::now();
    turns(0)?;
    while begin.elapsed() < options.warm_up {
        turns(0)?;
    }
    for round in 1..=options.rounds {
        for (timing, ms) in timings.iter_mut().zip(turns(round)?) {
            timing.ms.push(ms);
        }
    }
    for timing in &mut timings {
        timing.ms.sort_by(f64::total_cmp);
    }
    Ok(timings)
}

enum Measured<'v, 'a> {
    /// A graph of so many launches.
    Replay(Graph, usize),
    /// Single launches, and what to overwrite the cache with.
    Single(&'v Launch<'a>, RefCell<Tensor<u8>>),
    /// What measures itself.
    Elsewhere(&'v Turn<'a>),
}

/// Captures enough launches, over all the inputs, to fill the burst.
fn record<'v, 'a>(
    stream: &Stream,
    launch: &'v Launch<'a>,
    options: &Options,
) -> crate::Result<Measured<'v, 'a>> {
    let sets = options.sets.max(1);
    let cycles =
        |count: usize| stream.capture(|stream| (0..count * sets).try_for_each(|i| launch(stream, i % sets)));
    launch(stream, 0)?;
    let once = Measured::Replay(cycles(1)?, sets);
    once.measure(stream, 0, options)?;
    let ms = once.measure(stream, 0, options)?;
    let cycle = (ms * sets as f64).max(1e-3);
    let count = (options.burst.as_secs_f64() * 1e3 / cycle).ceil().clamp(1.0, 1000.0) as usize;
    Ok(match count {
        1 => once,
        _ => Measured::Replay(cycles(count)?, count * sets),
    })
}

impl Measured<'_, '_> {
    /// Milliseconds of one launch.
    fn measure(&self, stream: &Stream, round: usize, options: &Options) -> crate::Result<f64> {
        let device = stream.device();
        let (start, end) = (Event::new(device)?, Event::new(device)?);
        match self {
            Measured::Replay(graph, launches) => {
                stream.record(&start)?;
                // SAFETY: the variant, and with it the memory that it borrows, outlives the measurement.
                unsafe { graph.launch(stream)? };
                stream.record(&end)?;
                Ok(f64::from(start.elapsed_ms(&end)?) / *launches as f64)
            }
            Measured::Elsewhere(turn) => turn(),
            Measured::Single(launch, cache) => {
                // The fill takes longer than queueing what follows, so the launch's own overhead is not seen.
                cache.borrow_mut().fill(stream, round as u8)?;
                stream.record(&start)?;
                launch(stream, round % options.sets.max(1))?;
                stream.record(&end)?;
                Ok(f64::from(start.elapsed_ms(&end)?))
            }
        }
    }
}

/// Host microseconds of one call of `f`: the median over batches of calls, after which the stream is emptied.
pub fn host_us(stream: &Stream, mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    const BATCH: u32 = 50;
    let mut times = Vec::new();
    for _ in 0..21 {
        let start = Instant::now();
        for _ in 0..BATCH {
            f()?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH));
        stream.synchronize()?;
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
