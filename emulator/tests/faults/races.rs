//! Accesses of shared memory that nothing orders.

use super::kernel::{cluster, ctas, guilty, innocent, needs, threads};

/// Thread `t` reads what thread `t ^ 32` wrote.
const OTHER_WARP: &str = "xor.b32 %r1, %t, 32;\nmov.u32 %r2, buffer;\nmad.lo.u32 %r2, %r1, 16, %r2;\n";
const OTHER_LANE: &str = "xor.b32 %r1, %t, 1;\nmov.u32 %r2, buffer;\nmad.lo.u32 %r2, %r1, 16, %r2;\n";

#[test]
fn a_read_without_a_barrier() {
    // The first warp would find nothing at all; the second reads what is already there.
    let body = format!(
        "{OTHER_WARP}setp.ge.u32 %p1, %t, 32;\n@!%p1 st.shared.u32 [%s], %t;\n⟦bar.sync 0;⟧\n@%p1 ld.shared.u32 %r3, [%r2];"
    );
    let words = [
        "race",
        "4 bytes of shared memory",
        "thread 0 wrote them",
        "st.shared.u32 [%s], %t;",
        "thread 32",
        "ld.shared",
    ];
    needs(&body, threads(64), &words);
}

#[test]
fn a_write_without_a_barrier() {
    let read = format!("{OTHER_WARP}st.shared.u32 [%s], %t;\nbar.sync 0;\nld.shared.u32 %r3, [%r2];\n");
    needs(
        &format!("{read}⟦bar.sync 0;⟧\nst.shared.u32 [%s], 0;"),
        threads(64),
        &["race", "thread 0 wrote them", "this read"],
    );
    let both = "mov.u32 %r1, buffer;\nsetp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [%r1], %t;\n⟦bar.sync 0;⟧\n\
        setp.eq.u32 %p1, %t, 32;\n@%p1 st.shared.u32 [%r1], %t;";
    needs(both, threads(64), &["race", "thread 0 wrote them", "this write"]);
}

#[test]
fn a_barrier_of_other_warps_does_not_order() {
    let with = |id: u32| {
        format!(
            "{OTHER_WARP}setp.ge.u32 %p1, %t, 64;\n@%p1 bra OTHERS;\nst.shared.u32 [%s], %t;\nbar.sync 1, 64;\n\
             ld.shared.u32 %r3, [%r2];\nbar.arrive 2, 128;\nexit;\n\
             OTHERS: bar.sync {id};\nld.shared.u32 %r3, [buffer];"
        )
    };
    innocent(&with(2).replace("bar.sync 2;", "bar.sync 2, 128;"), threads(128));
    guilty(
        &with(3).replace("bar.sync 3;", "bar.sync 3, 64;"),
        threads(128),
        &["race", "thread 0 wrote them"],
    );
}

#[test]
fn lanes_of_a_warp() {
    let body = format!("{OTHER_LANE}st.shared.u32 [%s], %t;\n⟦bar.warp.sync -1;⟧\nld.shared.u32 %r3, [%r2];");
    needs(&body, threads(32), &["race", "thread 1 wrote them", "bar.warp.sync"]);
    // Neighbours in one piece of 16 bytes.
    let body = "mov.u32 %r2, buffer;\nmad.lo.u32 %r3, %t, 4, %r2;\nst.shared.u32 [%r3], %t;\n⟦bar.warp.sync -1;⟧\n\
        xor.b32 %r1, %t, 1;\nmad.lo.u32 %r3, %r1, 4, %r2;\nld.shared.u32 %r4, [%r3];";
    needs(body, threads(32), &["race", "bar.warp.sync"]);
    innocent(
        "st.shared.v2.u32 [%s], {%t, %t};\nld.shared.u32 %r1, [%s+4];\nst.shared.u32 [%s+4], %r1;",
        threads(32),
    );
}

