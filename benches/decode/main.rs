//! A step of decoding in the shape of Llama 3 8B: where its time goes, operator by operator.
//!
//! ```text
//! cargo bench --bench decode                        criterion's measurements, and the table of what it measured
//! cargo bench --bench decode -- --table [WORDS]     the table alone
//! ```
//!
//! WORDS select cases: `u4 b1`. A step is all layers and the logits as one CUDA graph, over weights that are all different, with keys and values in pages. Beside it the same
//! without one of the operators, in the same run and in shuffled order: what an operator costs is what a step takes less without it,
//! which is less than it takes alone where it overlaps with its neighbours.

mod case;
#[path = "../common/mod.rs"]
mod common;
mod step;
mod weights;

use std::process::ExitCode;

use criterion::Throughput;
use tilewright::{Device, Stream};
use tilewright_support::Result;
use tilewright_support::timing::{Timing, Variant, compare};

use case::{Case, LAYERS};
use common::introduce;
use common::measure::{self, Work};
use step::{Operator, Step};

fn main() -> ExitCode {
    common::main(run)
}

fn run(device: &Device, arguments: &[String]) -> Result<()> {
    let cases = match arguments.split_first() {
        Some((mode, words)) if mode == "--table" => common::selected(case::all(), words)?,
        _ => {
            let throughput = |case: &Case| Throughput::Elements(case.batch as u64);
            measure::all(device, "decode", &case::all(), throughput, |case| {
                let step = Step::new(device, case)?;
                Ok(Work::new(1, move |stream, _| step.launch(stream, None)))
            })?
        }
    };
    introduce(device, Ok(()), |()| "steps of all layers, and without an operator".to_owned());
    cases.into_iter().try_for_each(|case| tabulate(device, case))
}

fn tabulate(device: &Device, case: Case) -> Result<()> {
    let step = Step::new(device, case)?;
    step.check()?;
    let variant = |without: Option<Operator>| {
        let name = without.map_or("all".to_owned(), |operator| operator.to_string());
        Variant::new(name, {
            let step = &step;
            move |stream: &Stream, _| step.launch(stream, without)
        })
    };
    let operators = Operator::ALL.into_iter().filter(|&operator| step.has(operator));
    let variants: Vec<_> = std::iter::once(None).chain(operators.map(Some)).map(variant).collect();
    let timings = compare(device, &variants, &common::options(1))?;
    let Some((all, without)) = timings.split_first() else { return Ok(()) };
    let (ms, bytes) = (all.median(), step.bytes() as f64);
    let tokens = case.batch as f64 / ms * 1e3;
    println!(
        "\n{case}: {ms:.3} ms, {tokens:.0} tokens/s, {:.2} GB, {:.0} GB/s\n",
        bytes / 1e9,
        bytes / ms / 1e6
    );
    println!("| without | ms | a layer's µs |\n| --- | ---: | ---: |");
    for (timing, operator) in without.iter().zip(Operator::ALL.into_iter().filter(|&o| step.has(o))) {
        let times = if operator == Operator::Logits { 1.0 } else { LAYERS as f64 };
        let each = (ms - Timing::median(timing)) * 1e3 / times;
        println!("| {} | {:.3} | {each:.2} |", timing.name, timing.median());
    }
    Ok(())
}
