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
fn ctas_that_write_one_place() {
    let body = "add.u32 %r1, %cta, 5;\nand.b32 %r1, %r1, MASK;\nst.global.u32 [%out], %r1;";
    innocent(&body.replace("MASK", "0x100"), ctas(64, 64));
    // Of the first two, whichever comes first.
    let words =
        ["race", "4 bytes of global memory", "thread 0 of CTA 0 of cluster 0 wrote them", "CTA (1, 0, 0)"];
    let one = body.replace("MASK", "-1");
    for _ in 0..5 {
        guilty(&one, ctas(2, 1), &words);
        guilty(&one, ctas(64, 32), &words);
    }
    // One that reads what another writes.
    let read =
        "setp.eq.u32 %p1, %cta, 1;\n@%p1 ld.global.u32 %r1, [%out+64];\n@!%p1 st.global.u32 [%out+64], 1;";
    for _ in 0..5 {
        guilty(read, ctas(2, 1), &["race", "thread 0 of CTA 0 of cluster 0 wrote them", "this read"]);
    }
}

#[test]
fn a_write_after_many_reads() {
    // Eight warps read, of which the first four tell the last so; it writes.
    let body = |told: u32| {
        format!(
            "ld.global.u32 %r1, [%out];\nsetp.lt.u32 %p1, %t, {};\n@%p1 bar.arrive 1, {};\nsetp.lt.u32 %p1, %t, 224;\n\
             @%p1 exit;\nbar.sync 1, {};\nst.global.u32 [%out], 1;",
            32 * told,
            32 * (told + 1),
            32 * (told + 1)
        )
    };
    innocent(&body(7), threads(256));
    guilty(&body(4), threads(256), &["race", "read them", "this write"]);
    // Its own CTA's reads are before it, those of another are not.
    let body = |at: u32| {
        format!(
            "ld.global.u32 %r1, [%out];\nbar.sync 0;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 exit;\nst.global.u32 [%out+{at}], 1;"
        )
    };
    guilty(&body(0), ctas(2, 256), &["race", "of cluster 0 wrote them", "this read"]);
    innocent(&body(4), ctas(2, 256));
}

#[test]
fn memory_that_does_not_change() {
    let body = |load: &str, first: bool| {
        let (load, store) = (format!("{load}.u32 %r1, [%mine];"), "st.global.u32 [%mine], 1;");
        if first { format!("{load}\nbar.sync 0;\n{store}") } else { format!("{store}\nbar.sync 0;\n{load}") }
    };
    for first in [false, true] {
        innocent(&body("ld.global", first), threads(64));
        innocent(
            &body("ld.global.nc", first).replace("st.global.u32 [%mine]", "st.global.u32 [%mine+1024]"),
            threads(64),
        );
        let words =
            ["4 bytes of global memory", "ld.global.nc", "what must not change while the kernel runs"];
        guilty(&body("ld.global.nc", first), threads(64), &words);
    }
}

#[test]
fn constants_are_not_written() {
    // The module has a variable before the kernel.
    let module = |space: &str| {
        let text = format!(
            ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .{space} .align 4 .u32 number = 7;\n\
             .visible .entry k(.param .u64 out)\n{{\n.reg .b64 %d<3>;\n.reg .b32 %r<3>;\n\
             mov.u64 %d2, number;\ncvta.{space}.u64 %d1, %d2;\nld.u32 %r1, [%d1];\nadd.u32 %r1, %r1, 1;\nst.u32 [%d1], %r1;\nret;\n}}\n"
        );
        let module = tilewright_emulator::Module::load(&text).expect("valid");
        let emulator = tilewright_emulator::Emulator::new(tilewright_emulator::Arch::Sm90a);
        let (at, bytes) = emulator.variable(&module, "number").expect("it has one");
        assert_eq!(bytes, 4);
        // The host may.
        emulator.write(at, &[9, 0, 0, 0]).expect("allocated");
        let done = emulator.launch(&module.kernel("k").expect("it is called so"), &threads(1), &[0; 8]);
        let mut number = [0; 4];
        emulator.read(at, &mut number).expect("allocated");
        (done.map(|_| ()).map_err(|fault| fault.to_string()), number[0])
    };
    assert_eq!(module("global"), (Ok(()), 10));
    let (done, number) = module("const");
    let report = done.expect_err("constants");
    assert!(
        report.contains("4 bytes at 0x") && report.contains("constant memory, which kernels cannot write"),
        "{report}"
    );
    assert_eq!(number, 9);
}

