//! Stages that are filled and read in turn: phases, parities, bytes, and groups of copies.

use super::kernel::{accused_in_some_order, guilty, innocent, needs, threads};

/// `bar` waits for one arrival, `bar2` for 32; `%p1` holds in thread 0, `%p2` in the first warp. 64 threads: one warp copies, the other reads.
const BEGIN: &str = ".shared .align 8 .b64 bar2;\nsetp.eq.u32 %p1, %t, 0;\nsetp.lt.u32 %p2, %t, 32;\nmov.u32 %r1, 0;\n\
    @%p1 mbarrier.init.shared.b64 [bar], 1;\n@%p1 mbarrier.init.shared.b64 [bar2], 32;\nfence.proxy.async;\nbar.sync 0;\n";

/// Four turns of one stage.
fn turns(empty: &str, expect: &str, full: &str, release: &str) -> String {
    format!(
        "{BEGIN}@!%p2 bra READ;\n@!%p1 exit;\nFILL: {empty}\n{expect}\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buffer], [%out], 128, [bar];\n\
         add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p3, %r1, 4;\n@%p3 bra FILL;\nexit;\n\
         READ: {full}\nshl.b32 %r4, %t, 2;\nmov.u32 %r5, buffer;\nadd.u32 %r4, %r4, %r5;\nld.shared.u32 %r6, [%r4+-128];\n{release}\n\
         add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p3, %r1, 4;\n@%p3 bra READ;\nexit;"
    )
}

fn wait(label: &str, bar: &str, plus: u32) -> String {
    format!(
        "add.u32 %r2, %r1, {plus};\nand.b32 %r2, %r2, 1;\n{label}: mbarrier.try_wait.parity.shared::cta.b64 %p4, [{bar}], %r2;\n@!%p4 bra {label};"
    )
}

const EXPECT: &str = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;";
const RELEASE: &str = "mbarrier.arrive.shared::cta.b64 _, [bar2];";

#[test]
fn phases_and_parities() {
    let (empty, full) = (wait("EMPTY", "bar2", 1), wait("FULL", "bar", 0));
    innocent(&turns(&empty, EXPECT, &full, RELEASE), threads(64));
    // The other parity: the reader waits for the phase after this one, or the writer for what never comes.
    guilty(&turns(&empty, EXPECT, &wait("FULL", "bar", 1), RELEASE), threads(64), &["deadlock"]);
    guilty(&turns(&wait("EMPTY", "bar2", 0), EXPECT, &full, RELEASE), threads(64), &["deadlock"]);
    // The same one in every turn.
    let zero = full.replace("and.b32 %r2, %r2, 1;", "mov.u32 %r2, 0;");
    guilty(&turns(&empty, EXPECT, &zero, RELEASE), threads(64), &["deadlock"]);
    // Nobody waits until the stage is empty, or nobody says so.
    guilty(&turns("", EXPECT, &full, RELEASE), threads(64), &["race"]);
    guilty(&turns(&empty, EXPECT, &full, ""), threads(64), &["deadlock"]);
    // It is said before it is so.
    let early = turns(&empty, EXPECT, &format!("{full}\n{RELEASE}"), "");
    guilty(&early, threads(64), &["race"]);
}

#[test]
fn bytes_that_are_expected() {
    let (empty, full) = (wait("EMPTY", "bar2", 1), wait("FULL", "bar", 0));
    for bytes in ["64", "192"] {
        let body = turns(&empty, &EXPECT.replace("128", bytes), &full, RELEASE);
        guilty(&body, threads(64), &["deadlock", "bytes"]);
    }
    let split = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 128;\nmbarrier.arrive.shared::cta.b64 _, [bar];";
    innocent(&turns(&empty, split, &full, RELEASE), threads(64));
    let late = "mbarrier.arrive.shared::cta.b64 _, [bar];\nmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 128;";
    guilty(&turns(&empty, late, &full, RELEASE), threads(64), &["race"]);
}