#[test]
fn lanes_that_write_one_address() {
    innocent("st.shared.u32 [buffer], 7;", threads(96));
    // One of the lanes of an instruction wins, but which warp comes last nobody says.
    let own = "st.shared.u32 [buffer], %t;\n";
    innocent(own, threads(32));
    let words = ["race", "warp 0 wrote them", "write of thread 32", "thread 32, PTX line"];
    guilty(own, threads(64), &words);
    innocent("st.global.u32 [%out], %t;", threads(32));
    guilty("st.global.u32 [%out], %t;", ctas(2, 32), &["race", "of cluster 0 wrote them"]);
    // None of them knows that it was the one.
    let words = ["race", "warp 0 wrote them", "no bar.warp.sync orders this", "of thread 0"];
    needs(&format!("{own}⟦bar.warp.sync -1;⟧\nld.shared.u32 %r1, [buffer];"), threads(32), &words);
    needs(&format!("{own}⟦bar.warp.sync -1;⟧\nst.shared.u32 [buffer], 5;"), threads(32), &words);
    // Of two instructions, a loop's too, it is not said at all.
    let branch = "setp.lt.u32 %p1, %t, 16;\n@%p1 st.shared.u32 [buffer], 1;\n⟦bar.warp.sync -1;⟧\n@!%p1 st.shared.u32 [buffer], 2;";
    needs(branch, threads(32), &["race", "thread 0 wrote them", "write of thread 16"]);
    let turns = "mov.u32 %r1, 0;\nLOOP: setp.eq.u32 %p1, %t, %r1;\n@%p1 st.shared.u32 [buffer], %t;\n⟦bar.warp.sync -1;⟧\n\
        add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p2, %r1, 4;\n@%p2 bra LOOP;";
    needs(turns, threads(32), &["race", "thread 0 wrote them", "write of thread 1"]);
}

#[test]
fn atomics_do_not_race_with_each_other() {
    let begin = "setp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [buffer], 0;\n";
    needs(&format!("{begin}⟦bar.sync 0;⟧\nred.shared.add.u32 [buffer], 1;"), threads(64), &["race"]);
    let sum = format!("{begin}bar.sync 0;\natom.shared.add.u32 %r1, [buffer], 1;\n");
    needs(&format!("{sum}⟦bar.sync 0;⟧\nld.shared.u32 %r1, [buffer];"), threads(64), &["race"]);
}

#[test]
fn a_flag_passes_on_what_was_written_before() {
    let body = |store: &str, load: &str| {
        format!(
            "setp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [buffer], 0;\nbar.sync 0;\nsetp.lt.u32 %p2, %t, 32;\n@%p2 bra WAIT;\n\
             setp.ne.u32 %p3, %t, 32;\n@%p3 exit;\nst.shared.u32 [buffer+64], 5;\n{store}.shared.u32 [buffer], 1;\nexit;\n\
             WAIT: {load}.shared.u32 %r1, [buffer];\nsetp.eq.u32 %p3, %r1, 0;\n@%p3 bra WAIT;\nld.shared.u32 %r2, [buffer+64];"
        )
    };
    innocent(&body("st.release.cta", "ld.acquire.cta"), threads(64));
    innocent(&body("fence.acq_rel.cta;\nst.relaxed.cta", "ld.acquire.cta"), threads(64));
    guilty(&body("st.relaxed.cta", "ld.acquire.cta"), threads(64), &["race", "thread 32 wrote them"]);
    guilty(&body("st.release.cta", "ld.relaxed.cta"), threads(64), &["race", "thread 32 wrote them"]);
    guilty(&body("st", "ld.acquire.cta"), threads(64), &["race"]);
}

#[test]
fn memory_of_other_ctas() {
    let body = "mov.u32 %r1, %cluster_ctarank;\nst.shared.u32 [%s], %r1;\n⟦barrier.cluster.arrive;\nbarrier.cluster.wait;⟧\n\
        xor.b32 %r2, %r1, 1;\nmapa.shared::cluster.u32 %r3, %s, %r2;\nsetp.eq.u32 %p1, %r1, 1;\n\
        @%p1 ld.shared::cluster.u32 %r4, [%r3];\nbarrier.cluster.arrive;\nbarrier.cluster.wait;";
    needs(body, cluster(2, 32), &["race", "thread 0 of CTA 0 of the cluster wrote them", "CTA (1, 0, 0)"]);
    let relaxed = |arrive: &str| body.replace(['⟦', '⟧'], "").replacen("barrier.cluster.arrive;", arrive, 1);
    guilty(&relaxed("barrier.cluster.arrive.relaxed;"), cluster(2, 32), &["race"]);
    innocent(&relaxed("fence.acq_rel.cluster;\nbarrier.cluster.arrive.relaxed;"), cluster(2, 32));
}

