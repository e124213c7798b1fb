//! Speed of the GEMM operator beside cuBLAS.
//!
//! ```text
//! cargo bench --bench gemm                        criterion's measurements, and the table of what it measured
//! cargo bench --bench gemm -- --table [WORDS]     the table alone, then launches, loads and sizes
//! cargo bench --bench gemm -- --kernels [WORDS]   every kernel that can compute a case, beside its estimate
//! cargo bench --bench gemm -- --host              launches, loads and sizes alone
//! ```
//!
//! WORDS select cases, by type, layout, and the shape or its beginning: `f16 nt 8192,2048x2048x2048`; a shape may also be
//! one that stands in no table. The table takes a CUDA graph over rotating inputs of each variant, all of them in one run
//! and in shuffled order, and gives medians.

mod case;
#[path = "../common/mod.rs"]
mod common;
mod host;
mod measure;
#[path = "../common/pool.rs"]
mod pool;
mod problem;
#[path = "../common/rank.rs"]
mod rank;
#[path = "../common/shapes.rs"]
mod shapes;
mod table;

use std::process::ExitCode;

use tilewright::Device;
use tilewright_support::Result;
use tilewright_support::cublas::CublasLt;

use case::Case;
use problem::Matrices;
use table::{HEADING, Row};

fn main() -> ExitCode {
    common::main(run)
}

fn run(device: &Device, arguments: &[String]) -> Result<()> {
    let selected = case::selected;
    match arguments.split_first() {
        Some((mode, [name])) if mode == host::LOAD => host::load(device, name),
        Some((mode, words)) if mode == "--table" => {
            let cublas = introduce(device);
            tabulate(device, cublas.as_ref(), &selected(words)?)?;
            host::costs(device, cublas.as_ref())
        }
        Some((mode, words)) if mode == "--kernels" => {
            let cases = selected(words)?;
            let matrices = Matrices::new(device, &cases);
            cases.iter().try_for_each(|&case| table::kernels(device, &*matrices.problem(case)?))
        }
        Some((mode, [])) if mode == "--host" => host::costs(device, introduce(device).as_ref()),
        _ => {
            let measured = measure::all(device)?;
            if measured.is_empty() {
                return Ok(());
            }
            tabulate(device, introduce(device).as_ref(), &measured)
        }
    }
}

/// Says what is compared; gives cuBLAS if it is there.
fn introduce(device: &Device) -> Option<CublasLt> {
    common::introduce(device, CublasLt::new(device), |library| format!("cuBLAS {}", library.version()))
}

fn tabulate(device: &Device, cublas: Option<&CublasLt>, cases: &[Case]) -> Result<()> {
    let matrices = Matrices::new(device, cases);
    println!("\n{HEADING}");
    let mut spread = 0.0f64;
    for &case in cases {
        let row = Row::measure(device, cublas, &*matrices.problem(case)?)?;
        println!("{row}");
        spread = spread.max(row.spread());
    }
    println!("\nQuartiles lie at most {:.1}% of the median apart.", spread * 100.0);
    Ok(())
}
