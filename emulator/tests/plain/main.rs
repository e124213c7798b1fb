//! What compilers write besides the instructions of our kernels.

mod arithmetic;
mod functions;
mod memory;
mod prints;
mod variables;

use tilewright_emulator::{Arch, Emulator, Fault, Launch, Module};

/// Loads a module of this text after the usual head.
fn module(text: &str) -> Module {
    Module::load(&format!(".version 8.1\n.target sm_90a\n.address_size 64\n{text}"))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// What is wrong with a module.
fn load_error(text: &str) -> String {
    Module::load(&format!(".target sm_90a\n{text}")).expect_err("the module is faulty").to_string()
}

/// Runs kernel `k`, which takes a pointer, in one CTA; gives the first words of its memory.
fn run_on(emulator: &Emulator, module: &Module, threads: u32, count: usize) -> Result<Vec<u32>, Fault> {
    let out = emulator.allocate(4 * count as u64).unwrap();
    emulator.write(out, &vec![0; 4 * count]).unwrap();
    let launch = Launch { threads: [threads, 1, 1], ..Launch::default() };
    emulator.launch(&module.kernel("k").unwrap(), &launch, &out.to_le_bytes())?;
    let mut bytes = vec![0; 4 * count];
    emulator.read(out, &mut bytes).unwrap();
    Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// The same on an emulator of its own.
fn words(module: &Module, threads: u32, count: usize) -> Vec<u32> {
    run_on(&Emulator::new(Arch::Sm90a), module, threads, count).unwrap_or_else(|fault| panic!("{fault}"))
}
