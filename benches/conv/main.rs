//! Speed of convolutions and their gradients beside cuDNN's, as PyTorch calls it.
//!
//! ```text
//! cargo bench --bench conv                        criterion's measurements, and the table of what it measured
//! cargo bench --bench conv -- --table [WORDS]     the table alone
//! cargo bench --bench conv -- --kernels [WORDS]   every kernel that can compute a case, beside its estimate
//! ```
//!
//! WORDS select cases, by words of their names: `n128 56x56 3x3`, `64->64`, `dx,dw`, `depthwise`; layers of your own are images, size, channels, outputs, filter and stride:
//! `f16 16x40x192x320x3x1`. The table takes a CUDA graph over rotating
//! inputs of each variant, all of them in one run and in shuffled order, and gives medians. cuDNN runs in a process of PyTorch's, which
//! takes turns with this one.

mod case;
#[path = "../common/mod.rs"]
mod common;
mod measure;
mod peer;
#[path = "../common/pool.rs"]
mod pool;
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
use problem::Tensors;
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
            let cases = selected(words)?;
            let tensors = Tensors::new(device, &cases);
            cases.iter().try_for_each(|&case| table::kernels(device, &*tensors.problem(case)?))
        }
        _ => {
            let measured = measure::all(device)?;
            if measured.is_empty() { Ok(()) } else { tabulate(device, &measured) }
        }
    }
}

fn tabulate(device: &Device, cases: &[Case]) -> Result<()> {
    let peer = Peer::start(include_str!("cudnn.py"));
    let peer = common::introduce(device, peer, |peer| peer.versions().to_owned());
    let tensors = Tensors::new(device, cases);
    println!("\n{HEADING}");
    let mut spread = 0.0f64;
    for &case in cases {
        let row = Row::measure(device, peer.as_ref(), &*tensors.problem(case)?)?;
        println!("{row}");
        spread = spread.max(row.spread());
    }
    println!("\nQuartiles lie at most {:.1}% of the median apart.", spread * 100.0);
    Ok(())
}
