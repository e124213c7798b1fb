//! Speed of products with narrow weights beside cuBLAS's with weights of f16, which narrow ones replace.
//!
//! ```text
//! cargo bench --bench dequant_gemm                       criterion's measurements, and the table of what it measured
//! cargo bench --bench dequant_gemm -- --table [WORDS]    the table alone
//! cargo bench --bench dequant_gemm -- --cool [WORDS]     the table on a card that rests before each measurement
//! ```
//!
//! WORDS select cases, by words of their names: `f16,int8 u4 8192x8192 m1,m16`; or name shapes of M, N and K, and formats: `nf4,i8 1000x5120x13824`. The table takes a CUDA graph over rotating copies
//! of the weights of each variant, all of them in one run and in shuffled order, and gives medians; on a card that rests, single
//! launches behind an overwritten L2 cache.

mod case;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/cool.rs"]
mod cool;
mod measure;
mod problem;
#[path = "../common/shapes.rs"]
mod shapes;
mod table;

use std::process::ExitCode;

use tilewright::Device;
use tilewright_support::Result;
use tilewright_support::cublas::CublasLt;
use tilewright_support::timing::Options;

use case::Case;
use table::{Row, heading};

fn main() -> ExitCode {
    common::main(run)
}

fn run(device: &Device, arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((mode, words)) if mode == "--table" => {
            tabulate(device, &case::selected(words)?, common::options)
        }
        Some((mode, words)) if mode == "--cool" => tabulate(device, &case::selected(words)?, cool::options),
        _ => {
            let measured = measure::all(device, &case::all())?;
            if measured.is_empty() {
                return Ok(());
            }
            tabulate(device, &measured, common::options)
        }
    }
}

/// Prints the table of these cases, measured with the options for so many sets of inputs.
fn tabulate(device: &Device, cases: &[Case], options: fn(usize) -> Options) -> Result<()> {
    let version = |library: &CublasLt| format!("cuBLAS {}", library.version());
    let library = common::introduce(device, CublasLt::new(device), version);
    println!("\n{}", heading(library.is_some()));
    let mut spread = 0.0f64;
    for &case in cases {
        let row = Row::measure(device, library.as_ref(), case, options)?;
        println!("{row}");
        spread = spread.max(row.spread());
    }
    println!("\nQuartiles lie at most {:.1}% of the median apart.", spread * 100.0);
    Ok(())
}
