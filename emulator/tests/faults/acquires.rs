//! Lanes that use what another lane of their warp has waited for.

use super::kernel::{accused_in_some_order, cluster, ctas, guilty, innocent, needs, threads};

const ALONE: &str = "for which another lane of this warp has waited";

/// How the first warp says that it is done, and how lane 0 of the second one, where `%p3` holds, waits for that.
const FLAG: [&str; 2] = [
    "st.release.cta.shared.u32 [buffer+2048], 1;",
    "WAIT: @%p3 ld.acquire.cta.shared.u32 %r1, [buffer+2048];\nsetp.eq.and.u32 %p4, %r1, 0, %p3;\n@%p4 bra WAIT;",
];
const FENCED: [&str; 2] = [
    "fence.acq_rel.cta;\nst.relaxed.cta.shared.u32 [buffer+2048], 1;",
    "WAIT: @%p3 ld.relaxed.cta.shared.u32 %r1, [buffer+2048];\nsetp.eq.and.u32 %p4, %r1, 0, %p3;\n@%p4 bra WAIT;\n\
     @%p3 fence.acq_rel.cta;",
];
const FENCED_BY_ALL: [&str; 2] = [
    "fence.acq_rel.cta;\nst.relaxed.cta.shared.u32 [buffer+2048], 1;",
    "WAIT: @%p3 ld.relaxed.cta.shared.u32 %r1, [buffer+2048];\nsetp.eq.and.u32 %p4, %r1, 0, %p3;\n@%p4 bra WAIT;\n\
     fence.acq_rel.cta;",
];
const LOCK: [&str; 2] = [
    "atom.exch.release.cta.shared.b32 %r1, [buffer+2048], 1;",
    "WAIT: @%p3 atom.cas.acquire.cta.shared.b32 %r1, [buffer+2048], 1, 2;\nsetp.eq.and.u32 %p4, %r1, 0, %p3;\n@%p4 bra WAIT;",
];
const PHASE: [&str; 2] = [
    "mbarrier.arrive.shared.b64 _, [bar];",
    "WAIT: @%p3 mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0;\nnot.pred %p4, %p4;\nand.pred %p4, %p4, %p3;\n@%p4 bra WAIT;",
];

/// The first warp does what is `theirs` and tells the second one, which then does what is its `own`.
fn body([tell, wait]: [&str; 2], theirs: &str, own: &str) -> String {
    format!(
        "st.shared.u32 [%s+4], 7;\nsetp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [buffer+2048], 0;\n\
         @%p1 mbarrier.init.shared.b64 [bar], 32;\nmov.u32 %r1, 0;\nbar.sync 0;\n\
         setp.ge.u32 %p2, %t, 32;\n@%p2 bra SECOND;\n{theirs}\nbar.warp.sync -1;\n{tell}\nexit;\n\
         SECOND: setp.eq.u32 %p3, %t, 32;\nmov.pred %p4, 0;\n{wait}\n{own}"
    )
}

const WRITE: &str = "st.shared.u32 [%s], %t;";
const READ: &str = "ld.shared.u32 %r2, [%s+-512];\nst.global.u32 [%mine], %r2;";

#[test]
fn lanes_that_read_what_another_one_waited_for() {
    let words =
        ["race", "thread 1 wrote them", ALONE, "no bar.warp.sync orders this read of thread 33 after that"];
    for way in [FLAG, FENCED, FENCED_BY_ALL, LOCK, PHASE] {
        needs(&body(way, WRITE, &format!("⟦bar.warp.sync -1;⟧\n{READ}")), threads(64), &words);
        // The lane itself knows it.
        innocent(&body(way, WRITE, &format!("@!%p3 exit;\n{READ}")), threads(64));
        // A barrier of the CTA is one of the warp; one of lanes that the lane is not among is none of theirs.
        innocent(&body(way, WRITE, &format!("bar.sync 1, 32;\n{READ}")), threads(64));
        let some = |members: &str| {
            format!(
                "setp.lt.u32 %p5, %t, 40;\n@%p5 bra LOW;\nexit;\nLOW: {members}\nsetp.lt.u32 %p6, %t, 36;\n@!%p6 exit;\n{READ}"
            )
        };
        innocent(&body(way, WRITE, &some("bar.warp.sync 0xff;")), threads(64));
        let parts = "setp.gt.u32 %p6, %t, 32;\n@%p6 bra REST;\nbar.warp.sync 1;\nbra ON;\nREST: bar.warp.sync 0xfe;\nON:";
        guilty(&body(way, WRITE, &some(parts)), threads(64), &words);
    }
    // All of them wait.
    for [tell, wait] in [FLAG, FENCED_BY_ALL, PHASE] {
        innocent(
            &body([tell, &wait.replace("@%p3 ", "").replace(", %p3;", ", %p2;")], WRITE, READ),
            threads(64),
        );
    }
    // A shuffle brings what the lane found, and orders nothing.
    let told = format!("shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;\n⟦bar.warp.sync -1;⟧\n{READ}");
    needs(&body(FLAG, WRITE, &told), threads(64), &words);
}

