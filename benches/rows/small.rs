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

/// Prints a case's time and its ratio to the empty kernel's in a graph whose launches overlap, in one whose launches do not, and by launches on a stream, of calls and
/// of a plan, whose ratio it is; there the host's time too.
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
    let (planned, mut all) = (problem.planned()?, [const { Vec::new() }; 3]);
    for _ in 0..ROUNDS {
        all[0].push(on_stream(&stream, |stream, _| empty.launch(stream, true))?);
        all[1].push(on_stream(&stream, |stream, i| problem.launch(stream, i % problem.sets()))?);
        all[2].push(on_stream(&stream, |stream, i| planned(stream, i % problem.sets()))?);
    }
    // On the stream, and on the host.
    for at in [0, 1] {
        let [empty, call, plan] =
            all.each_ref().map(|rounds| median(rounds.iter().map(|us| us[at]).collect()));
        print!(" {empty:.2} | {call:.2} | {plan:.2} | **{:.2}** |", plan / empty);
    }
    println!();
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