#[test]
fn a_cta_that_has_not_begun_has_no_memory() {
    let store = "mov.u32 %r1, %cluster_ctarank;\nxor.b32 %r2, %r1, 1;\nmapa.shared::cluster.u32 %r3, %s, %r2;\n\
        ⟦barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;⟧\nst.shared::cluster.u32 [%r3], %r1;\n\
        barrier.cluster.arrive;\nbarrier.cluster.wait;";
    let words =
        ["4 bytes of shared memory at 0x400", "nothing says that the CTA", "has begun (barrier.cluster)"];
    needs(store, cluster(2, 32), &words);
    // One's own is there.
    innocent(
        &store.replace(['⟦', '⟧'], "").replace("xor.b32 %r2, %r1, 1;", "mov.u32 %r2, %r1;"),
        cluster(2, 32),
    );
}

#[test]
fn a_cta_that_ends_takes_its_memory_with_it() {
    let body = "mov.u32 %r1, %cluster_ctarank;\nst.shared.u32 [%s], %r1;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n\
        setp.eq.u32 %p1, %r1, 0;\nmov.u32 %r2, 0;\nmapa.shared::cluster.u32 %r3, %s, %r2;\n\
        @!%p1 ld.shared::cluster.u32 %r4, [%r3];\n⟦barrier.cluster.arrive;\nbarrier.cluster.wait;⟧";
    needs(body, cluster(2, 32), &["shared memory", "has ended"]);
    // The other way round: the owner comes last here, but on a GPU it may not.
    let body = body.replace("%p1, %r1, 0;\nmov.u32 %r2, 0;", "%p1, %r1, 1;\nmov.u32 %r2, 1;");
    needs(
        &body,
        cluster(2, 32),
        &["race", "shared memory of a CTA that ends", "of CTA 0 of the cluster read them"],
    );
}

#[test]
fn lanes_that_write_before_another_one_releases() {
    // All lanes of the second warp write, its first lane says so.
    let body = |tell: &str, wait: &str, at: u32| {
        format!(
            "setp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [buffer+2048], 0;\n@%p1 mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\n\
             setp.lt.u32 %p2, %t, 32;\n@%p2 bra WAIT;\nst.shared.u32 [%s], %t;\n⟦bar.warp.sync -1;⟧\nsetp.eq.u32 %p3, %t, 32;\n\
             {tell}\nexit;\nWAIT: {wait}\nld.shared.u32 %r2, [%s+{at}];\nst.global.u32 [%mine], %r2;"
        )
    };
    let flag = "ld.acquire.cta.shared.u32 %r1, [buffer+2048];\nsetp.eq.u32 %p4, %r1, 0;\n@%p4 bra WAIT;";
    let words = [
        "race",
        "thread 33 wrote them",
        "read of thread 1",
        "another lane of that warp released",
        "bar.warp.sync",
    ];
    for (tell, wait) in [
        ("@%p3 st.release.cta.shared.u32 [buffer+2048], 1;", flag),
        ("@%p3 fence.acq_rel.cta;\n@%p3 st.relaxed.cta.shared.u32 [buffer+2048], 1;", flag),
        ("fence.acq_rel.cta;\n@%p3 st.relaxed.cta.shared.u32 [buffer+2048], 1;", flag),
        (
            "@%p3 mbarrier.arrive.shared.b64 _, [bar];",
            "mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0;\n@!%p4 bra WAIT;",
        ),
    ] {
        needs(&body(tell, wait, 512), threads(64), &words);
        // What the lane itself has written.
        let own = body(tell, wait, 512).replace("⟦bar.warp.sync -1;⟧", "");
        innocent(
            &own.replace("ld.shared.u32 %r2", "setp.ne.u32 %p5, %t, 0;\n@%p5 exit;\nld.shared.u32 %r2"),
            threads(64),
        );
    }
    // A barrier of the CTA is one of the warp.
    innocent(
        &body("bar.sync 1, 32;\n@%p3 st.release.cta.shared.u32 [buffer+2048], 1;", flag, 512)
            .replace("⟦bar.warp.sync -1;⟧", ""),
        threads(64),
    );
    // To another CTA.
    let across = "mov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra LOOK;\nst.global.u32 [%mine+512], %t;\n⟦bar.warp.sync -1;⟧\n\
        setp.ne.u32 %p2, %t, 0;\n@%p2 exit;\nred.release.gpu.global.add.u32 [%out], 1;\nexit;\n\
        LOOK: ld.acquire.gpu.global.u32 %r3, [%out];\nsetp.eq.u32 %p3, %r3, 0;\n@%p3 bra LOOK;\nld.global.u32 %r2, [%mine+640];";
    needs(across, ctas(2, 32), &["race", "of cluster 1 wrote them", "another lane of that warp released"]);
}

