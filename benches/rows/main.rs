//! Speed of the row-wise operators beside a copy of as many bytes.
//!
//! ```text
//! cargo bench --bench rows                        criterion's measurements, and the table of what it measured
//! cargo bench --bench rows -- --table [WORDS]     the table alone
//! cargo bench --bench rows -- --kernels [WORDS]   every kernel that can compute a case, beside its estimate
//! cargo bench --bench rows -- --triton [WORDS]    beside plain Triton kernels, in a process that takes turns with this one
//! cargo bench --bench rows -- --small [WORDS]     cases beside an empty kernel: in graphs, and on a stream by calls and by a plan
//! ```
//!
//! WORDS select cases, by operator, type, and the shape or its beginning: `softmax f16 8192,4096`; a shape may also be one that stands
//! in no table. The table takes a CUDA graph over
//! rotating tensors, all variants in one run and in shuffled order, and gives medians. Each case's rows are compared with f64 first.

mod case;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/copies.rs"]
mod copies;
mod kernels;
mod peer;
mod problem;
#[path = "../common/python.rs"]
mod python;
#[path = "../common/shapes.rs"]
mod shapes;
mod small;
#[path = "../common/turns.rs"]
mod turns;

use std::process::ExitCode;

use criterion::Throughput;
use tilewright::Device;
use tilewright_support::Result;

use case::Case;
use common::measure::{self, Work};
use problem::problem;

fn main() -> ExitCode {
    common::main(run)
}

fn run(device: &Device, arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((mode, words)) if mode == "--table" => tabulate(device, &case::selected(words)?),
        Some((mode, words)) if mode == "--kernels" => {
            let cases = case::selected(words)?;
            cases.iter().try_for_each(|&case| kernels::kernels(device, &*problem(device, case)?))
        }
        Some((mode, words)) if mode == "--triton" => {
            let cases = case::selected(words)?;
            peer::tabulate(device, &cases, |case| problem(device, case))
        }
        Some((mode, words)) if mode == "--small" => {
            println!(
                "\n| case | overlapped: empty, µs | µs | ratio | in turn: empty, µs | µs | ratio | on a stream: empty, µs | call, µs | plan, µs | ratio | host: empty, µs | call, µs | plan, µs | ratio |"
            );
            println!(
                "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
            );
            let cases = case::selected(words)?;
            cases.iter().try_for_each(|&case| small::line(device, &*problem(device, case)?))
        }
        _ => {
            let throughput = |case: &Case| Throughput::Bytes(case.bytes() as u64);
            let measured = measure::all(device, "rows", &case::all(), throughput, |case| {
                let problem = problem(device, case)?;
                Ok(Work::new(problem.sets(), move |stream, set| problem.launch(stream, set)))
            })?;
            if measured.is_empty() { Ok(()) } else { tabulate(device, &measured) }
        }
    }
}

fn tabulate(device: &Device, cases: &[Case]) -> Result<()> {
    copies::tabulate(device, cases, |case| Ok(problem(device, case)?))
}
