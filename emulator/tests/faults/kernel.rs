//! Runs the body of a kernel, and looks at what it is accused of.

use tilewright_emulator::{Arch, Emulator, Fault, Launch, Module, Schedule};

/// What bodies begin with: `%t` is the thread, `%cta` its CTA, `%out` 4 KiB of global memory, `%mine` the thread's word of it,
/// `buffer` 4 KiB of shared memory, `%s` the thread's 16 bytes of it, and `bar` an mbarrier.
const HEAD: &str = ".version 8.3\n.target sm_90a\n.address_size 64\n\
    .visible .entry k(.param .u64 out)\n{\n\
    .reg .pred %p<20>;\n.reg .b16 %h<20>;\n.reg .b32 %r<90>;\n.reg .b32 %f<9>;\n.reg .b64 %d<20>;\n\
    .reg .b32 %t, %cta, %s;\n.reg .b64 %out, %mine;\n\
    .shared .align 1024 .b8 buffer[4096];\n.shared .align 8 .b64 bar;\n\
    ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmov.u32 %cta, %ctaid.x;\n\
    mov.u32 %r0, %ntid.x;\nmad.lo.u32 %r0, %cta, %r0, %t;\nmad.wide.u32 %mine, %r0, 4, %out;\n\
    mov.u32 %s, buffer;\nmad.lo.u32 %s, %t, 16, %s;\n";

/// One CTA of so many threads.
pub fn threads(count: u32) -> Launch {
    ctas(1, count)
}

/// So many CTAs of so many threads, each a cluster.
pub fn ctas(count: u32, threads: u32) -> Launch {
    Launch { grid: [count, 1, 1], threads: [threads, 1, 1], ..Launch::default() }
}

/// One cluster of so many CTAs of so many threads.
pub fn cluster(count: u32, threads: u32) -> Launch {
    Launch { cluster: [count, 1, 1], ..ctas(count, threads) }
}

fn run(body: &str, launch: &Launch) -> Result<(), Fault> {
    run_in(Schedule::Fixed, body, launch)
}

fn run_in(schedule: Schedule, body: &str, launch: &Launch) -> Result<(), Fault> {
    const BYTES: usize = 4096;
    let text = format!("{HEAD}{body}\nret;\n}}\n");
    let module = Module::load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let emulator = Emulator::new(Arch::Sm90a).with_schedule(schedule);
    let out = emulator.allocate(BYTES as u64).expect("it is little");
    emulator.write(out, &[0; BYTES]).expect("just allocated");
    let kernel = module.kernel("k").expect("it is called so");
    emulator.launch(&kernel, launch, &out.to_le_bytes()).map(|_| ())
}

/// What the kernel is accused of.
#[track_caller]
pub fn accused(body: &str, launch: &Launch) -> Fault {
    run(body, launch).expect_err("the kernel is faulty")
}

/// The kernel is not accused.
#[track_caller]
pub fn innocent(body: &str, launch: Launch) {
    if let Err(fault) = run(body, &launch) {
        panic!("accused: {fault}");
    }
}

/// The kernel is accused, in all of these words.
#[track_caller]
pub fn guilty(body: &str, launch: Launch, words: &[&str]) {
    contains(&accused(body, &launch).to_string(), words);
}

/// What the kernel is accused of in one of some random orders, if anything.
pub fn accused_in_some_order(body: &str, launch: Launch) -> Option<Fault> {
    (0..40).find_map(|seed| run_in(Schedule::Random(seed), body, &launch).err())
}

/// The kernel is accused of something that has these words, at this CTA and thread, and at the line that ends in
/// `// here`.
#[track_caller]
pub fn guilty_at(body: &str, launch: Launch, cta: u32, thread: u32, words: &[&str]) {
    let fault = accused(body, &launch);
    let line = HEAD.lines().chain(body.lines()).position(|line| line.ends_with("// here"));
    assert_eq!(fault.kernel, "k", "{fault}");
    assert_eq!(fault.cta, Some([cta, 0, 0]), "{fault}");
    assert_eq!(fault.thread, Some(thread), "{fault}");
    assert_eq!(fault.line, Some(line.expect("a line is marked") as u32 + 1), "{fault}");
    contains(&fault.what, words);
}

/// With the part in brackets the kernel is not accused; without it it is, in all of these words.
#[track_caller]
pub fn needs(body: &str, launch: Launch, words: &[&str]) {
    innocent(&body.replace(['⟦', '⟧'], ""), launch);
    let (before, rest) = body.split_once('⟦').expect("a part in brackets");
    let (_, after) = rest.split_once('⟧').expect("the part ends");
    guilty(&format!("{before}{after}"), launch, words);
}

#[track_caller]
pub fn contains(accusation: &str, words: &[&str]) {
    for word in words {
        assert!(accusation.contains(word), "`{word}` is not in: {accusation}");
    }
}
