//! Small kernels, and what they compute.

use tilewright_emulator::{Arch, Emulator, Fault, Launch, Module};

/// A module with one kernel `k` that takes a pointer: `%out` is its address, `%t` the thread.
fn module(body: &str) -> Module {
    let text = format!(
        ".version 8.1\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 out)\n{{\n\
         .reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<20>;\n.reg .b64 %d<20>;\n.reg .b64 %out;\n.reg .b32 %t;\n\
         .reg .b64 %mine;\n.shared .align 16 .b8 buffer[1024];\n.shared .align 8 .b64 bar;\n\
         ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %mine, %t, 4, %out;\n{body}\nret;\n}}\n"
    );
    Module::load(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the kernel; gives the first words of its memory, one a thread.
fn try_words(body: &str, launch: Launch) -> Result<Vec<u32>, Fault> {
    let module = module(body);
    let emulator = Emulator::new(Arch::Sm90a);
    let count = (launch.threads[0] * launch.grid[0]) as usize;
    let out = emulator.allocate(4 * count as u64).unwrap();
    emulator.write(out, &vec![0; 4 * count]).unwrap();
    emulator.launch(&module.kernel("k").unwrap(), &launch, &out.to_le_bytes())?;
    let mut bytes = vec![0; 4 * count];
    emulator.read(out, &mut bytes).unwrap();
    Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

fn threads(count: u32) -> Launch {
    Launch { threads: [count, 1, 1], ..Launch::default() }
}

fn words(body: &str, count: u32) -> Vec<u32> {
    try_words(body, threads(count)).unwrap_or_else(|fault| panic!("{fault}"))
}

fn fault(body: &str, launch: Launch) -> String {
    try_words(body, launch).expect_err("the kernel is faulty").to_string()
}

#[test]
fn lanes_diverge_and_meet() {
    // Each thread counts to its number; odd ones go another way.
    let body = "mov.u32 %r1, 0;\nand.b32 %r2, %t, 1;\nsetp.eq.u32 %p1, %r2, 1;\n@%p1 bra ODD;\n\
        LOOP: setp.ge.u32 %p2, %r1, %t;\n@%p2 bra DONE;\nadd.u32 %r1, %r1, 1;\nbra LOOP;\n\
        ODD: add.u32 %r1, %t, 100;\n\
        DONE: shfl.sync.idx.b32 %r3, %r1, 3, 0x1f, -1;\nadd.u32 %r1, %r1, %r3;\nst.global.u32 [%mine], %r1;";
    let expected = |t: u32| if t % 2 == 1 { t + 100 + 103 } else { t + 103 };
    assert_eq!(words(body, 32), (0..32).map(expected).collect::<Vec<_>>());
}

#[test]
fn shared_memory_is_passed_on_by_a_barrier() {
    let body = "mov.u32 %r1, buffer;\nmad.lo.u32 %r2, %t, 4, %r1;\nst.shared.u32 [%r2], %t;\nbar.sync 0;\n\
        sub.u32 %r3, 127, %t;\nmad.lo.u32 %r2, %r3, 4, %r1;\nld.shared.u32 %r4, [%r2];\nst.global.u32 [%mine], %r4;";
    assert_eq!(words(body, 128), (0..128).rev().collect::<Vec<_>>());
}

#[test]
fn a_barrier_does_not_wait_for_lanes_that_ended() {
    let body = "setp.gt.u32 %p1, %t, 32;\n@%p1 exit;\nbarrier.sync 1, 64;\nst.global.u32 [%mine], 7;";
    assert_eq!(words(body, 64)[..34], [[7; 33].as_slice(), &[0]].concat());
}

#[test]
fn an_mbarrier_counts_arrivals_and_bytes() {
    let body = "mov.u32 %r1, bar;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 bra GO;\nmbarrier.init.shared.b64 [%r1], 33;\n\
        GO: bar.sync 0;\nsetp.lt.u32 %p2, %t, 32;\n@!%p2 bra ARRIVE;\n\
        POLL: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], 0;\n@!%p3 bra POLL;\n\
        ld.shared.u32 %r5, [buffer];\nst.global.u32 [%mine], %r5;\nexit;\n\
        ARRIVE: setp.ne.u32 %p4, %t, 40;\n@%p4 bra LAST;\n\
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16;\n\
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buffer], [%out], 16, [%r1];\n\
        LAST: mbarrier.arrive.shared.b64 _, [%r1];";
    // The copy is of zeros, over shared memory that held something else.
    assert_eq!(words(body, 64)[..32], [0; 32]);
}

#[test]
fn clusters_reach_each_others_memory() {
    let body = "mov.u32 %r1, %cluster_ctarank;\nmov.u32 %r2, buffer;\nadd.u32 %r3, %r1, 50;\nst.shared.u32 [%r2], %r3;\n\
        barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\nxor.b32 %r4, %r1, 1;\n\
        mapa.shared::cluster.u32 %r5, %r2, %r4;\nld.shared::cluster.u32 %r6, [%r5];\n\
        barrier.cluster.arrive;\nbarrier.cluster.wait;\n\
        mov.u32 %r7, %ctaid.x;\nmad.lo.u32 %r7, %r7, 32, %t;\nmad.wide.u32 %d1, %r7, 4, %out;\nst.global.u32 [%d1], %r6;";
    let launch = Launch { grid: [4, 1, 1], cluster: [2, 1, 1], ..threads(32) };
    let out = try_words(body, launch).unwrap();
    assert_eq!([out[0], out[32], out[64], out[96]], [51, 50, 51, 50]);
}

#[test]
fn atomics_of_many_ctas_add_up() {
    let launch = Launch { grid: [50, 1, 1], ..threads(64) };
    let out =
        try_words("atom.global.add.u32 %r1, [%out], 3;\nred.global.max.u32 [%out+4], %t;", launch).unwrap();
    assert_eq!(out[..2], [3 * 64 * 50, 63]);
}

#[test]
fn bad_accesses_are_reported_with_their_place() {
    let message = fault("mad.wide.u32 %d1, %t, 8, %out;\nst.global.u32 [%d1], 1;", threads(64));
    assert!(message.contains("out of bounds") && message.contains("thread 32"), "{message}");
    assert!(message.contains("st.global.u32 [%d1], 1;"), "{message}");
    let message = fault("st.global.u32 [%out+2], 1;", threads(32));
    assert!(message.contains("misaligned"), "{message}");
    let message = fault("ld.shared.u32 %r1, [buffer+4096];", threads(32));
    assert!(message.contains("shared memory") && message.contains("out of bounds"), "{message}");
}

#[test]
fn deadlocks_say_who_waits_for_what() {
    let message = fault("setp.lt.u32 %p1, %t, 32;\n@%p1 bar.sync 2, 64;\n@!%p1 bar.sync 3, 64;", threads(64));
    assert!(message.contains("barrier 2, where 32 of 64 threads are"), "{message}");
    assert!(message.contains("barrier 3"), "{message}");
    let poll = "mov.u32 %r1, bar;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 exit;\nmbarrier.init.shared.b64 [%r1], 1;\n\
        POLL: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], 0;\n@!%p3 bra POLL;";
    let message = fault(poll, threads(32));
    assert!(message.contains("deadlock") && message.contains("an mbarrier"), "{message}");
    let message = fault("mbarrier.arrive.shared.b64 _, [bar];", threads(32));
    assert!(message.contains("no mbarrier"), "{message}");
}

#[test]
fn what_is_not_emulated_is_an_error_at_load() {
    let error = |line: &str| {
        let text = format!(".target sm_90a\n.entry k()\n{{ .reg .b32 %r<9>;\n{line}\n}}");
        Module::load(&text).unwrap_err().to_string()
    };
    assert_eq!(error("frob.u32 %r1, %r2;"), "PTX line 4: frob.u32: this instruction is not emulated");
    assert_eq!(
        error("add.foo.u32 %r1, %r2, %r3;"),
        "PTX line 4: add.foo.u32: modifier `.foo` is not emulated here"
    );
    assert_eq!(error("add.u32 %r1, %r2, %x;"), "PTX line 4: add.u32: `%x` is not known");
    assert_eq!(error("bra NOWHERE;"), "PTX line 4: bra: there is no label `NOWHERE`");
}

#[test]
fn a_launch_that_does_not_suit_the_kernel_is_refused() {
    let refused = |launch| fault("", launch);
    assert!(refused(threads(2048)).contains("1024"));
    assert!(refused(Launch { cluster: [2, 1, 1], ..threads(32) }).contains("not a multiple"));
    assert!(refused(Launch { dynamic_shared: 1 << 20, ..threads(32) }).contains("shared memory"));
}

#[test]
fn minima_and_maxima_are_cut_at_zero() {
    let body = "sub.s32 %r1, %t, 3;\nmin.relu.s32 %r2, %r1, 1;\nmax.relu.s32 %r3, %r1, -7;\n\
        mad.lo.s32 %r4, %r2, 100, %r3;\nst.global.u32 [%mine], %r4;";
    assert_eq!(words(body, 8), [0, 0, 0, 0, 101, 102, 103, 104]);
}
