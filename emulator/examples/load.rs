//! Loads PTX files and says what is not emulated: `cargo run --example load -- FILE…`.

use std::process::ExitCode;

use tilewright_emulator::Module;

fn main() -> ExitCode {
    let mut failed = 0;
    for file in std::env::args().skip(1) {
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("{file}: {error}");
                failed += 1;
                continue;
            }
        };
        match Module::load(&text) {
            Ok(module) => println!("{file}: {}", module.kernels().collect::<Vec<_>>().join(", ")),
            Err(error) => {
                eprintln!("{file}: {error}");
                failed += 1;
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
