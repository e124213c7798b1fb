//! CTAs of a cluster that pass data to each other.

use super::kernel::{cluster, guilty, innocent, needs};

/// `%r1` is the CTA's rank, `%p1` holds in rank 0 and `%p2` in each CTA's first thread; `%r2` is `buffer` and `%r3` is `bar` of rank 0, and
/// `%r4` and `%r5` those of rank 1. `bar` of each waits for one arrival. All have begun.
const BEGIN: &str = "mov.u32 %r1, %cluster_ctarank;\nsetp.eq.u32 %p1, %r1, 0;\nsetp.eq.u32 %p2, %t, 0;\nmov.u32 %r6, bar;\n\
    mapa.shared::cluster.u32 %r2, %s, 0;\nmapa.shared::cluster.u32 %r3, %r6, 0;\n\
    mapa.shared::cluster.u32 %r4, %s, 1;\nmapa.shared::cluster.u32 %r5, %r6, 1;\n\
    @%p2 mbarrier.init.shared.b64 [bar], 1;\nfence.mbarrier_init.release.cluster;\n\
    barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n";
const MEET: &str = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";

#[test]
fn data_by_a_remote_arrival() {
    // Every lane of rank 1 stores, a barrier of its warp follows, and one of them arrives at rank 0.
    let body = |before: &str, semantics: &str| {
        format!(
            "{BEGIN}@%p1 bra LOOK;\nst.shared::cluster.u32 [%r2], %t;\n{before}\n\
             @%p2 mbarrier.arrive.{semantics}.cluster.shared::cluster.b64 _, [%r3];\nbra END;\n\
             LOOK: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [bar], 0;\n@!%p3 bra LOOK;\n\
             ld.shared.u32 %r7, [%s];\nEND: {MEET}"
        )
    };
    needs(
        &body("⟦bar.warp.sync -1;⟧", "release"),
        cluster(2, 32),
        &["race", "thread 1 of CTA 1", "bar.warp.sync"],
    );
    guilty(
        &body("bar.warp.sync -1;", "relaxed"),
        cluster(2, 32),
        &["race", "thread 0 of CTA 1 of the cluster wrote them"],
    );
}

#[test]
fn mbarriers_of_others_have_begun() {
    let body = "mov.u32 %r1, %cluster_ctarank;\nsetp.eq.u32 %p2, %t, 0;\nmov.u32 %r6, bar;\nxor.b32 %r7, %r1, 1;\n\
        mapa.shared::cluster.u32 %r3, %r6, %r7;\n@%p2 mbarrier.init.shared.b64 [bar], 1;\n⟦fence.mbarrier_init.release.cluster;⟧\n\
        barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n\
        @%p2 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];\n\
        WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [bar], 0;\n@!%p3 bra WAIT;";
    needs(body, cluster(2, 32), &["race", "the mbarrier at shared address", "mbarrier.init"]);
    let first = body
        .replace(['⟦', '⟧'], "")
        .replace("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n", "bar.sync 0;\n");
    guilty(&first, cluster(2, 32), &["nothing says that the CTA"]);
}

#[test]
fn multicast_into_a_stage_that_another_cta_reads() {
    // Rank 0 copies to both; each says that it has read, and rank 0 copies again.
    let copy = |i: u32| {
        format!(
            "@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;\n@!%p1 bra WAIT{i};\n@!%p2 bra WAIT{i};\nmov.u16 %h1, 3;\n\
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [buffer], [%out], 64, [bar], %h1;\n\
             WAIT{i}: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], {i};\n@!%p3 bra WAIT{i};\nld.shared.u32 %r7, [buffer];\n"
        )
    };
    // Both expect bytes before they come.
    let body = format!("{BEGIN}{}⟦{MEET}⟧{}{MEET}", copy(0), copy(1));
    needs(&body, cluster(2, 32), &["race"]);
}

#[test]
fn sums_in_a_cta_of_the_cluster() {
    let body = |add: &str, meet: &str| {
        format!(
            "st.shared.u32 [%s], 0;\n{BEGIN}{MEET}{add}.shared::cluster.add.u32 [%r2], 1;\n{meet}\n@%p1 ld.shared.u32 %r7, [%s];\n{MEET}"
        )
    };
    innocent(&body("red.relaxed.cluster", MEET), cluster(2, 32));
    guilty(&body("red.relaxed.cta", MEET), cluster(2, 32), &["race"]);
    guilty(&body("red.relaxed.cluster", "bar.sync 0;"), cluster(2, 32), &["race"]);
}

#[test]
fn a_flag_in_another_cta() {
    let body = |scope: &str| {
        format!(
            "st.shared.u32 [%s+512], 0;\n{BEGIN}{MEET}@%p1 bra LOOK;\n@!%p2 bra END;\nst.shared::cluster.u32 [%r2], 7;\n\
             st.release.{scope}.shared::cluster.u32 [%r2+512], 1;\nbra END;\n\
             LOOK: @!%p2 bra END;\nAGAIN: ld.acquire.{scope}.shared.u32 %r7, [%s+512];\nsetp.eq.u32 %p3, %r7, 0;\n@%p3 bra AGAIN;\n\
             ld.shared.u32 %r7, [%s];\nEND: {MEET}"
        )
    };
    innocent(&body("cluster"), cluster(2, 32));
    innocent(&body("gpu"), cluster(2, 32));
    guilty(&body("cta"), cluster(2, 32), &["race"]);
}

