//! Speed of the attention operator beside PyTorch's attention and flash-attention 3.
//!
//! ```text
//! cargo bench --bench attention                        criterion's measurements, and the table of what it measured
//! cargo bench --bench attention -- --table [WORDS]     the tables alone, then what a call costs the host
//! cargo bench --bench attention -- --kernels [WORDS]   every kernel that can compute a case, beside its estimate
//! cargo bench --bench attention -- --packed            sequences of many lengths, one after the other
//! cargo bench --bench attention -- --chunks [ROWS]     chunks of prompts over a cache in pages of so many rows
//! cargo bench --bench attention -- --pages [ROWS]      decoding over a cache in pages
//! cargo bench --bench attention -- --bias [BxHxSxD]    with a bias of scores
//! cargo bench --bench attention -- --merge [SHAPES]    sequences that begin alike, whose shared keys are attended to once
//! cargo bench --bench attention -- --scaled [SHAPES]   8-bit floats, on every kernel
//! cargo bench --bench attention -- --wide [SHAPES]     heads of more than 256 columns
//! cargo bench --bench attention -- --sparse [SHAPES]   lists of the blocks of keys that queries see
//! cargo bench --bench attention -- --selected [SHAPES] lists of blocks of each query, BATCHxQUERIESxHEADSxKVxKEYSxBLOCKSxD
//! cargo bench --bench attention -- --host              what a call costs the host, alone
//! ```
//!
//! WORDS select cases, by words of their names: `bf16 s4096 d128 causal`, `decode b1,b16`. The tables take a CUDA graph over
//! rotating inputs of each variant, all of them in one run and in shuffled order, and give medians. The peers run in a process
//! of PyTorch's, which takes turns with this one.

mod bias;
mod case;
mod chunks;
#[path = "../common/mod.rs"]
mod common;
mod host;
mod measure;
mod merge;
mod packed;
mod pages;
mod peer;
#[path = "../common/pool.rs"]
mod pool;
mod problem;
#[path = "../common/python.rs"]
mod python;
#[path = "../common/rank.rs"]
mod rank;
mod scaled;
mod selected;
#[path = "../common/shapes.rs"]
mod shapes;
mod sparse;
mod table;

use std::process::ExitCode;

use tilewright::Device;
use tilewright_support::Result;

use case::{Case, Kind};
use peer::{NAMES, Peer, WIDE};
use problem::Tensors;
use table::{Row, heading};

fn main() -> ExitCode {
    common::main(run)
}

fn run(device: &Device, arguments: &[String]) -> Result<()> {
    let selected = |words| -> Result<_> { Ok(that_fit(device, common::selected(case::all(), words)?)) };
    match arguments.split_first() {
        Some((mode, words)) if mode == "--table" => {
            let cases = selected(words)?;
            let peer = introduce(device);
            tabulate(device, (peer.as_ref(), &NAMES), &cases)?;
            if words.is_empty() {
                packed::table(device, peer.as_ref())?;
            }
            host::costs(device, peer.as_ref())
        }
        Some((mode, words)) if mode == "--kernels" => {
            let cases = selected(words)?;
            let tensors = Tensors::new(device, &cases);
            cases.iter().try_for_each(|&case| table::kernels(device, &*tensors.problem(case)?))
        }
        Some((mode, words)) if mode == "--chunks" => chunks::table(device, words),
        Some((mode, words)) if mode == "--pages" => pages::table(device, words),
        Some((mode, words)) if mode == "--merge" => merge::table(device, words),
        Some((mode, words)) if mode == "--scaled" => scaled::table(device, words),
        Some((mode, words)) if mode == "--wide" => {
            let cases = that_fit(device, case::wide(words));
            tabulate(device, (introduce(device).as_ref(), &WIDE), &cases)
        }
        Some((mode, words)) if mode == "--sparse" => sparse::table(device, introduce(device).as_ref(), words),
        Some((mode, words)) if mode == "--selected" => selected::table(device, words),
        Some((mode, words)) if mode == "--bias" => bias::table(device, introduce(device).as_ref(), words),
        Some((mode, [])) if mode == "--packed" => packed::table(device, introduce(device).as_ref()),
        Some((mode, [])) if mode == "--host" => host::costs(device, introduce(device).as_ref()),
        _ => {
            let measured = measure::all(device, &that_fit(device, case::all()))?;
            if measured.is_empty() {
                return Ok(());
            }
            tabulate(device, (introduce(device).as_ref(), &NAMES), &measured)
        }
    }
}

/// The cases for which there is memory.
fn that_fit(device: &Device, cases: Vec<Case>) -> Vec<Case> {
    let (fit, others): (Vec<_>, Vec<_>) = cases.into_iter().partition(|case| problem::fits(device, case));
    others.iter().for_each(|case| println!("{case} is left out: it takes too much memory."));
    fit
}

/// Says what is compared; gives the peers if they are there.
fn introduce(device: &Device) -> Option<Peer> {
    common::introduce(device, Peer::start(), |peer| peer.versions().to_owned())
}

fn tabulate(device: &Device, (peer, names): (Option<&Peer>, &[&str]), cases: &[Case]) -> Result<()> {
    let tensors = Tensors::new(device, cases);
    let mut spread = 0.0f64;
    for kind in [Kind::Prefill, Kind::Decode] {
        let mut cases = cases.iter().filter(|case| case.kind == kind).peekable();
        if cases.peek().is_some() {
            println!("\n{}", heading(kind, if peer.is_some() { names } else { &[] }));
        }
        for &case in cases {
            let row = Row::measure(device, peer, &*tensors.problem(case)?)?;
            println!("{}", row.line(names));
            spread = spread.max(row.spread());
        }
    }
    println!("\nQuartiles lie at most {:.1}% of the median apart.", spread * 100.0);
    Ok(())
}
