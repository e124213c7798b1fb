//! What shared memory holds.

use super::kernel::{guilty, guilty_at, innocent, needs, threads};

/// Stores what was loaded.
const STORE: &str = "st.global.u32 [%mine], %r1; // here";

#[test]
fn shared_memory_that_nobody_wrote() {
    let words =
        ["%r1 is used", "4 bytes of shared memory at 0x400", "nobody had written", "ld.shared.u32 %r1"];
    needs(&format!("⟦st.shared.u32 [%s], %t;⟧\nld.shared.u32 %r1, [%s];\n{STORE}"), threads(32), &words);
    // One lane's.
    let one = "setp.ne.u32 %p1, %t, 5;\n@%p1 st.shared.u32 [%s], %t;\nld.shared.u32 %r1, [%s];\n";
    innocent(&format!("{one}@%p1 {STORE}"), threads(32));
    guilty_at(&format!("{one}{STORE}"), threads(32), 0, 5, &["4 bytes of shared memory at 0x450"]);
    // One word for all lanes, of which the last needs it.
    let all = "ld.shared.u32 %r1, [buffer];\nsetp.eq.u32 %p1, %t, 31;\n";
    guilty_at(&format!("{all}@%p1 {STORE}"), threads(32), 0, 31, &words[1..]);
    innocent(&format!("{all}@%p1 mov.u32 %r1, 1;\n@%p1 {STORE}"), threads(32));
    // One byte of four is missing.
    needs(
        &format!(
            "st.shared.u16 [%s], 1;\nst.shared.u8 [%s+2], 1;\n⟦st.shared.u8 [%s+3], 1;⟧\nld.shared.u32 %r1, [%s];\n{STORE}"
        ),
        threads(32),
        &words[..3],
    );
    innocent(
        &format!(
            "st.shared.v4.u32 [%s], {{%t, %t, %t, %t}};\nld.shared.u8 %r1, [%s+7];\nld.shared.u64 %d1, [%s+8];\n{STORE}"
        ),
        threads(32),
    );
    // The result of an address, a branch, and of arithmetic.
    let load = "ld.shared.u32 %r1, [%s];";
    guilty(
        &format!("{load}\nadd.u32 %r2, %r1, %t;\nld.shared.u32 %r3, [%r2];"),
        threads(32),
        &["%r2 is used"],
    );
    guilty(&format!("{load}\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 exit;"), threads(32), &["%p1 is used"]);
}

#[test]
fn shared_memory_that_nobody_wrote_and_nobody_needs() {
    // The fourth word of three, and a row that is padding.
    let three = "st.shared.v2.u32 [%s], {%t, %t};\nst.shared.u32 [%s+8], %t;\nld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%s];\n\
        add.u32 %r1, %r1, %r2;\nadd.u32 %r1, %r1, ";
    innocent(&format!("{three}%r3;\n{STORE}"), threads(32));
    let words = ["%r1 is used", "16 bytes of shared memory at 0x400"];
    guilty(&format!("{three}%r4;\n{STORE}"), threads(32), &words);
    // Once it is written it has a value again.
    innocent(
        &format!("ld.shared.u32 %r1, [%s];\nadd.u32 %r2, %r1, 1;\nmov.u32 %r1, 1;\n{STORE}"),
        threads(32),
    );
}

#[test]
fn matrices_that_nobody_wrote() {
    // Eight rows of 16 bytes, of which the first lanes write some.
    let body = |trans: &str, rows: u32, store: &str| {
        format!(
            "setp.lt.u32 %p1, %t, {rows};\n@%p1 st.shared.v4.u32 [%s], {{%t, %t, %t, %t}};\nbar.warp.sync -1;\n\
             ldmatrix.sync.aligned.m8n8.x1{trans}.shared.b16 {{%r1}}, [%s];\n{store} {STORE}"
        )
    };
    innocent(&body("", 8, ""), threads(32));
    // Row 7 goes to the last four lanes; transposed, it is in every fourth.
    guilty_at(&body("", 7, ""), threads(32), 0, 28, &["%r1 is used", "16 bytes of shared memory at 0x470"]);
    innocent(&body("", 7, "setp.lt.u32 %p2, %t, 28;\n@%p2"), threads(32));
    guilty_at(&body(".trans", 7, ""), threads(32), 0, 3, &["16 bytes of shared memory at 0x470"]);
    innocent(&body(".trans", 7, "and.b32 %r5, %t, 3;\nsetp.ne.u32 %p2, %r5, 3;\n@%p2"), threads(32));
}

