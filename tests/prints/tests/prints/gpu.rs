//! What the driver of a GPU prints: to the standard output stream of the process, so that the kernels run in one of their own.

use std::env;
use std::process::{Command, ExitCode, Output};

use tilewright::{Device, Result};
use tilewright_print_tests_device::COLS;
use tilewright_support::suite::Outcome;

use super::{line, run_talks, run_values};

/// Names what a child process is to run.
const CASE: &str = "TILEWRIGHT_PRINT_CASE";

/// The part of a child process, if this is one.
pub fn child() -> Option<ExitCode> {
    let case = env::var(CASE).ok()?;
    let ran = Device::cuda(0).and_then(|device| run(&device, &case));
    Some(match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    })
}

fn run(device: &Device, case: &str) -> Result<()> {
    match case {
        "talks" => run_talks(device, COLS, 2.0),
        "values" => run_values(device),
        _ => run_talks(device, COLS + 1, 2.0),
    }
}

/// Runs a case in a process of its own, on the GPU.
fn in_child(case: &str) -> std::io::Result<Output> {
    Command::new(env::current_exe()?).env(CASE, case).output()
}

/// The lines of a text in the order of their letters: CTAs print in any order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

pub fn prints(_: &Device) -> Outcome {
    for (seed, case) in [(6, "talks"), (7, "values")] {
        let emulator = Device::emulator_with_seed(seed);
        run(&emulator, case)?;
        let expected = emulator.printed().unwrap_or_default();
        let output = in_child(case)?;
        let printed = String::from_utf8(output.stdout)?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!expected.is_empty());
        assert_eq!(sorted(&printed), sorted(&expected), "{case}");
    }
    Ok(())
}

pub fn asserts(_: &Device) -> Outcome {
    let output = in_child("asserts")?;
    let (printed, error) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    let place = format!("tests/prints/device/src/lib.rs:{}, kernel talks, CTA (", line("x.cols() <="));
    let said = "assertion failed: x.cols() <= COLS as u32";
    assert!(!output.status.success(), "it should stop: {printed}");
    assert!(error.contains("CUDA_ERROR_"), "{error}");
    assert!(printed.lines().any(|line| line.starts_with(&place) && line.ends_with(said)), "{printed}{error}");
    Ok(())
}
