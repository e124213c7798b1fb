//! Accesses of shared memory that nothing orders.

use super::pair::{needs, right, wrong};

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
    needs(&body, 64, 1, &words);
}

#[test]
fn a_write_without_a_barrier() {
    let read = format!("{OTHER_WARP}st.shared.u32 [%s], %t;\nbar.sync 0;\nld.shared.u32 %r3, [%r2];\n");
    needs(
        &format!("{read}⟦bar.sync 0;⟧\nst.shared.u32 [%s], 0;"),
        64,
        1,
        &["race", "thread 0 wrote them", "this read"],
    );
    let both = "mov.u32 %r1, buffer;\nsetp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [%r1], %t;\n⟦bar.sync 0;⟧\n\
        setp.eq.u32 %p1, %t, 32;\n@%p1 st.shared.u32 [%r1], %t;";
    needs(both, 64, 1, &["race", "thread 0 wrote them", "this write"]);
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
    right(&with(2).replace("bar.sync 2;", "bar.sync 2, 128;"), 128, 1);
    wrong(&with(3).replace("bar.sync 3;", "bar.sync 3, 64;"), 128, 1, &["race", "thread 0 wrote them"]);
}

#[test]
fn lanes_of_a_warp() {
    let body = format!("{OTHER_LANE}st.shared.u32 [%s], %t;\n⟦bar.warp.sync -1;⟧\nld.shared.u32 %r3, [%r2];");
    needs(&body, 32, 1, &["race", "thread 1 wrote them", "bar.warp.sync"]);
    // Neighbours in one piece of 16 bytes.
    let body = "mov.u32 %r2, buffer;\nmad.lo.u32 %r3, %t, 4, %r2;\nst.shared.u32 [%r3], %t;\n⟦bar.warp.sync -1;⟧\n\
        xor.b32 %r1, %t, 1;\nmad.lo.u32 %r3, %r1, 4, %r2;\nld.shared.u32 %r4, [%r3];";
    needs(body, 32, 1, &["race", "bar.warp.sync"]);
    right("st.shared.v2.u32 [%s], {%t, %t};\nld.shared.u32 %r1, [%s+4];\nst.shared.u32 [%s+4], %r1;", 32, 1);
}

#[test]
fn lanes_that_write_one_address() {
    right("st.shared.u32 [buffer], 7;", 96, 1);
    wrong("st.shared.u32 [buffer], %t;", 32, 1, &["race", "thread 0 wrote them", "thread 0, PTX line"]);
}

#[test]
fn atomics_do_not_race_with_each_other() {
    let begin = "setp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [buffer], 0;\n";
    needs(&format!("{begin}⟦bar.sync 0;⟧\nred.shared.add.u32 [buffer], 1;"), 64, 1, &["race"]);
    let sum = format!("{begin}bar.sync 0;\natom.shared.add.u32 %r1, [buffer], 1;\n");
    needs(&format!("{sum}⟦bar.sync 0;⟧\nld.shared.u32 %r1, [buffer];"), 64, 1, &["race"]);
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
    right(&body("st.release.cta", "ld.acquire.cta"), 64, 1);
    right(&body("fence.acq_rel.cta;\nst.relaxed.cta", "ld.acquire.cta"), 64, 1);
    wrong(&body("st.relaxed.cta", "ld.acquire.cta"), 64, 1, &["race", "thread 32 wrote them"]);
    wrong(&body("st.release.cta", "ld.relaxed.cta"), 64, 1, &["race", "thread 32 wrote them"]);
    wrong(&body("st", "ld.acquire.cta"), 64, 1, &["race"]);
}

#[test]
fn memory_of_other_ctas() {
    let body = "mov.u32 %r1, %cluster_ctarank;\nst.shared.u32 [%s], %r1;\n⟦barrier.cluster.arrive;\nbarrier.cluster.wait;⟧\n\
        xor.b32 %r2, %r1, 1;\nmapa.shared::cluster.u32 %r3, %s, %r2;\nsetp.eq.u32 %p1, %r1, 1;\n\
        @%p1 ld.shared::cluster.u32 %r4, [%r3];\nbarrier.cluster.arrive;\nbarrier.cluster.wait;";
    needs(body, 32, 2, &["race", "thread 0 of CTA 0 of the cluster wrote them", "CTA (1, 0, 0)"]);
    let relaxed = |arrive: &str| body.replace(['⟦', '⟧'], "").replacen("barrier.cluster.arrive;", arrive, 1);
    wrong(&relaxed("barrier.cluster.arrive.relaxed;"), 32, 2, &["race"]);
    right(&relaxed("fence.acq_rel.cluster;\nbarrier.cluster.arrive.relaxed;"), 32, 2);
}

#[test]
fn a_cta_that_ends_takes_its_memory_with_it() {
    let body = "mov.u32 %r1, %cluster_ctarank;\nst.shared.u32 [%s], %r1;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n\
        setp.eq.u32 %p1, %r1, 0;\nmov.u32 %r2, 0;\nmapa.shared::cluster.u32 %r3, %s, %r2;\n\
        @!%p1 ld.shared::cluster.u32 %r4, [%r3];\n⟦barrier.cluster.arrive;\nbarrier.cluster.wait;⟧";
    needs(body, 32, 2, &["shared memory", "has ended"]);
    // The other way round: the owner comes last here, but on a GPU it may not.
    let body = body.replace("%p1, %r1, 0;\nmov.u32 %r2, 0;", "%p1, %r1, 1;\nmov.u32 %r2, 1;");
    needs(&body, 32, 2, &["race", "shared memory of a CTA that ends", "of CTA 0 of the cluster read them"]);
}
