//! Every form of instruction that GPUs from sm_80 to sm_90a have, by the manual's table of contents: which are known, and what those
//! compute that no test of another kind has.

mod asynchronous;
mod heap;
mod known;
mod maps;
mod products;
mod scalar;
mod table;
mod wmma;

use tilewright_emulator::{Arch, Emulator, Fault, Launch, Module};

/// Runs the body of a kernel in one CTA on words of global memory, which begin at `%out`; gives them as they are then.
fn run(body: &str, threads: u32, memory: &[u32]) -> Result<Vec<u32>, Fault> {
    let text = format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out)\n{{\n.reg .b64 %out;\n\
         .shared .align 128 .b8 buffer[8192];\n.shared .align 8 .b64 bar;\nld.param.u64 %out, [out];\n{body}\nret;\n}}\n"
    );
    let module = Module::load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let emulator = Emulator::new(Arch::Sm90a);
    let mut bytes: Vec<u8> = memory.iter().flat_map(|word| word.to_le_bytes()).collect();
    let out = emulator.allocate(bytes.len() as u64).expect("it is little");
    emulator.write(out, &bytes).expect("just allocated");
    let launch = Launch { threads: [threads, 1, 1], ..Launch::default() };
    emulator.launch(&module.kernel("k").expect("it is called so"), &launch, &out.to_le_bytes())?;
    emulator.read(out, &mut bytes).expect("just written");
    Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}