#[test]
fn scopes_that_are_too_narrow() {
    let write = "st.global.u32 [%mine+512], %t;";
    let look = |load: &str| format!("AGAIN: {load} %r3, [%out];\nsetp.eq.u32 %p3, %r3, 0;\n@%p3 bra AGAIN;");
    let fenced = |level: &str| {
        let tell = format!("membar.{level};\nst.volatile.global.u32 [%out], 1;");
        (tell, look("ld.volatile.global.u32") + &format!("\nmembar.{level};"))
    };
    let (tell, acquire) = fenced("gl");
    let (narrow_tell, narrow_acquire) = fenced("cta");
    for (tell, acquire, ordered) in [
        (&tell, &acquire, true),
        (&narrow_tell, &acquire, false),
        (&tell, &narrow_acquire, false),
        (&"st.release.gpu.global.u32 [%out], 1;".into(), &look("ld.acquire.gpu.global.u32"), true),
        (&"st.release.cta.global.u32 [%out], 1;".into(), &look("ld.acquire.gpu.global.u32"), false),
        (&"st.release.gpu.global.u32 [%out], 1;".into(), &look("ld.acquire.cta.global.u32"), false),
        (&"st.release.cluster.global.u32 [%out], 1;".into(), &look("ld.acquire.cluster.global.u32"), false),
    ] {
        let body = passed(write, tell, acquire);
        if ordered {
            innocent(&body, ctas(2, 64));
        } else {
            guilty(&body, ctas(2, 64), &["race", "4 bytes of global memory", "of cluster"]);
        }
    }
    // Within the CTA, or the cluster, that is enough.
    let inside = |scope: &str| {
        let (tell, look) = (
            format!("st.release.{scope}.global.u32 [%out], 1;"),
            look(&format!("ld.acquire.{scope}.global.u32")),
        );
        let body = passed("st.global.u32 [%out+1024], 9;", &tell, &look);
        body.replace("ld.global.u32 %r2, [%mine+768]", "ld.global.u32 %r2, [%out+1024]")
    };
    let cluster = super::kernel::cluster(2, 64);
    innocent(&inside("cluster"), cluster);
    guilty(&inside("cta"), cluster, &["race"]);
    let warps = inside("cta").replace("mov.u32 %r1, %ctaid.x;", "shr.u32 %r1, %t, 5;");
    let warps = warps
        .replace("setp.ne.u32 %p2, %t, 0;", "and.b32 %r4, %t, 31;\nsetp.ne.u32 %p2, %r4, 0;")
        .replace("bar.sync 0;", "bar.warp.sync -1;");
    innocent(&warps, threads(64));
    // Atomics for a CTA alone are none for another one.
    let add = |scope: &str| format!("red.relaxed.{scope}.global.add.u32 [%out], 1;");
    innocent(&add("cta"), threads(64));
    innocent(&add("gpu"), ctas(2, 64));
    guilty(&add("cta"), ctas(2, 64), &["race"]);
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

#[test]
fn sums_of_several_ctas() {
    // Each adds, and the last to come, as a counter tells it, reads the sum: its own addition does not say that the others' are over.
    let body = |add: &str, first: &str, second: &str| {
        format!(
            "setp.ne.u32 %p1, %t, 0;\n@%p1 exit;\n{add}\n{first}\natom.relaxed.gpu.global.add.u32 %r1, [%out+64], 1;\n{second}\n\
             setp.ne.u32 %p2, %r1, 2;\n@%p2 exit;\nld.global.u32 %r2, [%out];\nst.global.u32 [%out+128], %r2;"
        )
    };
    let fence = "fence.acq_rel.gpu;";
    let copied = "st.shared.v4.u32 [buffer], {1, 1, 1, 1};\nfence.proxy.async.shared::cta;\n\
        cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [buffer], 16;\ncp.async.bulk.commit_group;\n\
        cp.async.bulk.wait_group 0;";
    for add in ["red.relaxed.gpu.global.add.u32 [%out], 5;", copied] {
        innocent(&body(add, fence, fence), ctas(3, 32));
        for [first, second] in [["", fence], [fence, ""]] {
            guilty(
                &body(add, first, second),
                ctas(3, 32),
                &["race", "4 bytes of global memory", "at PTX line"],
            );
        }
    }
    // What an atomic operation gives tells it of those before.
    let counted = body("", "", "").replace("[%out];", "[%out+64];");
    innocent(&counted, ctas(3, 32));
}