#[test]
fn lanes_that_write_what_another_one_waited_to_be_read() {
    let theirs = "xor.b32 %r5, %t, 32;\nmov.u32 %r6, buffer;\nmad.lo.u32 %r6, %r5, 16, %r6;\nld.shared.u32 %r2, [%r6+4];";
    let own = "⟦bar.warp.sync -1;⟧\nst.shared.u32 [%s+4], 9;";
    let words = ["race", "thread 1 read them", ALONE, "no bar.warp.sync orders this write of thread 33"];
    for way in [FLAG, PHASE] {
        needs(&body(way, theirs, own), threads(64), &words);
        innocent(&body(way, theirs, "@%p3 st.shared.u32 [%s+4], 9;"), threads(64));
    }
    // All lanes look at the same word, which the first one knows of.
    let one = "⟦bar.warp.sync -1;⟧\nld.shared.u32 %r2, [buffer];\nst.global.u32 [%mine], %r2;";
    needs(&body(PHASE, WRITE, one), threads(64), &["thread 0 wrote them", ALONE, "read of thread 33"]);
}

#[test]
fn lanes_that_wait_one_after_the_other() {
    // Each lane takes the lock by itself, and reads what the one before it wrote: another lane's release is its to acquire.
    let turns = "mov.u32 %r1, 0;\nTAKE: atom.cas.acquire.cta.shared.b32 %r3, [buffer+2048], %t, 99;\nsetp.ne.u32 %p5, %r3, %t;\n\
        @%p5 bra TAKE;\nld.shared.u32 %r4, [buffer+2052];\nadd.u32 %r4, %r4, 1;\nst.shared.u32 [buffer+2052], %r4;\n\
        add.u32 %r5, %t, 1;\nst.release.cta.shared.u32 [buffer+2048], %r5;\n";
    let zero = "setp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.v2.u32 [buffer+2048], {0, 0};\nbar.sync 0;\n";
    innocent(&format!("{zero}{turns}"), threads(64));
    innocent(&format!("{zero}{turns}"), threads(3));
}