#[test]
fn products_of_what_nobody_wrote() {
    // Sixteen rows of A, of which the last ones are padding, times eight columns of ones.
    let body = |rows: u32, store: &str| {
        format!(
            "setp.lt.u32 %p1, %t, {rows};\n@%p1 st.shared.v4.u32 [%s], {{0, 0, 0, 0}};\nbar.warp.sync -1;\nmov.b32 %f1, 0;\n\
             ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r1, %r2}}, [%s];\nmov.u32 %r3, 0x3c003c00;\n\
             mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {{%f2, %f3, %f4, %f5}}, {{%r1, %r2}}, {{%r3}}, {{%f1, %f1, %f1, %f1}};\n{store}"
        )
    };
    let (low, high) = ("st.global.f32 [%mine], %f3; // here", "st.global.f32 [%mine], %f4; // here");
    innocent(&body(16, &format!("{low}\n{high}")), threads(32));
    innocent(&body(14, low), threads(32));
    guilty_at(&body(14, high), threads(32), 0, 24, &["%f4 is used", "16 bytes of shared memory at 0x4e0"]);
    innocent(&body(14, &format!("setp.lt.u32 %p2, %t, 24;\n@%p2 {high}")), threads(32));
    // Of a column, in all rows.
    let column = |store: &str| {
        body(16, store).replace("mov.u32 %r3, 0x3c003c00;", "setp.lt.u32 %p3, %t, 28;\n@%p3 mov.u32 %r3, 0;")
    };
    guilty_at(&column(low), threads(32), 0, 3, &["%f3 is used, whose value comes from %r3"]);
    innocent(&column("st.global.f32 [%mine], %f2;"), threads(32));
}

#[test]
fn atomics_on_what_nobody_wrote() {
    // A histogram that starts at anything.
    let count = "⟦st.shared.u32 [%s], 0;⟧\nATOMIC;\n";
    let words =
        ["an atomic operation on 4 bytes of shared memory at 0x400", "of which nobody has written all"];
    for atomic in [
        "red.shared.add.u32 [%s], 1",
        "atom.shared.add.f32 %f1, [%s], 0f3F800000",
        "atom.shared.cas.b32 %r1, [%s], 0, 1",
    ] {
        needs(&count.replace("ATOMIC", atomic), threads(32), &words);
    }
    let one = "setp.ne.u32 %p1, %t, 9;\n@%p1 st.shared.u32 [%s], 0;\nred.shared.add.u32 [%s], 1; // here";
    guilty_at(one, threads(32), 0, 9, &["shared memory at 0x490"]);
    // An exchange does not look at what is there, but gives it.
    let exchange = "atom.shared.exch.b32 %r1, [%s], 1;\nld.shared.u32 %r2, [%s];\n";
    innocent(&format!("{exchange}{}", STORE.replace("%r1", "%r2")), threads(32));
    guilty(&format!("{exchange}{STORE}"), threads(32), &["%r1 is used", "atom.shared.exch.b32 %r1"]);
}

#[test]
fn an_mbarrier_is_no_memory() {
    let begin = "setp.ne.u32 %p1, %t, 0;\n@%p1 exit;\nmbarrier.init.shared.b64 [bar], 1;\n";
    guilty(&format!("{begin}ld.shared.u64 %d1, [bar];"), threads(32), &["of an mbarrier"]);
    guilty(&format!("{begin}st.shared.u32 [bar+4], 1;"), threads(32), &["of an mbarrier"]);
    innocent(
        &format!(
            "{begin}mbarrier.inval.shared.b64 [bar];\nst.shared.u64 [bar], 1;\nld.shared.u32 %r1, [bar];"
        ),
        threads(32),
    );
}

#[test]
fn from_one_variable_into_the_next() {
    // The last of 256 times 16 bytes, and one more.
    let body = |from: u32| {
        format!(
            "mad.lo.u32 %r1, %t, 32, {from};\nmov.u32 %r2, buffer;\nadd.u32 %r1, %r1, %r2;\nst.shared.v4.u32 [%r1], {{%t, %t, %t, %t}};\n"
        )
    };
    innocent(&body(3088), threads(32));
    let words = [
        "16 bytes of shared memory at 0x1400",
        "out of bounds",
        "behind the variable `buffer`, 0x400 to 0x1400",
    ];
    guilty(&body(3104), threads(32), &words);
    // A variable that does not end with 16 bytes.
    let odd = |at: u32| {
        format!(
            ".shared .align 4 .b8 first[5];\n.shared .align 4 .b8 second[4];\nmov.u32 %r1, first;\nst.shared.u8 [%r1+{at}], 1;"
        )
    };
    innocent(&odd(4), threads(32));
    guilty(
        &odd(5),
        threads(32),
        &["1 bytes of shared memory", "out of bounds", "behind the variable `first`"],
    );
}

#[test]
fn local_memory_is_one_threads_own() {
    // Each thread stores where its variable is, and loads from where a thread says.
    let body = |other: u32| {
        format!(
            ".local .align 8 .b8 frame[16];\nmov.u64 %d1, frame;\ncvta.local.u64 %d2, %d1;\nst.u32 [%d2+8], %t;\n\
             mov.u32 %r1, buffer;\nmad.lo.u32 %r2, %t, 8, %r1;\nst.shared.u64 [%r2], %d2;\nbar.sync 0;\n\
             xor.b32 %r3, %t, {other};\nmad.lo.u32 %r2, %r3, 8, %r1;\nld.shared.u64 %d3, [%r2];\nld.u32 %r4, [%d3+8]; // here"
        )
    };
    innocent(&body(0), threads(64));
    guilty_at(&body(1), threads(64), 0, 0, &["4 bytes at", "the local memory of another thread"]);
    guilty_at(&body(32), threads(64), 0, 0, &["the local memory of another thread"]);
    // To the space and back.
    let back =
        "cvta.to.local.u64 %d4, %d2;\nld.local.u32 %r1, [%d4+8];\nisspacep.local %p1, %d2;\n@!%p1 trap;";
    innocent(&format!("{}\n{back}", body(0)), threads(64));
}
