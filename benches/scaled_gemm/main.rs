//! Speed of GEMMs of 8-bit floats and int8 beside cuBLAS's and CUTLASS's, as PyTorch calls them.
//!
//! ```text
//! cargo bench --bench scaled_gemm                        criterion's measurements, and the table of what it measured
//! cargo bench --bench scaled_gemm -- --table [WORDS]     the table alone
//! cargo bench --bench scaled_gemm -- --kernels [WORDS]   every kernel that can compute a case, beside its estimate
//! ```
//!
//! WORDS select cases, by type, scales and the shape or its beginning: `e4m3 blocks 8192,4096x7168x2048`; a shape may also be one that stands in no
//! table. The table takes a CUDA graph over rotating inputs of each variant, all of them in one run and in shuffled order, and gives medians. The peer
//! runs in a process of PyTorch's, which takes turns with this one.

mod case;
#[path = "../common/mod.rs"]
mod common;
mod measure;
mod problem;
#[path = "../common/python.rs"]
mod python;
#[path = "../common/rank.rs"]
mod rank;
#[path = "../common/shapes.rs"]
mod shapes;
mod table;
#[path = "../common/turns.rs"]
mod turns;

use std::process::ExitCode;

use tilewright::Device;
use tilewright_support::Result;

use case::Case;
use problem::problem;
use table::{HEADING, Row};
use turns::Peer;

fn main() -> ExitCode {
    common::main(run)
}

fn run(device: &Device, arguments: &[String]) -> Result<()> {
    let selected = case::selected;
    match arguments.split_first() {
        Some((mode, words)) if mode == "--table" => tabulate(device, &selected(words)?),
        Some((mode, words)) if mode == "--kernels" => {
            selected(words)?.iter().try_for_each(|&case| table::kernels(device, &*problem(device, case)?))
        }
        _ => {
            let measured = measure::all(device)?;
            if measured.is_empty() { Ok(()) } else { tabulate(device, &measured) }
        }
    }
}

fn tabulate(device: &Device, cases: &[Case]) -> Result<()> {
    let peer = Peer::start(include_str!("scaled_mm.py"));
    let peer = common::introduce(device, peer, |peer| peer.versions().to_owned());
    println!("\n{HEADING}");
    let mut spread = 0.0f64;
    for &case in cases {
        let row = Row::measure(device, peer.as_ref(), &*problem(device, case)?)?;
        println!("{row}");
        spread = spread.max(row.spread());
    }
    println!("\nQuartiles lie at most {:.1}% of the median apart.", spread * 100.0);
    Ok(())
}
