//! What is said of a fault: first what is wrong, and of the thread that did it.

use super::kernel::{accused, cluster, guilty, guilty_at, innocent, needs, threads};

#[test]
fn addresses_come_before_races() {
    // All lanes store different values to one place, which is none.
    let store = |at: &str| format!("mov.u64 %d1, {at};\nst.global.u32 [%d1], %t; // here");
    guilty_at(&store("0"), threads(32), 0, 0, &["4 bytes of global memory at 0x0: not allocated"]);
    guilty_at(
        &format!("add.u64 %d1, %out, 4096;\n{}", "st.global.u32 [%d1], %t; // here"),
        threads(32),
        0,
        0,
        &["out of bounds; the nearest allocation is 0x1000000000 to 0x1000001000"],
    );
    // One of the lanes, and below.
    let one = "setp.eq.u32 %p1, %t, 7;\nadd.u64 %d1, %out, -64;\nselp.b64 %d1, %d1, %out, %p1;\nst.global.u32 [%d1], %t; // here";
    let words = ["0xfffffffc0: out of bounds; the nearest allocation is 0x1000000000 to 0x1000001000"];
    guilty_at(one, threads(32), 0, 7, &words);
    guilty_at("red.global.add.u32 [%t], 1; // here", threads(32), 0, 0, &["at 0x0: not allocated"]);
    guilty_at("st.shared.u32 [%t], %t; // here", threads(1), 0, 0, &["shared memory at 0x0: out of bounds"]);
    // Misaligned, and of two lanes.
    guilty_at("st.global.u32 [%out+2], %t; // here", threads(32), 0, 0, &["misaligned"]);
}

#[test]
fn the_thread_that_is_wrong() {
    let only = |lane: u32, what: &str| format!("setp.eq.u32 %p1, %t, {lane};\n@%p1 {what} // here");
    guilty_at(&only(5, "trap;"), threads(32), 0, 5, &["trap"]);
    guilty_at(&only(39, "ld.global.u32 %r1, [%out+5000];"), threads(64), 0, 39, &["out of bounds"]);
    guilty_at(&only(9, "mbarrier.arrive.shared.b64 _, [bar];"), threads(32), 0, 9, &["no mbarrier"]);
    guilty_at(
        &only(3, "cp.async.ca.shared.global [%s], [%out+4096], 4;"),
        threads(32),
        0,
        3,
        &["out of bounds"],
    );
    // Of all lanes, the one that differs.
    let differs = "setp.eq.u32 %p1, %t, 11;\nselp.u32 %r1, 1, 2, %p1;\nbarrier.sync %r1, 32; // here";
    guilty_at(differs, threads(32), 0, 11, &["an operand differs"]);
    let rank =
        "setp.eq.u32 %p1, %t, 4;\nselp.u32 %r1, 2, 1, %p1;\nmapa.shared::cluster.u32 %r2, %s, %r1; // here";
    guilty_at(rank, cluster(2, 32), 0, 4, &["mapa to CTA 2"]);
    // The second of two lanes that race.
    let two = "st.shared.u32 [%s], %t;\nsetp.eq.u32 %p1, %t, 31;\n@%p1 st.shared.u32 [%s+-16], %t; // here";
    guilty_at(two, threads(32), 0, 31, &["thread 30 wrote them", "this write of thread 31"]);
}

#[test]
fn a_missing_barrier_is_not_what_nobody_wrote() {
    // The warp that reads comes first here: the value is not there yet.
    let read = |barrier: &str, read: &str| {
        format!(
            "setp.lt.u32 %p1, %t, 32;\n@%p1 bra READ;\nst.shared.u32 [%s+-512], %t;\n{barrier}\nbra END;\n\
             READ: {barrier}\n{read}\nEND:"
        )
    };
    for use_ in [
        "ld.shared.u32 %r1, [%s];\nst.global.u32 [%mine], %r1;",
        "ld.shared.u32 %r1, [%s];\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 exit;",
        "atom.shared.add.u32 %r1, [%s], 1;",
    ] {
        innocent(&read("bar.sync 0;", use_), threads(64));
        let found = accused(&read("", use_), &threads(64));
        let wanted =
            ["race: 4 bytes of shared memory at 0x400", "thread 0", "this write of thread 32 after that"];
        assert!(wanted.iter().all(|word| found.what.contains(word)), "{found}");
        assert_eq!(found.thread, Some(32), "{found}");
    }
    // All warps but the last ones read what a later one writes, each too early.
    let sum = "st.shared.u32 [%s], %t;\n⟦bar.sync 0;⟧\nsetp.ge.u32 %p1, %t, 64;\n@%p1 exit;\nld.shared.u32 %r1, [%s+1024];\n\
        st.global.u32 [%mine], %r1;";
    let words = [
        "race: 4 bytes of shared memory at 0x800",
        "thread 0 read them",
        "this write of thread 64 after that",
    ];
    needs(sum, threads(128), &words);
    // That nobody writes at all is what is said otherwise.
    let nobody = read("", "ld.shared.u32 %r1, [%s+2048];\nst.global.u32 [%mine], %r1;");
    guilty(&nobody, threads(64), &["4 bytes of shared memory at 0xc00, of which nobody had written all"]);
}

#[test]
fn an_ordinary_load_that_polls() {
    // CTA 0 looks for what CTA 1 writes, which it need never see.
    let body = |load: &str, store: &str| {
        format!(
            "setp.eq.u32 %p1, %cta, 1;\n@%p1 bra WRITE;\nAGAIN: {load}.u32 %r1, [%out];\nsetp.eq.u32 %p2, %r1, 0;\n\
             @%p2 bra AGAIN;\nexit;\nWRITE: {store}.u32 [%out], 1;"
        )
    };
    let two = super::kernel::ctas(2, 32);
    innocent(&body("ld.relaxed.gpu.global", "st.relaxed.gpu.global"), two);
    guilty(&body("ld.global", "st.global"), two, &["race", "read them at PTX line", "this write"]);
    // Nobody writes it.
    let alone = "AGAIN: ld.global.u32 %r1, [%out];\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 bra AGAIN;";
    guilty(alone, threads(32), &["deadlock", "ld.global.u32 %r1, [%out];", "an ordinary load"]);
}
