//! Speed of reductions, argmax and the largest elements of rows beside a copy of as many bytes.
//!
//! ```text
//! cargo bench --bench reduce                       criterion's measurements, and the table of what it measured
//! cargo bench --bench reduce -- --table [WORDS]    the table alone
//! ```
//!
//! WORDS select cases, by operator, type, and the shape or its beginning: `columns f16 8192`; sums over the rows or columns of shapes that are in no table are
//! measured too: `columns f16 777x1001`, and so are the largest elements of their rows: `top_k 50 f16 777x1001`. The table takes a CUDA graph over
//! rotating tensors, all variants in one run and in shuffled order, and gives medians. Each case's results are compared with f64 first.

mod case;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/copies.rs"]
mod copies;
mod problem;
#[path = "../common/shapes.rs"]
mod shapes;

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
        Some((mode, words)) if mode == "--table" => {
            tabulate(device, &common::selected(case::named(words), words)?)
        }
        _ => {
            let throughput = |case: &Case| Throughput::Bytes(case.bytes() as u64);
            let measured = measure::all(device, "reduce", &case::all(), throughput, |case| {
                let problem = problem(device, case)?;
                Ok(Work::new(problem.sets(), move |stream, set| problem.launch(stream, set)))
            })?;
            if measured.is_empty() { Ok(()) } else { tabulate(device, &measured) }
        }
    }
}

fn tabulate(device: &Device, cases: &[Case]) -> Result<()> {
    copies::tabulate(device, cases, |case| problem(device, case))
}
