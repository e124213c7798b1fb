//! What benchmarks of operators share.

pub mod measure;

use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

use tilewright::{Device, Error};
use tilewright_support::Result;
use tilewright_support::timing::Options;

/// `main` of a benchmark: gives it the GPU and the program's arguments; says so where there is no GPU.
pub fn main(run: impl FnOnce(&Device, &[String]) -> Result<()>) -> ExitCode {
    // `cargo bench` adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let outcome = match Device::cuda(0) {
        Ok(device) => run(&device, &arguments),
        Err(reason @ (Error::NoDriver { .. } | Error::NoDevice { .. } | Error::UnsupportedGpu { .. })) => {
            println!("Nothing is measured, there is no GPU: {reason}.");
            Ok(())
        }
        Err(other) => Err(other.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Says what is compared: the GPU and its driver, and the peer, of which `versions` tells; gives it if it is there.
pub fn introduce<P>(device: &Device, peer: Result<P>, versions: impl Fn(&P) -> String) -> Option<P> {
    let ((major, minor), sms) = (device.driver_version(), device.sm_count());
    print!("{}, {sms} SMs, driver for CUDA {major}.{minor}; ", device.name());
    match &peer {
        Ok(peer) => println!("{}", versions(peer)),
        Err(reason) => println!("without the peer: {reason}"),
    }
    peer.ok()
}

/// The cases that satisfy every word. A word is one or more of the words of a case's name, with commas between, or what
/// such a word begins with before an x: `f16 nt 8192,2048`.
pub fn selected<C: Display>(cases: Vec<C>, words: &[String]) -> Result<Vec<C>> {
    let names: Vec<_> = cases.iter().map(C::to_string).collect();
    let found: Vec<_> = cases.into_iter().filter(|case| is_named(&case.to_string(), words)).collect();
    if found.is_empty() {
        return Err(format!("no case is {}; there are\n  {}", words.join(" "), names.join("\n  ")).into());
    }
    Ok(found)
}

fn is_named(name: &str, words: &[String]) -> bool {
    let name = name.to_lowercase();
    words.iter().all(|word| {
        let alternatives = word.to_lowercase();
        let mut alternatives = alternatives.split(',');
        alternatives
            .any(|word| name.split(' ').any(|part| part == word || part.starts_with(&format!("{word}x"))))
    })
}

/// How cases are measured: on so many sets of inputs, on a card that is hot.
pub fn options(sets: usize) -> Options {
    let (burst, warm_up) = (Duration::from_millis(2), Duration::from_millis(200));
    Options { sets, rounds: 20, burst, warm_up, ..Options::default() }
}
