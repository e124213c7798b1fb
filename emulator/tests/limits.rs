//! Limits of instructions, of time and of memory, launches that are cancelled, and those that end at their first fault.

use std::thread;
use std::time::{Duration, Instant};

use tilewright_emulator::{Arch, Emulator, Fault, Kernel, Launch, Limits, Module};

/// The largest grid that there is: nearly 2^63 CTAs.
const ALL: [u32; 3] = [(1 << 31) - 1, 65535, 65535];

/// A kernel `k` of a pointer, `%out`.
fn kernel(body: &str) -> Kernel {
    let text = format!(
        ".version 8.1\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out)\n{{\n.reg .pred %p;\n.reg .b32 %t, %r;\n\
         .reg .b64 %d, %out;\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmov.u64 %d, 0;\n{body}\nret;\n}}\n"
    );
    let module = Module::load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.kernel("k").expect("it is called so")
}

fn grid(grid: [u32; 3]) -> Launch {
    Launch { grid, ..Launch::default() }
}

fn run(limits: Limits, kernel: &Kernel, launch: Launch) -> Result<(), Fault> {
    let emulator = Emulator::new(Arch::Sm90a).with_limits(limits).echoing(false);
    let out = emulator.allocate(1 << 20).unwrap();
    emulator.launch(kernel, &launch, &out.to_le_bytes()).map(|_| ())
}

/// What is wrong with a launch, which takes less than a minute.
#[track_caller]
fn fault(limits: Limits, body: &str, launch: Launch) -> Fault {
    let start = Instant::now();
    let fault = run(limits, &kernel(body), launch).expect_err("it cannot end well");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    fault
}

fn instructions(instructions: u64) -> Limits {
    Limits { instructions, ..Limits::default() }
}

fn memory(memory: u64) -> Limits {
    Limits { memory, ..Limits::default() }
}

/// Counts up to a number, or for ever.
fn count(to: u64) -> String {
    format!("LOOP: add.u64 %d, %d, 1;\nsetp.ne.u64 %p, %d, {to};\n@%p bra LOOP;")
}

#[test]
fn a_loop_without_an_end_ends_by_its_instructions() {
    let fault = fault(instructions(100_000), &count(u64::MAX), Launch::default());
    let what = "the launch has executed more than 100000 instructions (`Limits::instructions`): 0 of 1 CTAs have ended";
    assert_eq!((&*fault.what, &*fault.kernel, fault.cta, fault.thread), (what, "k", Some([0; 3]), Some(0)));
    assert!(
        fault.line.is_some_and(|line| (12..15).contains(&line)) && fault.instruction.is_some(),
        "{fault}"
    );
    run(instructions(100_000), &kernel(&count(30_000)), Launch::default()).unwrap();
    // All warps of all CTAs together.
    let launch = Launch { threads: [64, 1, 1], ..grid([2, 1, 1]) };
    assert!(run(instructions(100_000), &kernel(&count(30_000)), launch).is_err());
    run(instructions(400_000), &kernel(&count(30_000)), launch).unwrap();
}

#[test]
fn a_loop_without_an_end_ends_by_its_time() {
    let limits = Limits { time: Duration::from_millis(50), ..Limits::default() };
    for body in [count(u64::MAX), format!("atom.global.add.u32 %r, [%out], 1;\n{}", count(u64::MAX))] {
        let fault = fault(limits, &body, grid([3, 1, 1]));
        assert!(fault.what.starts_with("the launch has run for more than 50ms (`Limits::time`)"), "{fault}");
        assert!(fault.cta.is_some() && fault.line.is_some(), "{fault}");
    }
    let limits = Limits { time: Duration::from_secs(600), ..Limits::default() };
    run(limits, &kernel(&count(1000)), grid([3, 1, 1])).unwrap();
}

