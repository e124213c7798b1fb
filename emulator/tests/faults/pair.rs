//! Runs a wrong kernel and the right one beside it.

use tilewright_emulator::{Arch, Emulator, Fault, Launch, Module};

/// Runs a kernel that has a body and these threads in each CTA.
///
/// It finds `%t`, its thread, `%out`, 4 KiB of global memory, `%mine`, the thread's word of it, `buffer`, 4 KiB of
/// shared memory, `%s`, the thread's 16 bytes of it, `bar` and `bars`, mbarriers, and registers `%p`, `%r`, `%f` and `%d`.
fn launch(body: &str, launch: &Launch) -> Result<(), Fault> {
    let text = format!(
        ".version 8.1\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 out)\n{{\n\
         .reg .pred %p<9>;\n.reg .b32 %r<20>;\n.reg .b32 %f<9>;\n.reg .b64 %d<20>;\n.reg .b64 %out;\n.reg .b32 %t;\n\
         .reg .b64 %mine;\n.reg .b32 %s;\n.shared .align 1024 .b8 buffer[4096];\n.shared .align 8 .b64 bar;\n\
         .shared .align 8 .b64 bars[4];\n\
         ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %mine, %t, 4, %out;\nmov.u32 %s, buffer;\n\
         mad.lo.u32 %s, %t, 16, %s;\n{body}\nret;\n}}\n"
    );
    let module = Module::load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let emulator = Emulator::new(Arch::Sm90a);
    let out = emulator.allocate(4096);
    emulator.write(out, &[0; 4096]).expect("just allocated");
    emulator.launch(&module.kernel("k").expect("the module's only kernel"), launch, &out.to_le_bytes())?;
    Ok(())
}

/// The CTAs are one cluster.
fn run(body: &str, threads: u32, ctas: u32) -> Result<(), Fault> {
    let (grid, threads) = ([ctas, 1, 1], [threads, 1, 1]);
    launch(body, &Launch { grid, threads, cluster: grid, ..Launch::default() })
}

/// Each CTA is a cluster.
pub fn separate(body: &str, threads: u32, ctas: u32) -> Result<(), Fault> {
    launch(body, &Launch { grid: [ctas, 1, 1], threads: [threads, 1, 1], ..Launch::default() })
}

/// The right kernel, which has the part in brackets, runs; the wrong one, which has it not, is told all of these words.
#[track_caller]
pub fn needs(body: &str, threads: u32, ctas: u32, words: &[&str]) {
    let without = |body: &str| {
        let (before, rest) = body.split_once("⟦").expect("a part in brackets");
        let (_, after) = rest.split_once("⟧").expect("the part ends");
        format!("{before}{after}")
    };
    let right = body.replace(['⟦', '⟧'], "");
    run(&right, threads, ctas).unwrap_or_else(|fault| panic!("accused: {fault}"));
    let fault = run(&without(body), threads, ctas).expect_err("not noticed").to_string();
    for word in words {
        assert!(fault.contains(word), "`{word}` is not in: {fault}");
    }
}

/// This kernel is right.
#[track_caller]
pub fn right(body: &str, threads: u32, ctas: u32) {
    run(body, threads, ctas).unwrap_or_else(|fault| panic!("accused: {fault}"));
}

/// This kernel is wrong, and is told all of these words.
#[track_caller]
pub fn wrong(body: &str, threads: u32, ctas: u32, words: &[&str]) {
    let fault = run(body, threads, ctas).expect_err("not noticed").to_string();
    for word in words {
        assert!(fault.contains(word), "`{word}` is not in: {fault}");
    }
}
