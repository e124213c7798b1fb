//! Races on global memory.

use super::kernel::{ctas, guilty, innocent, needs, threads};

#[test]
fn threads_of_a_cta() {
    let body = "st.global.u32 [%mine], %t;\n⟦bar.sync 0;⟧\nxor.b32 %r1, %t, 32;\nmad.wide.u32 %d1, %r1, 4, %out;\n\
        setp.ge.u32 %p1, %t, 32;\n@%p1 ld.global.u32 %r2, [%d1];";
    needs(body, threads(64), &["race", "4 bytes of global memory", "thread 0 wrote them", "thread 32"]);
    innocent("st.global.u32 [%out], 5;", threads(96));
    guilty("st.global.u32 [%out], %t;", threads(96), &["race", "global memory"]);
}

#[test]
fn atomics() {
    innocent("red.global.add.u32 [%out], 1;\natom.global.add.u32 %r1, [%out], 1;", threads(64));
    let body = "red.global.add.u32 [%out], 1;\n⟦bar.sync 0;⟧\nld.global.u32 %r1, [%out];";
    needs(body, threads(64), &["race", "global memory"]);
}

/// CTA 1 writes and tells CTA 0, which waits and reads the same; both are clusters of their own, of 64 threads.
fn passed(write: &str, tell: &str, look: &str) -> String {
    format!(
        "mov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra LOOK;\n{write}\nbar.sync 0;\nsetp.ne.u32 %p2, %t, 0;\n\
         @%p2 exit;\n{tell}\nexit;\nLOOK: setp.ne.u32 %p2, %t, 0;\n@%p2 bra MET;\n{look}\nMET: bar.sync 0;\nld.global.u32 %r2, [%mine+768];"
    )
}

#[test]
fn ctas_pass_on_what_they_wrote() {
    let write = "st.global.u32 [%mine+512], %t;";
    let look = |load: &str| {
        format!("AGAIN: {load}.global.u32 %r3, [%out];\nsetp.eq.u32 %p3, %r3, 0;\n@%p3 bra AGAIN;")
    };
    for (tell, acquire, ordered) in [
        ("st.release.gpu.global.u32 [%out], 1;", look("ld.acquire.gpu"), true),
        ("fence.acq_rel.gpu;\nred.relaxed.gpu.global.add.u32 [%out], 1;", look("ld.acquire.gpu"), true),
        ("membar.gl;\nst.volatile.global.u32 [%out], 1;", look("ld.volatile") + "\nmembar.gl;", true),
        ("red.relaxed.gpu.global.add.u32 [%out], 1;", look("ld.acquire.gpu"), false),
        ("st.release.gpu.global.u32 [%out], 1;", look("ld.relaxed.gpu"), false),
        ("atom.release.gpu.global.add.u32 %r4, [%out], 1;", look("ld.volatile"), false),
    ] {
        let body = passed(write, tell, &acquire);
        if ordered {
            innocent(&body, ctas(2, 64));
        } else {
            guilty(&body, ctas(2, 64), &["race", "of cluster 1"]);
        }
    }
}

#[test]
fn the_last_cta_sums_what_all_have_stored() {
    // Word 0 counts the CTAs, whose parts follow.
    let body = |before: &str, after: &str| {
        format!(
            "setp.ne.u32 %p1, %t, 0;\n@%p1 exit;\nmad.wide.u32 %d1, %cta, 4, %out;\nst.global.u32 [%d1+4], %cta;\n{before}\n\
             atom.global.add.u32 %r1, [%out], 1;\n{after}\nmov.u32 %r2, %nctaid.x;\nadd.u32 %r1, %r1, 1;\nsetp.ne.u32 %p1, %r1, %r2;\n\
             @%p1 exit;\nMORE: sub.u32 %r1, %r1, 1;\nmad.wide.u32 %d1, %r1, 4, %out;\nld.global.u32 %r3, [%d1+4];\n\
             setp.ne.u32 %p1, %r1, 0;\n@%p1 bra MORE;"
        )
    };
    needs(&body("⟦membar.gl;⟧", "membar.gl;"), ctas(1000, 32), &["race", "of cluster", "ld.global"]);
    needs(&body("membar.gl;", "⟦membar.gl;⟧"), ctas(1000, 32), &["race", "of cluster", "ld.global"]);
    let atomic = body("", "").replace("atom.global", "atom.⟦acq_rel⟧.gpu.global");
    innocent(&atomic.replace(['⟦', '⟧'], ""), ctas(1000, 32));
    guilty(&atomic.replace("⟦acq_rel⟧", "relaxed"), ctas(1000, 32), &["race", "of cluster", "ld.global"]);
}
