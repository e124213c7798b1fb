//! Loads operators' kernels ahead of their first use, and tells how long it takes: all at once, or one after the other, as first uses do.
//!
//! NVIDIA's driver keeps compiled code in a cache on disk. `CUDA_CACHE_DISABLE=1` in the environment shows what a first start takes.

use std::io::{Write, stderr};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use tilewright::{Arch, Device, ops};
use tilewright_support::Result;
use tilewright_support::example::{exit, show};

/// Loads kernels whose names have a word in them, and tells the time that it takes.
#[derive(Parser)]
#[command(name = "warm_up")]
struct Arguments {
    /// What the kernels' names have in them [default: attention]
    name: Option<String>,
    /// Loads one after the other
    #[arg(long)]
    one_by_one: bool,
}

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    show(&device);
    let arch = if device.runs(Arch::Sm90a) { Arch::Sm90a } else { Arch::Sm80 };
    let part = arguments.name.as_deref().unwrap_or("attention");
    let names: Vec<_> = ops::kernels()
        .filter(|kernel| kernel.arch == arch && kernel.name.contains(part))
        .map(|kernel| kernel.name)
        .collect();
    if names.is_empty() {
        return Err(format!("no kernel of {} has `{part}` in its name", arch.target()).into());
    }

    let start = Instant::now();
    if arguments.one_by_one {
        for (index, name) in names.iter().enumerate() {
            ops::warm_up(&device, |kernel| kernel.arch == arch && kernel.name == *name, |_, _| ())?;
            tell(index + 1, names.len());
        }
    } else {
        ops::warm_up(&device, |kernel| kernel.arch == arch && kernel.name.contains(part), tell)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    eprintln!();
    println!("{} kernels in {seconds:.2} s, {:.0} ms each", names.len(), seconds * 1e3 / names.len() as f64);
    Ok(())
}

/// Progress, on one line.
fn tell(done: usize, of: usize) {
    eprint!("\r{done} of {of} kernels");
    // A terminal that is gone takes nothing away from what is loaded.
    let _ = stderr().flush();
}