#[test]
fn launches_say_where_they_are_and_are_cancelled() {
    let emulator = Emulator::new(Arch::Sm90a);
    let endless = kernel(&count(u64::MAX));
    assert_eq!(emulator.running(), []);
    thread::scope(|scope| {
        let launched = scope.spawn(|| emulator.launch(&endless, &grid([100, 1, 1]), &[0; 8]));
        let progress = loop {
            match emulator.running().as_slice() {
                [progress] if progress.cta.is_some() => break progress.clone(),
                _ => thread::sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!(
            (&*progress.kernel, progress.ended, progress.ctas, progress.thread),
            ("k", 0, 100, Some(0))
        );
        assert!(progress.instructions >= 4096 && progress.instruction.is_some(), "{progress}");
        assert!(progress.to_string().contains("kernel k: 0 of 100 CTAs have ended, "), "{progress}");
        assert!(progress.to_string().contains(", thread 0, PTX line 1"), "{progress}");
        emulator.cancel();
        let fault = launched.join().expect("no panic").unwrap_err();
        assert_eq!(fault.what, "the launch was cancelled: 0 of 100 CTAs have ended");
        assert!(fault.cta.is_some() && fault.line.is_some(), "{fault}");
    });
    // Later launches are not.
    assert_eq!(emulator.running(), []);
    emulator.launch(&kernel(&count(10_000)), &grid([2, 1, 1]), &[0; 8]).unwrap();
}

#[test]
fn a_launch_ends_at_its_first_fault() {
    for body in ["trap;", "st.global.u32 [0], 1;", "atom.global.add.u32 %r, [0], 1;"] {
        let fault = fault(Limits::default(), body, grid(ALL));
        assert_eq!((fault.cta, fault.thread), (Some([0; 3]), Some(0)), "{fault}");
    }
    // It is the first CTA's, whichever comes first.
    let body = format!(
        "mov.u32 %r, %ctaid.x;\nsetp.lt.u32 %p, %r, 20;\n@%p bra DONE;\nsetp.ne.u32 %p, %r, 20;\n@%p trap;\n{}\ntrap;\nDONE:",
        count(20_000)
    );
    for _ in 0..10 {
        assert_eq!(fault(Limits::default(), &body, grid(ALL)).cta, Some([20, 0, 0]));
    }
}

#[test]
fn a_deadlock_does_not_hide_the_fault_of_another_cta() {
    // The first ones wait for what nobody writes.
    let body = |waiting: u32, fault: u32| {
        format!(
            "mov.u32 %t, %ctaid.x;\nsetp.ge.u32 %p, %t, {fault};\n@%p trap;\nsetp.ge.u32 %p, %t, {waiting};\n@%p exit;\nAGAIN: ld.global.u32 %r, [%out];\nsetp.ne.u32 %p, %r, 77;\n@%p bra AGAIN;"
        )
    };
    for _ in 0..5 {
        let fault = fault(Limits::default(), &body(3, 1000), grid(ALL));
        assert_eq!(fault.cta, Some([1000, 0, 0]), "{fault}");
    }
    // Those that would not run together with the first are not waited for, and not all if each of them waits.
    for (waiting, faulty) in [(1, 5000), (64, 64), (u32::MAX, u32::MAX)] {
        let fault = fault(Limits::default(), &body(waiting, faulty), grid(ALL));
        assert!(fault.what.starts_with("deadlock") && fault.cta.is_none(), "{fault}");
    }
}

#[test]
fn a_race_of_many_ctas_ends_the_launch() {
    for _ in 0..5 {
        let fault = fault(Limits::default(), "mov.u32 %r, %ctaid.x;\nst.global.u32 [%out], %r;", grid(ALL));
        assert!(fault.what.starts_with("race") && fault.cta == Some([1, 0, 0]), "{fault}");
    }
}

#[test]
fn a_grid_without_an_end_ends_by_a_limit() {
    for body in ["", "atom.global.add.u32 %r, [%out], 1;"] {
        let fault = fault(instructions(100_000), body, grid(ALL));
        assert!(fault.what.starts_with("the launch has executed more than 100000"), "{fault}");
        assert!(fault.what.contains(" of 9223090559730712575 CTAs have ended"), "{fault}");
        assert!(fault.cta.is_some(), "{fault}");
        run(instructions(100_000), &kernel(body), grid([3000, 1, 1])).unwrap();
    }
}

#[test]
fn allocations_have_a_limit() {
    let emulator = Emulator::new(Arch::Sm90a);
    for bytes in [1 << 40, 1 << 62, u64::MAX - 4096, u64::MAX] {
        let what = emulator.allocate(bytes).unwrap_err().what;
        assert!(what.contains(&format!("an allocation of {bytes} bytes")), "{what}");
    }
    assert_eq!(emulator.used(), 0);
    let emulator = emulator.with_limits(memory(1000));
    let first = emulator.allocate(600).unwrap();
    let what = emulator.allocate(600).unwrap_err().what;
    let expected = "out of memory: an allocation of 600 bytes takes 600 bytes, and others hold 600 of 1000 (`Limits::memory`)";
    assert_eq!(what, expected);
    emulator.free(first).unwrap();
    assert!(emulator.allocate(600).is_ok());
    assert!(emulator.with_limits(memory(2000)).allocate(600).is_ok());
}

#[test]
fn clusters_have_the_memory_that_is_there() {
    // 64 KiB of local memory are 2 MiB for a warp, and 64 MiB for a CTA.
    let body = ".local .b8 mine[65536];\nst.local.u32 [mine], %t;\natom.global.add.u32 %r, [%out], 1;";
    let launch = Launch { threads: [1024, 1, 1], ..grid([8, 1, 1]) };
    let fault = fault(memory(60 << 20), body, launch);
    assert!(fault.what.starts_with("out of memory: a cluster with its registers, local"), "{fault}");
    assert_eq!(fault.cta, Some([0; 3]));
    // There is room for one after the other, and for all.
    let alone = body.replace("atom.global.add.u32 %r, [%out], 1;", "");
    for body in [body, &alone] {
        run(memory(100 << 20), &kernel(body), launch).unwrap();
        run(memory(1 << 30), &kernel(body), launch).unwrap();
    }
}

#[test]
fn what_is_known_of_accesses_has_a_limit() {
    // Every thread writes a word of its own, 4 KiB apart from the others.
    let body = "mad.wide.u32 %d, %t, 4096, %out;\nst.global.u32 [%d], %t;";
    let launch = Launch { threads: [256, 1, 1], ..Launch::default() };
    let fault = fault(memory((1 << 20) + (1 << 20)), body, launch);
    assert!(fault.what.starts_with("out of memory: what is known of accesses to global memory"), "{fault}");
    run(memory(16 << 20), &kernel(body), launch).unwrap();
    // So have the addresses by which clocks are passed on, of which there is one for each word.
    let body = "mad.wide.u32 %d, %t, 4, %out;\nfence.acq_rel.gpu;\nAGAIN: st.relaxed.gpu.global.u32 [%d], %t;\nadd.u64 %d, %d, 4096;\n\
        add.u64 %out, %out, 4096;\nadd.u32 %r, %t, 1;\nbra AGAIN;";
    let limits = memory((1 << 20) + (8 << 20));
    let what =
        run(limits, &kernel(body), Launch { threads: [1024, 1, 1], ..Launch::default() }).unwrap_err().what;
    assert!(what.starts_with("out of memory: what is known of accesses to global memory"), "{what}");
}

#[test]
fn what_is_printed_has_a_limit() {
    let text = ".version 8.1\n.target sm_90a\n.address_size 64\n\
        .extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 arguments);\n\
        .global .align 1 .b8 text[5] = {104, 117, 105, 33, 0};\n\
        .visible .entry k(.param .u64 out)\n{\n.reg .b64 %d;\n.reg .b32 %r;\nmov.u64 %d, text;\nLOOP:\n{\n.param .b64 a;\n.param .b64 b;\n\
        .param .b32 c;\nst.param.b64 [a], %d;\nst.param.b64 [b], 0;\ncall.uni (c), vprintf, (a, b);\n}\nbra LOOP;\n}\n";
    let kernel = Module::load(text).unwrap().kernel("k").unwrap();
    let fault = run(memory(8 << 20), &kernel, Launch::default()).unwrap_err();
    assert!(fault.what.starts_with("out of memory: what a launch prints"), "{fault}");
}