#[test]
fn a_copy_to_another_cta_that_still_reads() {
    // Rank 0 copies its buffer behind that of rank 1, and fills it again.
    let body = format!(
        "{BEGIN}add.u32 %r6, %r4, 2048;\n@!%p1 bra RECEIVE;\nst.shared.v4.u32 [%s], {{%t, %t, %t, %t}};\nfence.proxy.async;\nbar.warp.sync -1;\n\
         @%p2 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [buffer], 512, [%r5];\nbra SENT;\n\
         RECEIVE: @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;\n\
         WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;\n@!%p3 bra WAIT;\nld.shared.u32 %r7, [%s+2048];\n\
         SENT: ⟦{MEET}⟧@%p1 st.shared.u32 [%s], 1;\n{MEET}"
    );
    needs(&body, cluster(2, 32), &["race", "still reads them, and its mbarrier phase was not waited for"]);
    // Nobody has expected the bytes.
    let unexpected = body
        .replace(['⟦', '⟧'], "")
        .replace("@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;\n", "");
    guilty(&unexpected, cluster(2, 32), &["deadlock", "-512 bytes"]);
}

#[test]
fn sums_that_come_by_themselves() {
    let body = format!(
        "st.shared.u32 [%s], 0;\n{BEGIN}{MEET}@%p1 bra RECEIVE;\n\
         red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r2], 5, [%r3];\nbra END;\n\
         RECEIVE: @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;\n\
         ⟦WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;\n@!%p3 bra WAIT;⟧\nld.shared.u32 %r7, [%s];\nEND: {MEET}"
    );
    needs(&body, cluster(2, 32), &["race"]);
}

#[test]
fn what_is_for_a_cta_alone() {
    let meeting = |fence: &str, arrival: &str| {
        format!(
            "{BEGIN}@!%p1 st.shared::cluster.u32 [%r2], %t;\n{fence}\nbarrier.cluster.arrive{arrival};\nbarrier.cluster.wait;\n\
             ld.shared.u32 %r7, [%s];\n@%p1 st.global.u32 [%mine], %r7;"
        )
    };
    let meeting = |fence, arrival| meeting(fence, arrival).replace("ld.shared", "@%p1 ld.shared");
    innocent(&meeting("", ""), cluster(2, 32));
    innocent(&meeting("fence.acq_rel.cluster;", ".relaxed"), cluster(2, 32));
    for fence in ["", "fence.acq_rel.cta;"] {
        guilty(&meeting(fence, ".relaxed"), cluster(2, 32), &["race", "of CTA 1 of the cluster wrote them"]);
    }
    // An arrival at another CTA's mbarrier. What does not say for whom it is, is for who waits there.
    let arrival = |scope: &str| {
        format!(
            "{BEGIN}@%p1 bra LOOK;\nst.shared::cluster.u32 [%r2], %t;\nbar.warp.sync -1;\n\
             @%p2 mbarrier.arrive{scope}.shared::cluster.b64 _, [%r3];\nbra END;\n\
             LOOK: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;\n@!%p3 bra LOOK;\nld.shared.u32 %r7, [%s];\nEND: {MEET}"
        )
    };
    innocent(&arrival(".release.cluster"), cluster(2, 32));
    innocent(&arrival(""), cluster(2, 32));
    guilty(&arrival(".release.cta"), cluster(2, 32), &["race", "of CTA 1 of the cluster wrote them"]);
}

#[test]
fn an_aligned_barrier_is_of_whole_warps() {
    let body = |arrive: &str, wait: &str| {
        format!(
            "setp.ge.u32 %p1, %t, 16;\n@%p1 bra OTHER;\nbarrier.cluster.arrive{arrive};\nbarrier.cluster.wait{wait};\nbra END;\n\
             OTHER: barrier.cluster.arrive;\nbarrier.cluster.wait;\nEND: bar.warp.sync -1;"
        )
    };
    innocent(&body("", ""), cluster(2, 32));
    for (arrive, wait) in [(".aligned", ""), ("", ".aligned")] {
        guilty(&body(arrive, wait), cluster(2, 32), &["deadlock", "for the other lanes of its warp"]);
    }
}

#[test]
fn generic_addresses_of_shared_memory_name_their_cta() {
    // Rank 1 reads by the address that rank 0 has of its own memory.
    let body = format!(
        "{BEGIN}cvt.u64.u32 %d1, %s;\ncvta.shared.u64 %d1, %d1;\nst.shared.u32 [%s], %r1;\nmul.wide.u32 %d2, %t, 8;\nadd.u64 %d2, %d2, %out;\n\
         @%p1 st.global.u64 [%d2], %d1;\n⟦{MEET}⟧@!%p1 ld.global.u64 %d1, [%d2];\nld.u32 %r7, [%d1];\n\
         setp.ne.u32 %p4, %r7, 0;\n@%p4 trap;\n{MEET}"
    );
    needs(&body, cluster(2, 32), &["race", "of global memory"]);
}