#[test]
fn lanes_that_use_what_a_copy_brought_to_another_one() {
    // The first lane orders a copy and waits for it.
    let copy = "setp.eq.u32 %p1, %t, 0;\n@!%p1 bra READ;\nmbarrier.init.shared.b64 [bar], 1;\nfence.proxy.async;\n\
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;\nmov.u32 %r4, 512;\n\
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buffer], [%out], %r4, [bar];\n\
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0;\n@!%p4 bra WAIT;\n\
        READ: ⟦bar.warp.sync -1;⟧\nld.shared.u32 %r2, [%s];\nst.global.u32 [%out+2048], 7;";
    let words = ["race", "cp.async.bulk.shared", "wrote them", ALONE, "read of thread 1"];
    needs(copy, threads(32), &words);
    assert!(accused_in_some_order(&copy.replace("⟦bar.warp.sync -1;⟧", ""), threads(32)).is_some());
    assert!(accused_in_some_order(&copy.replace(['⟦', '⟧'], ""), threads(32)).is_none());
    // A store of a tile that is read until its group is waited for, and then written by all.
    let store = "st.shared.v4.u32 [%s], {%t, %t, %t, %t};\nfence.proxy.async;\nbar.sync 0;\nsetp.eq.u32 %p1, %t, 0;\n@!%p1 bra WRITE;\nmov.u32 %r4, 512;\n\
        cp.async.bulk.global.shared::cta.bulk_group [%out], [buffer], %r4;\ncp.async.bulk.commit_group;\n\
        cp.async.bulk.wait_group.read 0;\nWRITE: ⟦bar.warp.sync -1;⟧\nst.shared.u32 [%s], 1;\n@%p1 cp.async.bulk.wait_group 0;";
    let words = ["race", "cp.async.bulk.global", "read them", ALONE, "write of thread 1"];
    needs(store, threads(32), &words);
    // The next copy is another lane's.
    let next = "setp.eq.u32 %p1, %t, 0;\n@%p1 mbarrier.init.shared.b64 [bar], 1;\nst.shared.v4.u32 [%s], {%t, %t, %t, %t};\nfence.proxy.async;\nbar.sync 0;\n\
        mov.u32 %r4, 512;\n@!%p1 bra NEXT;\ncp.async.bulk.global.shared::cta.bulk_group [%out], [buffer], %r4;\n\
        cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\nNEXT: ⟦bar.warp.sync -1;⟧\nsetp.eq.u32 %p2, %t, 5;\n@!%p2 bra END;\n\
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;\n\
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buffer], [%out+1024], %r4, [bar];\n\
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0;\n@!%p4 bra WAIT;\nEND: @%p1 cp.async.bulk.wait_group 0;";
    needs(next, threads(32), &["race", ALONE]);
    innocent(&next.replace("⟦bar.warp.sync -1;⟧", "").replace("%t, 5;", "%t, 0;"), threads(32));
}

#[test]
fn lanes_that_read_rows_of_matrices() {
    let own = "⟦bar.warp.sync -1;⟧\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r3, %r4, %r5, %r6}, [%s+-512];\nst.global.u32 [%mine], %r3;";
    let theirs = "st.shared.v4.u32 [%s], {%t, %t, %t, %t};";
    let words = ["race", "thread 1 wrote them", ALONE, "read of thread 33"];
    for way in [FLAG, PHASE] {
        needs(&body(way, theirs, own), threads(64), &words);
    }
}

#[test]
fn lanes_of_other_ctas() {
    // A flag in global memory, and one in the shared memory of a cluster.
    let across = "mov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p1, %r1, 1;\nsetp.eq.u32 %p2, %t, 0;\n@%p1 bra LOOK;\nst.global.u32 [%mine+512], %t;\n\
        bar.warp.sync -1;\n@!%p2 exit;\nred.release.gpu.global.add.u32 [%out], 1;\nexit;\n\
        LOOK: @!%p2 bra READ;\nAGAIN: ld.acquire.gpu.global.u32 %r3, [%out];\nsetp.eq.u32 %p3, %r3, 0;\n@%p3 bra AGAIN;\n\
        READ: ⟦bar.warp.sync -1;⟧\nld.global.u32 %r2, [%mine+384];";
    needs(
        across,
        ctas(2, 32),
        &["race", "thread 1 of CTA 0 of cluster 0 wrote them", ALONE, "read of thread 1"],
    );
    let beside = "mov.u32 %r1, %cluster_ctarank;\nsetp.eq.u32 %p1, %r1, 1;\nsetp.eq.u32 %p2, %t, 0;\nand.pred %p3, %p1, %p2;\n\
        @%p3 mbarrier.init.shared.b64 [bar], 32;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n\
        mov.u32 %r2, 1;\nmapa.shared::cluster.u32 %r3, %s, %r2;\nmov.u32 %r5, bar;\nmapa.shared::cluster.u32 %r4, %r5, %r2;\n@%p1 bra FIRST;\n\
        st.shared::cluster.u32 [%r3], %t;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];\nbra END;\n\
        FIRST: @!%p2 bra READ;\nWAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [bar], 0;\n@!%p4 bra WAIT;\n\
        READ: ⟦bar.warp.sync -1;⟧\nld.shared.u32 %r6, [%s];\nEND: barrier.cluster.arrive;\nbarrier.cluster.wait;";
    needs(
        beside,
        cluster(2, 32),
        &["race", "thread 1 of CTA 0 of the cluster wrote them", ALONE, "read of thread 1"],
    );
}
