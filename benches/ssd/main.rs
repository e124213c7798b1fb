//! Speed of the state-space operators: the scan, whole and in chunks, its step of one token, the causal convolution, the gradients of both;
//! the scan and its gradient beside mamba-ssm's Triton kernels.
//!
//! ```text
//! cargo bench --bench ssd                       criterion's measurements, and the table of what it measured
//! cargo bench --bench ssd -- --table [WORDS]    the table alone
//! ```
//!
//! WORDS select cases, by words of their names: `scan bf16 b8 s4096`; shapes of your own are batches, tokens and heads: `3x777x48 gradient`. The table takes a CUDA graph over rotating tensors of each, in one run and in
//! shuffled order, and gives medians. mamba-ssm runs where Python finds it, in a process that takes turns with this one. TFLOP/s count what a scan in
//! chunks of 256 does, as others count it; bytes are the least that moves: tensors once, states once.

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
use problem::problem;
use turns::Peer;

fn main() -> ExitCode {
    common::main(run)
}

fn run(device: &Device, arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((mode, words)) if mode == "--table" => tabulate(device, &case::selected(words)?),
        _ => {
            let throughput = |case: &Case| Throughput::Bytes(case.bytes() as u64);
            let measured = measure::all(device, "ssd", &case::all(), throughput, |case| {
                let problem = problem(device, case)?;
                Ok(Work::new(problem.sets(), move |stream, set| problem.launch(stream, set)))
            })?;
            if measured.is_empty() { Ok(()) } else { tabulate(device, &measured) }
        }
    }
}

/// Prints the table of these cases.
fn tabulate(device: &Device, cases: &[Case]) -> Result<()> {
    let peer = Peer::start(include_str!("mamba.py"));
    let peer = common::introduce(device, peer, |peer| peer.versions().to_owned());
    println!(
        "\n| case | kernel | µs | TFLOP/s | GB/s | mamba-ssm, µs | of it | its chunk state | its chunk scan |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut spread = 0.0f64;
    for &case in cases {
        let problem = problem(device, case)?;
        problem.check(&Stream::new(device)?)?;
        let options = common::options(problem.sets());
        let mut variants =
            vec![Variant::new("tilewright", |stream: &Stream, set| problem.launch(stream, set))];
        if let Some(peer) = &peer
            && peer::prepared(peer, &case, peer::whole(&case), problem.sets())
        {
            variants.push(Variant::elsewhere("mamba-ssm", || peer.turn()));
        }
        let timings = compare(device, &variants, &options)?;
        let timing = timings.first().ok_or("nothing was measured")?;
        let ms = timing.median();
        let (flops, bytes) = (case.flops() as f64 / ms / 1e9, case.bytes() as f64 / ms / 1e6);
        print!("| {case} | `{}` | {:.2} | {flops:.0} | {bytes:.0} |", problem.kernel()?, ms * 1e3);
        match timings.get(1) {
            Some(peer) => print!(" {:.2} | **{:.2}** |", peer.median() * 1e3, peer.median() / ms),
            None => print!(" | |"),
        }
        for part in peer::PARTS {
            let part = peer::whole(&case).filter(|&whole| whole == "scan").map(|_| part);
            match &peer {
                Some(peer) if peer::prepared(peer, &case, part, problem.sets()) => {
                    let part = [Variant::elsewhere("mamba-ssm", || peer.turn())];
                    let timings = compare(device, &part, &options)?;
                    print!(" {:.2} |", timings.first().map_or(f64::NAN, |part| part.median() * 1e3));
                }
                _ => print!(" |"),
            }
        }
        println!();
        spread = spread.max((timing.quantile(0.75) - timing.quantile(0.25)) / ms);
    }
    println!("\nQuartiles lie at most {:.1}% of the median apart.", spread * 100.0);
    Ok(())
}
