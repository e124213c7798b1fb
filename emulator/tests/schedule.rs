//! Who runs when: CTAs that wait for each other, orders that are always the same, and random ones.

use tilewright_emulator::{Arch, Emulator, Launch, Module, Schedule};

/// A module with one kernel `k` of a pointer: `%out`; `%t` is the thread, `%cta` the CTA, `%ctas` their number.
fn module(body: &str) -> Module {
    let text = format!(
        ".version 8.1\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 out)\n{{\n\
         .reg .pred %p<9>;\n.reg .b32 %r<20>;\n.reg .f32 %f<9>;\n.reg .b64 %d<20>;\n.reg .b64 %out;\n\
         .reg .b32 %t, %cta, %ctas;\n.shared .align 16 .b8 buffer[1024];\n.shared .align 8 .b64 bars[2];\n\
         ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmov.u32 %cta, %ctaid.x;\nmov.u32 %ctas, %nctaid.x;\n\
         {body}\nret;\n}}\n"
    );
    Module::load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn grid(ctas: u32, threads: u32) -> Launch {
    Launch { grid: [ctas, 1, 1], threads: [threads, 1, 1], ..Launch::default() }
}

/// Runs the kernel with so many words of memory, zeros at first.
fn run(body: &str, launch: Launch, words: usize, schedule: Schedule) -> Result<Vec<u32>, String> {
    run_on(Emulator::new(Arch::Sm90a).with_schedule(schedule), body, launch, words)
}

fn run_on(emulator: Emulator, body: &str, launch: Launch, words: usize) -> Result<Vec<u32>, String> {
    let out = emulator.allocate(4 * words as u64).unwrap();
    emulator.write(out, &vec![0; 4 * words]).unwrap();
    let kernel = module(body).kernel("k").unwrap();
    emulator.launch(&kernel, &launch, &out.to_le_bytes()).map_err(|fault| fault.to_string())?;
    let mut bytes = vec![0; 4 * words];
    emulator.read(out, &mut bytes).unwrap();
    Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// The fixed schedule and some random ones.
fn schedules() -> impl Iterator<Item = Schedule> {
    std::iter::once(Schedule::Fixed).chain((1..=8).map(Schedule::Random))
}

/// All threads of the grid wait for each other: word 0 counts the CTAs.
const GRID_BARRIER: &str = "bar.sync 0;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 bra MET;\nfence.acq_rel.gpu;\nred.relaxed.gpu.global.add.u32 [%out], 1;\n\
    POLL: ld.acquire.gpu.global.u32 %r1, [%out];\nsetp.lt.u32 %p2, %r1, %ctas;\n@%p2 bra POLL;\nMET: bar.sync 0;\n";

#[test]
fn a_grid_barrier_is_passed_by_all() {
    // Each CTA writes a word, and after the barrier reads its right neighbour's.
    let body = format!(
        "add.u32 %r2, %cta, 1;\nmad.wide.u32 %d1, %r2, 4, %out;\nadd.u32 %r3, %cta, 100;\nst.global.u32 [%d1], %r3;\n\
        {GRID_BARRIER}rem.u32 %r4, %r2, %ctas;\nmad.wide.u32 %d2, %r4, 4, %out;\nld.global.u32 %r5, [%d2+4];\n\
        mad.wide.u32 %d1, %ctas, 4, %d1;\nst.global.u32 [%d1], %r5;"
    );
    let expected: Vec<u32> = (0..60).map(|cta| 100 + (cta + 1) % 60).collect();
    for schedule in schedules() {
        let words = run(&body, grid(60, 64), 121, schedule).unwrap();
        assert_eq!(words[61..], expected, "{schedule:?}");
    }
}

#[test]
fn ctas_wait_for_later_ones() {
    // Each CTA adds its number to what the next one, the last of which begins, has passed on.
    let body = "mad.wide.u32 %d1, %cta, 8, %out;\nadd.u32 %r1, %cta, 1;\nsetp.eq.u32 %p1, %r1, %ctas;\nmov.u32 %r3, 0;\n@%p1 bra LAST;\n\
        POLL: ld.acquire.gpu.global.u32 %r2, [%d1+8];\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 nanosleep.u32 20;\n@%p2 bra POLL;\n\
        ld.global.u32 %r3, [%d1+12];\n\
        LAST: add.u32 %r3, %r3, %cta;\nst.global.u32 [%d1+4], %r3;\nst.release.gpu.global.u32 [%d1], 1;";
    for schedule in schedules() {
        let words = run(body, grid(100, 1), 200, schedule).unwrap();
        assert_eq!(words[1], 99 * 100 / 2, "{schedule:?}");
    }
}

#[test]
fn a_lock_is_passed_on_within_a_warp() {
    // The lanes of a warp take the same lock in turn, and so do warps and CTAs.
    let body = "RETRY: atom.acquire.gpu.global.cas.b32 %r1, [%out], 0, 1;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra RETRY;\n\
        ld.global.u32 %r2, [%out+4];\nadd.u32 %r2, %r2, 1;\nst.global.u32 [%out+4], %r2;\n\
        atom.release.gpu.global.exch.b32 %r1, [%out], 0;";
    for schedule in schedules() {
        assert_eq!(run(body, grid(4, 64), 2, schedule).unwrap(), [0, 256], "{schedule:?}");
    }
}

#[test]
fn sums_of_floats_have_one_order_a_schedule() {
    // Values of very different sizes: the sum depends on the order.
    let body = "mad.lo.u32 %r1, %cta, 64, %t;\nmul.lo.u32 %r1, %r1, 40503;\nand.b32 %r1, %r1, 65535;\ncvt.rn.f32.u32 %f1, %r1;\n\
        mul.f32 %f1, %f1, %f1;\nred.global.add.f32 [%out], %f1;";
    let sum = |schedule| run(body, grid(50, 64), 1, schedule).unwrap()[0];
    for schedule in schedules() {
        let first = sum(schedule);
        assert!((0..5).all(|_| sum(schedule) == first), "{schedule:?}");
    }
    let exact = (0..3200u64).map(|i| (i * 40503 % 65536).pow(2)).sum::<u64>() as f32;
    for schedule in schedules() {
        let sum = f32::from_bits(sum(schedule));
        assert!((sum / exact - 1.0).abs() < 1e-4, "{sum} for {exact}");
    }
    let orders: std::collections::BTreeSet<u32> = schedules().map(sum).collect();
    assert!(orders.len() > 1, "random schedules add in other orders");
}

#[test]
fn random_schedules_show_a_missing_barrier() {
    // Threads 32 to 63 read what the first warp writes, which comes first in the fixed order.
    let body = "mov.u32 %r1, buffer;\nmad.lo.u32 %r2, %t, 4, %r1;\nst.shared.u32 [%r2], 0;\nbar.sync 0;\n\
        setp.ge.u32 %p1, %t, 32;\n@%p1 bra READ;\nadd.u32 %r3, %t, 1;\nst.shared.u32 [%r2], %r3;\nbra DONE;\n\
        READ: ld.shared.u32 %r4, [%r2+-128];\nmad.wide.u32 %d1, %t, 4, %out;\nst.global.u32 [%d1+-128], %r4;\nDONE:";
    let written: Vec<u32> = (1..=32).collect();
    let run = |schedule| {
        let emulator = Emulator::new(Arch::Sm90a).with_schedule(schedule).checking_order(false);
        run_on(emulator, body, grid(1, 64), 32).unwrap()
    };
    assert_eq!(run(Schedule::Fixed), written);
    let seen: Vec<_> = (0..20).map(|seed| run(Schedule::Random(seed))).collect();
    assert!(seen.contains(&written) && seen.iter().any(|words| *words != written));
    let again: Vec<_> = (0..20).map(|seed| run(Schedule::Random(seed))).collect();
    assert_eq!(seen, again, "a seed is a schedule");
}

#[test]
fn ctas_that_wait_for_nobody_are_a_deadlock() {
    // CTA 0 never sets the flag.
    let body = "mov.u32 %r3, 0;\nsetp.eq.u32 %p1, %cta, 0;\n@%p1 ret;\nPOLL: ld.acquire.gpu.global.u32 %r2, [%out];\n\
        setp.eq.u32 %p2, %r2, 0;\n@%p2 bra POLL;";
    for schedule in [Schedule::Fixed, Schedule::Random(1)] {
        let report = run(body, grid(300, 32), 1, schedule).unwrap_err();
        assert!(report.starts_with("deadlock"), "{report}");
        assert!(report.contains("ld.acquire.gpu.global.u32 %r2, [%out];"), "{report}");
        assert!(report.contains("298 more like it") && report.len() < 1000, "{report}");
    }
    // So are those that count how often they tried.
    let counting = body.replace("@%p2", "add.u32 %r3, %r3, 1;\n@%p2");
    assert!(run(&counting, grid(2, 32), 1, Schedule::Fixed).unwrap_err().starts_with("deadlock"));
}

#[test]
fn reports_have_an_end() {
    // 300 threads of one warp each wait for a word of their own.
    let body = "mad.wide.u32 %d1, %cta, 4, %out;\nPOLL: ld.volatile.global.u32 %r2, [%d1];\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra POLL;";
    let report = run(body, grid(300, 32), 300, Schedule::Fixed).unwrap_err();
    assert!(report.contains("268 more that wait for something else"), "{report}");
    assert!(report.lines().count() < 40, "{report}");
}

#[test]
fn lanes_that_come_later_are_no_deadlock() {
    // Turns of one instruction bring lanes of the only warp to where they wait for the others, and do nothing else.
    let body = "mov.u32 %r1, 0;\nmov.u32 %r2, 0;\nsetp.lt.u32 %p1, %t, 8;\n\
        ROUND: @%p1 bra FAR;\nMEET: bar.warp.sync -1;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p2, %r1, 5000;\n@%p2 bra ROUND;\n\
        mad.wide.u32 %d1, %t, 4, %out;\nst.global.u32 [%d1], %r2;\nbra DONE;\n\
        FAR: add.u32 %r2, %r2, 1;\nbra MEET;\nDONE:";
    for schedule in schedules() {
        let words = run(body, grid(1, 32), 32, schedule).unwrap();
        assert_eq!((&words[..8], &words[8..]), (&[5000; 8][..], &[0; 24][..]), "{schedule:?}");
    }
}

#[test]
fn lanes_of_both_branches_exchange_values() {
    // The lanes below 8 and the others each have their own instructions; the last lane takes no part in the second.
    let body = "setp.lt.u32 %p1, %t, 8;\nadd.u32 %r1, %t, 100;\n@%p1 bra LOW;\nshfl.sync.bfly.b32 %r2, %r1, 9, 31, -1;\n\
        setp.eq.u32 %p2, %t, 31;\n@%p2 bra DONE;\nredux.sync.max.u32 %r3, %r1, 0x7fffffff;\nbra DONE;\n\
        LOW: add.u32 %r4, %r1, 100;\nshfl.sync.bfly.b32 %r2, %r4, 9, 31, -1;\nredux.sync.max.u32 %r3, %r4, 0x7fffffff;\n\
        DONE: mad.wide.u32 %d1, %t, 4, %out;\nst.global.u32 [%d1], %r2;\n@!%p2 st.global.u32 [%d1+128], %r3;";
    let body = format!("setp.eq.u32 %p2, 0, 1;\n{body}");
    let value = |lane: u32| if lane < 8 { lane + 200 } else { lane + 100 };
    for schedule in schedules() {
        let words = run(&body, grid(1, 32), 64, schedule).unwrap();
        let exchanged: Vec<u32> = (0..32).map(|lane| value(lane ^ 9)).collect();
        assert_eq!(words[..32], exchanged, "{schedule:?}");
        assert_eq!(words[32..63], [207; 31], "{schedule:?}");
    }
}

#[test]
fn polling_by_tests_of_an_mbarrier_is_a_deadlock_when_nobody_arrives() {
    let body = |test: &str| {
        format!(
            "mov.u32 %r1, bars;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 bra GO;\nmbarrier.init.shared.b64 [%r1], 2;\n\
            GO: bar.sync 0;\n@!%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 512;\n\
            POLL: mbarrier.{test}.parity.shared::cta.b64 %p3, [%r1], 0;\n@!%p3 bra POLL;"
        )
    };
    for test in ["test_wait", "try_wait"] {
        let report = run(&body(test), grid(1, 64), 1, Schedule::Fixed).unwrap_err();
        assert!(report.starts_with("deadlock") && report.contains(test), "{report}");
        assert!(report.contains("needs 1 of 2 arrivals and 512 bytes"), "{report}");
    }
}

#[test]
fn a_wait_that_fails_by_chance_is_no_deadlock() {
    // In each round the second warp computes for long and then waits for an arrival that came long before, while the first one waits for it.
    let body = |rounds: u32| {
        format!(
            "mov.u32 %r1, bars;\nmov.u32 %r5, 0;\nsetp.lt.u32 %p4, %t, 32;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 bra GO;\n\
            mbarrier.init.shared.b64 [%r1], 1;\nGO: bar.sync 0;\n\
            ROUND: @%p4 bra ARRIVE;\nmov.u32 %r2, 0;\nWORK: add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p2, %r2, 5000;\n@%p2 bra WORK;\n\
            and.b32 %r6, %r5, 1;\nPOLL: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], %r6;\n@!%p3 bra POLL;\nbra MEET;\n\
            ARRIVE: setp.ge.u32 %p6, %r5, {rounds};\nor.pred %p6, %p6, %p1;\n@!%p6 mbarrier.arrive.shared.b64 _, [%r1];\n\
            MEET: bar.sync 0;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p5, %r5, 20;\n@%p5 bra ROUND;"
        )
    };
    for seed in 0..20 {
        run(&body(20), grid(1, 64), 1, Schedule::Random(seed))
            .unwrap_or_else(|report| panic!("{seed}: {report}"));
        // The arrival of the last round is missing.
        let report = run(&body(19), grid(1, 64), 1, Schedule::Random(seed)).unwrap_err();
        assert!(report.starts_with("deadlock") && report.contains("has completed 19 phases"), "{report}");
    }
}

#[test]
fn computing_is_no_deadlock() {
    // A warp computes for long, with volatile loads of what nobody writes, while others poll.
    let body = "setp.eq.u32 %p1, %cta, 0;\nmov.u32 %r1, 0;\nmov.u32 %r2, 0;\n@%p1 bra WORK;\n\
        POLL: ld.acquire.gpu.global.u32 %r3, [%out];\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra POLL;\nbra DONE;\n\
        WORK: ld.volatile.global.u32 %r4, [%out+4];\nadd.u32 %r2, %r2, %r4;\nadd.u32 %r2, %r2, 3;\nadd.u32 %r1, %r1, 1;\n\
        setp.lt.u32 %p3, %r1, 20000;\n@%p3 bra WORK;\n\
        MORE: add.u32 %r2, %r2, 1;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p3, %r1, 3000000;\n@%p3 bra MORE;\n\
        st.release.gpu.global.u32 [%out], %r2;\nDONE:";
    assert_eq!(run(body, grid(2, 32), 2, Schedule::Fixed).unwrap()[0], 3 * 20_000 + 2_980_000);
}

#[test]
fn an_endless_loop_is_reported() {
    let report = run("LOOP: bra LOOP;", grid(1, 32), 1, Schedule::Fixed).unwrap_err();
    assert!(report.contains("it goes round in a loop"), "{report}");
}

#[test]
fn one_of_the_lanes_that_store_to_one_place_wins() {
    // Each of four CTAs has a word, and all lanes but the first store their number there.
    let body = "mad.wide.u32 %d1, %cta, 4, %out;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 st.global.u32 [%d1], %t;";
    let words = |schedule| run(body, grid(4, 32), 4, schedule).unwrap();
    assert_eq!(words(Schedule::Fixed), [31; 4]);
    let mut winners: Vec<u32> = (0..64).flat_map(|seed| words(Schedule::Random(seed))).collect();
    assert_eq!(winners[..4], words(Schedule::Random(0)), "the same for the same seed");
    winners.sort_unstable();
    winners.dedup();
    assert!(winners.len() > 20 && !winners.contains(&0), "{winners:?}");
    // It is counted, unless they all store the same.
    for (value, contested) in [("%t", 4), ("%cta", 0)] {
        let emulator = Emulator::new(Arch::Sm90a);
        let out = emulator.allocate(16).unwrap();
        let kernel = module(&body.replace("[%d1], %t", &format!("[%d1], {value}"))).kernel("k").unwrap();
        let counters = emulator.launch(&kernel, &grid(4, 32), &out.to_le_bytes()).unwrap();
        assert_eq!(counters.contested_stores, contested, "{value}");
    }
}
