//! What kernels take, side by side.

use crate::{Event, Graph, Result, Stream};

/// Milliseconds that a measurement shall take at least.
const BURST: f32 = 0.5;
/// Runs of a measurement at most.
const MOST: usize = 200;
/// Measurements of each kernel that may be the fastest.
const ROUNDS: usize = 11;
/// Those that take more than so many times the fastest at first are not measured again.
const HOPELESS: f32 = 1.3;
/// The share by which a kernel must be faster than the first one to be chosen instead.
const CLEARLY: f32 = 0.99;

/// The number of the kernel that is the fastest of so many, and its milliseconds.
///
/// `time` gives the milliseconds of one of so many runs of a kernel, one behind the other; `told` is told each kernel's once.
pub(super) fn fastest(
    kernels: usize,
    mut time: impl FnMut(usize, usize) -> Result<f32>,
    mut told: impl FnMut(usize, f32),
) -> Result<(usize, f32)> {
    let mut rough = Vec::with_capacity(kernels);
    for kernel in 0..kernels {
        // Loads it; what the first run takes says nothing.
        time(kernel, 1)?;
        let ms = time(kernel, 3)?;
        told(kernel, ms);
        rough.push(ms);
    }
    let least = rough.iter().copied().fold(f32::INFINITY, f32::min);
    let hopeful: Vec<_> = (0..kernels).filter(|&kernel| rough[kernel] <= least * HOPELESS).collect();
    let mut measured = vec![Vec::with_capacity(ROUNDS); kernels];
    for round in 0..ROUNDS {
        // The clock moves: each is as often behind the others as in front of them.
        for i in 0..hopeful.len() {
            let kernel = hopeful[if round % 2 == 0 { i } else { hopeful.len() - 1 - i }];
            let times = (BURST / rough[kernel].max(1e-6)).ceil() as usize;
            measured[kernel].push(time(kernel, times.clamp(1, MOST))?);
        }
    }
    let medians = hopeful.iter().map(|&kernel| (kernel, median(&mut measured[kernel])));
    let best = medians.reduce(|best, other| {
        let clearly = if best.0 == 0 { CLEARLY } else { 1.0 };
        if other.1 < best.1 * clearly { other } else { best }
    });
    Ok(best.unwrap_or((0, f32::NAN)))
}

fn median(ms: &mut [f32]) -> f32 {
    ms.sort_by(f32::total_cmp);
    ms.get(ms.len() / 2).copied().unwrap_or(f32::INFINITY)
}

/// Measures what a stream of its own takes.
pub(super) struct Timer {
    stream: Stream,
    events: [Event; 2],
}

impl Timer {
    /// Behind the work of `before`.
    pub(super) fn new(before: &Stream) -> Result<Self> {
        before.synchronize()?;
        let device = before.device();
        Ok(Timer { stream: Stream::new(device)?, events: [Event::new(device)?, Event::new(device)?] })
    }

    /// Milliseconds of one of so many runs, without the host's time.
    pub(super) fn time(&mut self, times: usize, mut run: impl FnMut(&Stream) -> Result<()>) -> Result<f32> {
        let graph: Graph = self.stream.capture(|stream| (0..times).try_for_each(|_| run(stream)))?;
        let [from, to] = &self.events;
        self.stream.record(from)?;
        // SAFETY: what `run` uses it holds, and it outlives the wait below.
        unsafe { graph.launch(&self.stream)? };
        self.stream.record(to)?;
        let ms = from.elapsed_ms(to)?;
        Ok(ms / times as f32)
    }
}