#[test]
fn a_wait_that_is_asked_once() {
    // That what it waits for may come later than it does here shows in a random order.
    for wait_ in ["mbarrier.try_wait", "mbarrier.test_wait"] {
        let full = wait("FULL", "bar", 0).replace("mbarrier.try_wait", wait_);
        let body = |full: &str| turns(&wait("EMPTY", "bar2", 1), EXPECT, full, RELEASE);
        assert_eq!(accused_in_some_order(&body(&full), threads(64)), None);
        let once = body(&full.replace("\n@!%p4 bra FULL;", ""));
        let fault = accused_in_some_order(&once, threads(64)).expect("one order shows it");
        assert!(fault.what.contains("whose mbarrier phase was not waited for"), "{fault}");
    }
}

#[test]
fn a_completion_that_must_be_seen() {
    // The thread made it itself, or a barrier stands behind it.
    let asked = "mbarrier.test_wait.parity.shared::cta.b64 %p2, [bar], 0;\n@!%p2 trap;";
    let begin = |count: u32| {
        format!("setp.eq.u32 %p1, %t, 0;\n@%p1 mbarrier.init.shared.b64 [bar], {count};\nbar.sync 0;\n")
    };
    let own = format!("{}@!%p1 exit;\nmbarrier.arrive.shared.b64 _, [bar];\n{asked}", begin(1));
    let all =
        format!("{}mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar];\nbar.sync 0;\n{asked}", begin(64));
    for body in [own, all] {
        assert_eq!(accused_in_some_order(&body, threads(64)), None);
    }
}

#[test]
fn groups_of_cp_async() {
    // Two stages of 16 bytes a thread; each thread reads its neighbour's.
    let body = |wait: &str, first: &str, second: &str| {
        format!(
            "mov.u32 %r1, 0;\nxor.b32 %r2, %t, 33;\nmov.u32 %r3, buffer;\nmad.lo.u32 %r3, %r2, 16, %r3;\n\
             cp.async.cg.shared.global [%s], [%out], 16;\ncp.async.commit_group;\n\
             MORE: and.b32 %r4, %r1, 1;\nshl.b32 %r4, %r4, 10;\nxor.b32 %r5, %r4, 1024;\nadd.u32 %r5, %r5, %s;\nadd.u32 %r4, %r4, %r3;\n\
             setp.lt.u32 %p1, %r1, 3;\n@%p1 cp.async.cg.shared.global [%r5], [%out], 16;\n{wait}\n{first}\nld.shared.u32 %r6, [%r4];\n{second}\n\
             add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 4;\n@%p1 bra MORE;"
        )
    };
    let (one, sync) = ("cp.async.commit_group;\ncp.async.wait_group 1;", "bar.sync 0;");
    innocent(&body(one, sync, sync), threads(64));
    // The last turn has no group of its own unless an empty one is committed.
    let some = "@%p1 cp.async.commit_group;\ncp.async.wait_group 1;";
    guilty(&body(some, sync, sync), threads(64), &["race", "the cp.async at PTX line", "was not waited for"]);
    // The barrier before the wait, none before the stage is filled again.
    guilty(
        &body("bar.sync 0;\ncp.async.commit_group;", "cp.async.wait_group 1;", sync),
        threads(64),
        &["race"],
    );
    guilty(&body(one, sync, ""), threads(64), &["race"]);
    guilty(&body("cp.async.commit_group;\ncp.async.wait_group 2;", sync, sync), threads(64), &["race"]);
}

#[test]
fn copies_that_products_read() {
    let zeros: String = (0..4).map(|i| format!("mov.b32 %f{i}, 0;\n")).collect();
    let body = format!(
        "{zeros}cp.async.cg.shared.global [%s], [%out], 16;\ncp.async.cg.shared.global [%s+2048], [%out], 16;\ncp.async.wait_all;\n\
         ⟦fence.proxy.async;⟧\nbar.sync 0;\nmov.u32 %r1, buffer;\nshr.u32 %r1, %r1, 4;\ncvt.u64.u32 %d1, %r1;\n\
         or.b64 %d1, %d1, 0x1000080000;\nsetp.eq.u32 %p1, %t, %t;\nwgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %d1, %d1, %p1, 1, 1, 0, 0;\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
    );
    needs(&body, threads(128), &["no fence.proxy.async"]);
}
