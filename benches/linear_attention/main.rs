//! Speed of linear attention: of the recurrence's operations, and of what it reads and writes, beside fla-core's Triton kernels.
//!
//! ```text
//! cargo bench --bench linear_attention                       criterion's measurements, and the table of what it measured
//! cargo bench --bench linear_attention -- --table [WORDS]    the table alone
//! cargo bench --bench linear_attention -- --kernels [WORDS]  every kernel that can compute a case
//! ```
//!
//! WORDS select cases, by words of their names: `gla b8 d128`; shapes of your own are batches, rows, heads and columns: `2x777x24x128 gla`. The table takes a CUDA graph over rotating inputs of each, in one run and in
//! shuffled order, and gives medians. fla-core runs where Python finds it, in a process that takes turns with this one.

mod case;
#[path = "../common/mod.rs"]
mod common;
mod peer;
mod problem;
#[path = "../common/python.rs"]
mod python;
#[path = "../common/shapes.rs"]
mod shapes;
#[path = "../common/turns.rs"]
mod turns;

use std::process::ExitCode;

use criterion::Throughput;
use tilewright::{Device, Stream};
use tilewright_support::Result;
use tilewright_support::timing::{Variant, compare};

use case::Case;
use common::measure::{self, Work};
use problem::Problem;
use turns::Peer;

fn main() -> ExitCode {
    common::main(run)
}

fn run(device: &Device, arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((mode, words)) if mode == "--table" => tabulate(device, &case::selected(words)?, false),
        Some((mode, words)) if mode == "--kernels" => tabulate(device, &case::selected(words)?, true),
        _ => {
            let throughput = |case: &Case| Throughput::Elements(case.flops() as u64);
            let measured = measure::all(device, "linear_attention", &case::all(), throughput, |case| {
                let problem = Problem::new(device, case)?;
                Ok(Work::new(problem.sets(), move |stream, set| problem.launch(stream, set, None)))
            })?;
            if measured.is_empty() { Ok(()) } else { tabulate(device, &measured, false) }
        }
    }
}

/// Prints the table of these cases beside the peer, with the chosen kernel; or of all kernels that can compute them.
fn tabulate(device: &Device, cases: &[Case], every: bool) -> Result<()> {
    let peer = if every { Err("not asked for".into()) } else { Peer::start(include_str!("fla.py")) };
    let peer = common::introduce(device, peer, |peer| peer.versions().to_owned());
    println!("\n| case | kernel | ms | TFLOP/s | GB/s | fla-core, ms | of it |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    for &case in cases {
        let problem = Problem::new(device, case)?;
        let kernels = problem.kernels()?;
        let names = kernels.iter().take(if every { kernels.len() } else { 1 });
        let problem = &problem;
        let mut variants: Vec<_> = names
            .map(|&name| {
                let forced = (every && kernels.len() > 1).then_some(name);
                Variant::new(name, move |stream: &Stream, set| problem.launch(stream, set, forced))
            })
            .collect();
        let ours = variants.len();
        if let Some(peer) = &peer
            && peer::prepared(peer, &case, problem.sets())
        {
            variants.push(Variant::elsewhere("fla-core", || peer.turn()));
        }
        let mut timings = compare(device, &variants, &common::options(problem.sets()))?;
        let theirs = timings.split_off(ours);
        for timing in timings {
            let ms = timing.median();
            let (tflops, gbs) = (case.flops() / ms / 1e9, case.bytes() / ms / 1e6);
            print!("| {case} | `{}` | {ms:.4} | **{tflops:.0}** | {gbs:.0} |", timing.name);
            match theirs.first() {
                Some(peer) => println!(" {:.4} | **{:.2}** |", peer.median(), peer.median() / ms),
                None => println!(" | |"),
            }
        }
    }
    Ok(())
}
