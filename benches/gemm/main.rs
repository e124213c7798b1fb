//! Speed of the GEMM operator beside cuBLAS.
//!
//! ```text
//! cargo bench --bench gemm                        criterion's measurements, and the table of what it measured
//! cargo bench --bench gemm -- --table [WORDS]     the table alone, then launches, loads and sizes
//! cargo bench --bench gemm -- --kernels [WORDS]   every kernel that can compute a case, beside its estimate
//! cargo bench --bench gemm -- --host              launches, loads and sizes alone
//! ```
//!
//! WORDS select cases, by type, layout, and the shape or its beginning: `f16 nt 8192,2048x2048x2048`. The table takes a CUDA
//! graph over rotating inputs of each variant, all of them in one run and in shuffled order, and gives medians.

mod case;
mod host;
mod measure;
mod problem;
mod table;

use std::process::ExitCode;

use tilewright::{Device, Error};
use tilewright_support::Result;
use tilewright_support::cublas::CublasLt;

use case::Case;
use problem::Matrices;
use table::{HEADING, Row};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    // `cargo bench` adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(reason @ (Error::NoDriver { .. } | Error::NoDevice { .. } | Error::UnsupportedGpu { .. })) => {
            println!("Nothing is measured, there is no GPU: {reason}.");
            return Ok(());
        }
        Err(other) => return Err(other.into()),
    };
    match arguments.split_first() {
        Some((mode, [name])) if mode == host::LOAD => host::load(&device, name),
        Some((mode, words)) if mode == "--table" => {
            let cublas = introduce(&device);
            tabulate(&device, cublas.as_ref(), &selected(words)?)?;
            host::costs(&device, cublas.as_ref())
        }
        Some((mode, words)) if mode == "--kernels" => {
            introduce(&device);
            let cases = selected(words)?;
            let matrices = Matrices::new(&device, &cases);
            cases.iter().try_for_each(|&case| table::kernels(&device, &*matrices.problem(case)?))
        }
        Some((mode, [])) if mode == "--host" => host::costs(&device, introduce(&device).as_ref()),
        _ => {
            let measured = measure::all(&device)?;
            if measured.is_empty() {
                return Ok(());
            }
            tabulate(&device, introduce(&device).as_ref(), &measured)
        }
    }
}

/// Says what is compared; gives cuBLAS if it is there.
fn introduce(device: &Device) -> Option<CublasLt> {
    let ((major, minor), sms) = (device.driver_version(), device.sm_count());
    print!("{}, {sms} SMs, driver for CUDA {major}.{minor}; ", device.name());
    match CublasLt::new(device) {
        Ok(library) => {
            println!("cuBLAS {}", library.version());
            Some(library)
        }
        Err(reason) => {
            println!("without cuBLAS: {reason}");
            None
        }
    }
}

fn selected(words: &[String]) -> Result<Vec<Case>> {
    let cases: Vec<_> = case::all().into_iter().filter(|case| case.is_selected(words)).collect();
    if cases.is_empty() {
        let names: Vec<_> = case::all().iter().map(Case::to_string).collect();
        return Err(format!("no case is {}; there are\n  {}", words.join(" "), names.join("\n  ")).into());
    }
    Ok(cases)
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