#[test]
fn lanes_that_read_before_another_one_releases() {
    // All lanes of the second warp read, its first lane says so, and the first warp writes there.
    let body = |read: &str, tell: &str, wait: &str, write: &str| {
        format!(
            "st.shared.v4.u32 [%s], {{0, 0, 0, 0}};\nst.shared.v4.u32 [%s+1024], {{0, 0, 0, 0}};\nsetp.eq.u32 %p1, %t, 0;\n\
             @%p1 mbarrier.init.shared.b64 [bar], 1;\nfence.proxy.async;\nbar.sync 0;\nsetp.lt.u32 %p2, %t, 32;\n@%p2 bra WAIT;\n\
             {read}\n⟦bar.warp.sync -1;⟧\nsetp.eq.u32 %p3, %t, 32;\n{tell}\nexit;\nWAIT: {wait}\n{write}"
        )
    };
    let (each, one) = ("ld.shared.u32 %r2, [%s];", "ld.shared.u32 %r2, [buffer+512];");
    let arrive = "@%p3 mbarrier.arrive.shared.b64 _, [bar];";
    let phase = "mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0;\n@!%p4 bra WAIT;";
    let release = "@%p3 st.release.cta.shared.u32 [buffer+2000], 1;";
    let flag = "ld.acquire.cta.shared.u32 %r1, [buffer+2000];\nsetp.eq.u32 %p4, %r1, 0;\n@%p4 bra WAIT;";
    let store = "st.shared.u32 [%s+512], %t;";
    let bulk = "@!%p1 exit;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;\n\
        mov.u32 %r4, 512;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buffer+512], [%out], %r4, [bar];\n\
        FULL: mbarrier.try_wait.parity.shared::cta.b64 %p5, [bar], 1;\n@!%p5 bra FULL;";
    let words = ["race", "another lane of that warp released", "bar.warp.sync"];
    for (tell, wait) in [(arrive, phase), (release, flag)] {
        for (read, who) in [(each, "thread 33 read them"), (one, "warp 1 read them")] {
            needs(&body(read, tell, wait, store), threads(64), &[&words[..], &[who]].concat());
        }
    }
    for (read, who) in [(each, "thread 33 read them"), (one, "warp 1 read them")] {
        needs(&body(read, arrive, phase, bulk), threads(64), &[&words[..], &[who]].concat());
    }
    // Every lane arrives, or the one that read.
    let all = body(each, "mbarrier.arrive.shared.b64 _, [bar];", phase, store);
    innocent(&all.replace("[bar], 1;", "[bar], 32;").replace("⟦bar.warp.sync -1;⟧", ""), threads(64));
    let own = "setp.eq.u32 %p3, %t, 32;\n@%p3 ld.shared.u32 %r2, [%s];";
    innocent(&body(own, arrive, phase, store).replace("⟦bar.warp.sync -1;⟧", ""), threads(64));
}

#[test]
fn lanes_that_all_read_one_word() {
    // The lane that writes is the first, the second or another one of those that read.
    for lane in [0, 1, 7] {
        let only = format!("setp.eq.u32 %p1, %t, {lane};\n@%p1 st.shared.u32 [buffer], 1;\n");
        let read = "ld.shared.u32 %r1, [buffer];\n";
        let words = ["race", "no bar.warp.sync orders this"];
        needs(&format!("{only}⟦bar.warp.sync -1;⟧\n{read}"), threads(32), &words);
        needs(&format!("{only}bar.warp.sync -1;\n{read}⟦bar.warp.sync -1;⟧\n{only}"), threads(32), &words);
    }
}
