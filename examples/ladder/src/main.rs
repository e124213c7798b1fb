//! Runs all levels, or those whose names are given, compares them with f64, and on a GPU times each beside the one before it.
//! With `--profile` it shows what the emulator counts.

use std::process::ExitCode;

use ladder::{LEVELS, Level, Outcome, Resource, Sizes, Work, peak};
use tilewright::{Device, Result};

fn main() -> ExitCode {
    let (options, names): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|word| word.starts_with('-'));
    let profile = options.iter().any(|option| option == "--profile");
    // A GPU or, where there is none, the emulator, which says so.
    match Device::default().and_then(|device| climb(&device, &names, profile)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the levels; whether all are right.
fn climb(device: &Device, names: &[String], profile: bool) -> Result<bool> {
    let sizes = Sizes::of(device);
    println!("on {device:?}\n{sizes:?}\n");
    println!("| level | error | time | rate | beside the one before | of peak |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    let mut right = true;
    // Of the level before: what it computes, and its rate.
    let mut before: Option<(&'static str, f64)> = None;
    for level in LEVELS {
        if !names.is_empty() && !names.iter().any(|name| name == level.name) {
            continue;
        }
        if !device.runs(level.arch) {
            println!("| {} | not for this GPU | | | | |", level.name);
            continue;
        }
        let outcome = level.run(device, &sizes)?;
        let rate = outcome.ms.map(|ms| outcome.amount / ms * 1e3);
        let last = before.filter(|(what, _)| *what == operator(&level)).map(|(_, rate)| rate);
        println!("{}", row(device, &level, &outcome, rate, last));
        before = rate.map(|rate| (operator(&level), rate));
        right &= outcome.error <= outcome.tolerance;
    }
    for kernel in device.profile().filter(|_| profile).unwrap_or_default() {
        println!("\n{kernel}");
    }
    Ok(right)
}

fn operator(level: &Level) -> &'static str {
    match level.work {
        Work::Add(_) => "add",
        Work::Softmax(_) => "softmax",
        Work::Gemm(_) | Work::GemmTf32(_) | Work::GemmF16(_) => "gemm",
        Work::Attention(_) => "attention",
    }
}

/// A row of the table. On the emulator it ends behind the error.
fn row(device: &Device, level: &Level, outcome: &Outcome, rate: Option<f64>, last: Option<f64>) -> String {
    let wrong = if outcome.error <= outcome.tolerance { "" } else { " WRONG" };
    let mut row = format!("| {} | {:.1e}{wrong} |", level.name, outcome.error);
    if let (Some(ms), Some(rate)) = (outcome.ms, rate) {
        let (scale, unit) =
            if outcome.resource == Resource::Memory { (1e9, "GB/s") } else { (1e12, "TFLOP/s") };
        row += &format!(" {:.3} ms | {:.4} {unit} |", ms, rate / scale);
        row += &last.map_or(" |".to_owned(), |last| format!(" {:.2}x |", rate / last));
        let share = peak(device, outcome.resource).map(|peak| format!(" {:.1}% |", 100.0 * rate / peak));
        row += &share.unwrap_or(" |".to_owned());
    } else {
        row += " | | | |";
    }
    row
}
