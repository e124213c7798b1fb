//! Speed of attention's gradients beside those of PyTorch's attention, by cuDNN and by its flash-attention 2.
//!
//! ```text
//! cargo bench --bench attention_gradient                       criterion's measurements, and the table of what it measured
//! cargo bench --bench attention_gradient -- --table [WORDS]    the table alone
//! cargo bench --bench attention_gradient -- --kernels [WORDS]  the kernels of keys that are worth a try
//! ```
//!
//! WORDS select cases, by words of their names: `b4 s4096 d128 causal`; shapes that stand in no table by their sequences, length, heads, heads of keys and columns:
//! `2x777x24x8x96,1x5000x16x16x128 causal`. The table takes a CUDA graph over rotating tensors of each, in one run and in
//! shuffled order, and gives medians. PyTorch runs in a process that takes turns with this one. TFLOP/s count five products, of a causal mask half.

mod case;
#[path = "../common/mod.rs"]
mod common;
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
use problem::{Way, problem};
use turns::Peer;

/// What PyTorch computes gradients with.
const PEERS: [&str; 2] = ["cuDNN", "flash"];

fn main() -> ExitCode {
    common::main(run)
}

fn run(device: &Device, arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((mode, words)) if mode == "--table" => tabulate(device, &case::selected(words)?),
        Some((mode, words)) if mode == "--kernels" => {
            case::selected(words)?.into_iter().try_for_each(|case| kernels(device, case))
        }
        _ => {
            let throughput = |case: &Case| Throughput::Elements(case.flops() as u64);
            let measured = measure::all(device, "attention_gradient", &case::all(), throughput, |case| {
                let problem = problem(device, case)?;
                Ok(Work::new(problem.sets(), move |stream, set| problem.launch(stream, set, Way::Chosen)))
            })?;
            if measured.is_empty() { Ok(()) } else { tabulate(device, &measured) }
        }
    }
}

/// Prints what each of a case's kernels takes.
fn kernels(device: &Device, case: Case) -> Result<()> {
    let problem = problem(device, case)?;
    let (problem, names) = (&problem, problem.kernels()?);
    println!("{case}");
    let variant = |name: &&'static str| {
        let way = Way::Kernel(name);
        Variant::new(*name, move |stream: &Stream, set| problem.launch(stream, set, way))
    };
    let variants: Vec<_> = names.iter().map(variant).collect();
    for timing in compare(device, &variants, &common::options(problem.sets()))? {
        let ms = timing.median();
        println!("  {}: {ms:.4} ms, {:.0} TFLOP/s", timing.name, case.flops() as f64 / ms / 1e9);
    }
    Ok(())
}

/// Prints the table of these cases.
fn tabulate(device: &Device, cases: &[Case]) -> Result<()> {
    // A process each: all take turns on one case.
    let start = || Peer::start(include_str!("sdpa.py"));
    let first = common::introduce(device, start(), |peer| peer.versions().to_owned());
    let peers: Vec<(&str, Peer)> = match first {
        Some(first) => PEERS.into_iter().zip([first, start()?]).collect(),
        None => Vec::new(),
    };
    println!("\n| case | kernel | ms | TFLOP/s | deterministic | cuDNN | of it | flash | of it |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut spread = 0.0f64;
    for &case in cases {
        let problem = problem(device, case)?;
        problem.check(&Stream::new(device)?)?;
        let options = common::options(problem.sets());
        let problem = &problem;
        let ours =
            |name, way| Variant::new(name, move |stream: &Stream, set| problem.launch(stream, set, way));
        let mut variants = vec![ours("chosen", Way::Chosen), ours("deterministic", Way::Deterministic)];
        for (name, peer) in &peers {
            let Case { batch, length, heads, kv_heads, columns, causal } = case;
            let causal = u8::from(causal);
            let sets = problem.sets();
            let words = format!("{name} {batch} {heads} {kv_heads} {length} {columns} {causal} {sets}");
            match peer.prepare(&words) {
                Ok(()) => variants.push(Variant::elsewhere(*name, || peer.turn())),
                Err(error) => eprintln!("{case}: {error}"),
            }
        }
        let timings = compare(device, &variants, &options)?;
        let ms = |name: &str| timings.iter().find(|timing| timing.name == name).map(|timing| timing.median());
        let rate = |ms: f64| case.flops() as f64 / ms / 1e9;
        let own = ms("chosen").ok_or("nothing was measured")?;
        print!("| {case} | `{}` | {own:.4} | {:.0} |", problem.kernel(Way::Chosen)?, rate(own));
        print!(" {:.0} |", ms("deterministic").map_or(f64::NAN, rate));
        for name in PEERS {
            match ms(name) {
                Some(peer) => print!(" {:.0} | **{:.2}** |", rate(peer), peer / own),
                None => print!(" | |"),
            }
        }
        println!();
        for timing in &timings {
            spread = spread.max((timing.quantile(0.75) - timing.quantile(0.25)) / timing.median());
        }
    }
    println!("\nQuartiles lie at most {:.1}% of the median apart.", spread * 100.0);
    Ok(())
}
