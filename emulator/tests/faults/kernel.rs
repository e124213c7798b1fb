//! Runs the body of a kernel, and looks at what it is accused of.

use tilewright_emulator::{Arch, Emulator, Fault, Launch, Module};

/// What bodies begin with: `%t` is the thread, `%out` the address of the launch's words, `%mine` that of the thread's.
const HEAD: &str = ".version 8.3\n.target sm_90a\n.address_size 64\n\
    .visible .entry k(.param .u64 out)\n{\n\
    .reg .pred %p<20>;\n.reg .b16 %h<20>;\n.reg .b32 %r<90>;\n.reg .b64 %d<20>;\n\
    .reg .b32 %t, %cta;\n.reg .b64 %out, %mine;\n\
    .shared .align 1024 .b8 buffer[4096];\n.shared .align 8 .b64 bar;\n\
    ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmov.u32 %cta, %ctaid.x;\n\
    mov.u32 %r0, %ntid.x;\nmad.lo.u32 %r0, %cta, %r0, %t;\nmad.wide.u32 %mine, %r0, 4, %out;\n";

/// One CTA of so many threads.
pub fn threads(count: u32) -> Launch {
    Launch { threads: [count, 1, 1], ..Launch::default() }
}

/// So many CTAs of so many threads.
pub fn ctas(count: u32, threads: u32) -> Launch {
    Launch { grid: [count, 1, 1], threads: [threads, 1, 1], ..Launch::default() }
}

/// What the kernel is accused of.
pub fn accused(body: &str, launch: &Launch) -> Fault {
    run(body, launch).expect_err("the kernel is faulty")
}

fn run(body: &str, launch: &Launch) -> Result<(), Fault> {
    let module = Module::load(&format!("{HEAD}{body}\nret;\n}}\n")).unwrap_or_else(|error| panic!("{error}"));
    let emulator = Emulator::new(Arch::Sm90a);
    let bytes = 4 * launch.threads[0] as usize * launch.grid[0] as usize;
    let out = emulator.allocate(bytes as u64);
    emulator.write(out, &vec![0; bytes]).expect("allocated");
    let kernel = module.kernel("k").expect("it is called so");
    emulator.launch(&kernel, launch, &out.to_le_bytes()).map(|_| ())
}

/// The kernel is not accused.
#[track_caller]
pub fn innocent(body: &str, launch: Launch) {
    if let Err(fault) = run(body, &launch) {
        panic!("{fault}");
    }
}

/// The kernel is accused of something that has these words, at this CTA and thread, and at the line that ends in
/// `// here`.
#[track_caller]
pub fn guilty(body: &str, launch: Launch, cta: u32, thread: u32, words: &[&str]) {
    let fault = accused(body, &launch);
    let line = HEAD.lines().chain(body.lines()).position(|line| line.ends_with("// here"));
    assert_eq!(fault.kernel, "k", "{fault}");
    assert_eq!(fault.cta, Some([cta, 0, 0]), "{fault}");
    assert_eq!(fault.thread, Some(thread), "{fault}");
    assert_eq!(fault.line, Some(line.expect("a line is marked") as u32 + 1), "{fault}");
    for word in words {
        assert!(fault.what.contains(word), "no `{word}` in: {fault}");
    }
}
