//! Speed of products of groups, as layers of experts take them, beside PyTorch's `_grouped_mm` and, of e4m3, its
//! `_scaled_grouped_mm`, which has scales of rows where ours are of blocks. Narrow weights have `_grouped_mm` of bf16 beside them, which they replace.
//!
//! ```text
//! cargo bench --bench grouped_gemm                        criterion's measurements, and the table of what it measured
//! cargo bench --bench grouped_gemm -- --table [WORDS]     the table alone
//! cargo bench --bench grouped_gemm -- --kernels [WORDS]   every kernel that can compute a case, beside its estimate
//! ```
//!
//! WORDS select cases, by model, product and tokens: `DeepSeek-V3 up 64`, `gated`, `gradient 8192`, `e4m3`, `u4`; products in no table by
//! tokens, experts, experts of a token, N and K: `4096x64x6x1408x2048`. Gated units of products have the product and the unit in two steps beside them. The table takes a CUDA graph over rotating inputs of each variant, all of
//! them in one run and in shuffled order, and gives medians. The peer runs in a process of PyTorch's, which takes turns with this one.

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
use problem::Problem;
use table::{HEADING, Row};
use turns::Peer;

fn main() -> ExitCode {
    common::main(run)
}

fn run(device: &Device, arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((mode, words)) if mode == "--table" => tabulate(device, &case::selected(words)?),
        Some((mode, words)) if mode == "--kernels" => case::selected(words)?
            .iter()
            .try_for_each(|&case| table::kernels(device, &Problem::new(device, case)?)),
        _ => {
            let measured = measure::all(device)?;
            if measured.is_empty() { Ok(()) } else { tabulate(device, &measured) }
        }
    }
}

fn tabulate(device: &Device, cases: &[Case]) -> Result<()> {
    let peer = Peer::start(include_str!("grouped_mm.py"));
    let peer = common::introduce(device, peer, |peer| peer.versions().to_owned());
    println!("\n{HEADING}");
    let mut spread = 0.0f64;
    for &case in cases {
        let row = Row::measure(device, peer.as_ref(), &Problem::new(device, case)?)?;
        println!("{row}");
        spread = spread.max(row.spread());
    }
    println!("\nQuartiles lie at most {:.1}% of the median apart.", spread * 100.0);
    Ok(())
}
