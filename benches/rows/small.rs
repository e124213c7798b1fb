//! What a launch takes of a case that memory does not bound, beside one of an empty kernel.

use std::time::Instant;

use tilewright::{Device, Event, Stream};
use tilewright_support::Result;
use tilewright_support::empty::EmptyKernel;
use tilewright_support::timing::{Timing, Variant, compare};

use crate::common::options;
use crate::problem::{By, ByKernel};

/// Launches on a stream between two events, and how often.
const LAUNCHES: usize = 500;
const ROUNDS: usize = 20;

/// Prints a case's time and its ratio to the empty kernel's in a graph whose launches overlap, in one whose launches do not, and by launches on a stream; there the
/// host's time too.
pub fn line(device: &Device, problem: &dyn ByKernel) -> Result<()> {
    problem.check(&Stream::new(device)?)?;
    let empty = EmptyKernel::new()?;
    print!("| {} |", problem.case());
    for overlap in [true, false] {
        let by = By { overlap, ..By::CHOSEN };
        let variants = [
            Variant::new("empty", |stream: &Stream, _| empty.launch(stream, overlap)),
            Variant::new("tilewright", |stream: &Stream, set| problem.launch_by(stream, set, by)),
        ];
        let timings = compare(device, &variants, &options(problem.sets()))?;
        let us: Vec<_> = timings.iter().map(|timing| timing.median() * 1e3).collect();
        print!(" {:.2} | {:.2} | **{:.2}** |", us[0], us[1], us[1] / us[0]);
    }
    let stream = Stream::new(device)?;
    let (mut of_empty, mut of_case) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        of_empty.push(on_stream(&stream, |stream, _| empty.launch(stream, true))?);
        of_case.push(on_stream(&stream, |stream, i| problem.launch(stream, i % problem.sets()))?);
    }
    let [empty, case] =
        [of_empty, of_case].map(|all| [0, 1].map(|i| median(all.iter().map(|us| us[i]).collect())));
    println!(
        " {:.2} | {:.2} | **{:.2}** | {:.2} | {:.2} |",
        empty[0],
        case[0],
        case[0] / empty[0],
        empty[1],
        case[1]
    );
    Ok(())
}

fn median(ms: Vec<f64>) -> f64 {
    let mut timing = Timing { name: String::new(), ms };
    timing.ms.sort_by(f64::total_cmp);
    timing.median()
}

/// Microseconds of a launch, between events, and until the host has queued it.
fn on_stream(stream: &Stream, launch: impl Fn(&Stream, usize) -> tilewright::Result<()>) -> Result<[f64; 2]> {
    let (start, end) = (Event::new(stream.device())?, Event::new(stream.device())?);
    stream.synchronize()?;
    stream.record(&start)?;
    let begin = Instant::now();
    (0..LAUNCHES).try_for_each(|i| launch(stream, i))?;
    let host = begin.elapsed().as_secs_f64() * 1e6;
    stream.record(&end)?;
    let device = f64::from(start.elapsed_ms(&end)?) * 1e3;
    Ok([device, host].map(|us| us / LAUNCHES as f64))
}
