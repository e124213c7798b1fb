//! Speed of MLA decode beside cuBLAS's product of 8192 x 8192 matrices, which says how fast the card is at that moment.
//!
//! ```text
//! cargo bench --bench mla                       criterion's measurements, and the table of what it measured
//! cargo bench --bench mla -- --table [WORDS]    the table alone, then what a call costs the host
//! cargo bench --bench mla -- --cool [WORDS]     the table on a card that rests before each measurement
//! cargo bench --bench mla -- --codes [BATCHxHEADSxKEYS]   caches of 8 bits beside bf16, in pages and by lists of tokens
//! cargo bench --bench mla -- --prompts [BATCHxPOSITIONSxHEADSxKEYS]   prompts, causal
//! cargo bench --bench mla -- --indexer [BATCHxQUERIESxKEYSxHEADSxCOLUMNS]   an indexer's scores
//! cargo bench --bench mla -- --host             what a call costs the host, alone
//! ```
//!
//! WORDS select cases, by words of their names: `bf16 b128 h128 kv1024,kv8192`. The table takes a CUDA graph over rotating inputs
//! of each variant, all of them in one run and in shuffled order, and gives medians; on a card that rests, single launches behind an
//! overwritten L2 cache.

mod case;
mod codes;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/cool.rs"]
mod cool;
mod host;
mod indexer;
mod measure;
#[path = "../common/pool.rs"]
mod pool;
mod problem;
mod prompts;
mod table;
mod yardstick;

use std::process::ExitCode;

use tilewright::Device;
use tilewright_support::Result;
use tilewright_support::cublas::CublasLt;
use tilewright_support::timing::Options;

use case::Case;
use problem::Tensors;
use table::{Row, heading};
use yardstick::Yardstick;

fn main() -> ExitCode {
    common::main(run)
}

fn run(device: &Device, arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((mode, words)) if mode == "--table" => {
            tabulate(device, &that_fit(device, common::selected(case::all(), words)?), common::options)?;
            host::costs(device)
        }
        Some((mode, words)) if mode == "--cool" => {
            tabulate(device, &that_fit(device, common::selected(case::all(), words)?), cool::options)
        }
        Some((mode, words)) if mode == "--codes" => {
            common::introduce(device, Ok(()), |()| "no peer".to_owned());
            codes::table(device, words)
        }
        Some((mode, words)) if mode == "--indexer" => {
            common::introduce(device, Ok(()), |()| "no peer".to_owned());
            indexer::table(device, words)
        }
        Some((mode, words)) if mode == "--prompts" => {
            let library = common::introduce(device, CublasLt::new(device), |library| {
                format!("cuBLAS {}", library.version())
            });
            let yardstick = library.as_ref().map(|library| Yardstick::new(device, library)).transpose()?;
            prompts::table(device, yardstick.as_ref(), words)
        }
        Some((mode, [])) if mode == "--host" => host::costs(device),
        _ => {
            let measured = measure::all(device, &that_fit(device, case::all()))?;
            if measured.is_empty() {
                return Ok(());
            }
            tabulate(device, &measured, common::options)
        }
    }
}

/// The cases for which there is memory.
fn that_fit(device: &Device, cases: Vec<Case>) -> Vec<Case> {
    let (fit, others): (Vec<_>, Vec<_>) = cases.into_iter().partition(|case| problem::fits(device, case));
    others.iter().for_each(|case| println!("{case} is left out: it takes too much memory."));
    fit
}

/// Prints the table of these cases, measured with the options for so many sets of inputs.
fn tabulate(device: &Device, cases: &[Case], options: fn(usize) -> Options) -> Result<()> {
    let version = |library: &CublasLt| format!("cuBLAS {}", library.version());
    let library = common::introduce(device, CublasLt::new(device), version);
    let yardstick = library.as_ref().map(|library| Yardstick::new(device, library)).transpose()?;
    let tensors = Tensors::new(device, cases);
    println!("\n{}", heading(yardstick.is_some()));
    let mut spread = 0.0f64;
    for &case in cases {
        let row = Row::measure(device, yardstick.as_ref(), &*tensors.problem(case)?, options)?;
        println!("{row}");
        spread = spread.max(row.spread());
    }
    println!("\nQuartiles lie at most {:.1}% of the median apart.", spread * 100.0);
    Ok(())
}
