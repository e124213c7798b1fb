//! Registers that nobody wrote, and registers of products in flight.

use super::kernel::{ctas, guilty, guilty_at, innocent, threads};

/// A kernel whose `%r1` has a value in some threads alone, and then does this.
fn partly(condition: &str, then: &str) -> String {
    format!("setp.lt.u32 %p1, {condition};\n@%p1 mov.u32 %r1, 7;\n{then}")
}

#[test]
fn a_register_that_nobody_wrote() {
    let body = "st.global.u32 [%mine], %r1; // here";
    guilty_at(body, threads(32), 0, 0, &["%r1 is used, and nobody has written it"]);
    innocent(&format!("mov.u32 %r1, 3;\n{body}"), threads(32));
    guilty_at("ld.global.u32 %r1, [%d1]; // here", threads(32), 0, 0, &["%d1 is used"]);
    guilty_at("@%p3 bra END; // here\nEND:", threads(32), 0, 0, &["%p3 is used"]);
    guilty_at("@%p3 mov.u32 %r1, 0; // here", threads(32), 0, 0, &["%p3 is used"]);
    guilty_at("bar.sync %r2; // here", threads(32), 0, 0, &["%r2 is used"]);
    guilty_at("st.shared.v2.u32 [buffer], {%t, %r2}; // here", threads(32), 0, 0, &["%r2 is used"]);
}

#[test]
fn a_register_that_some_threads_wrote() {
    let store = "st.global.u32 [%mine], %r1; // here";
    guilty_at(&partly("%t, 37", store), threads(64), 0, 37, &["%r1 is used, and nobody has written it"]);
    guilty_at(&partly("%cta, 2", store), ctas(3, 32), 2, 0, &["%r1 is used"]);
    // Those that read it are those that wrote it.
    innocent(&partly("%t, 37", &format!("@%p1 {store}")), threads(64));
    guilty_at(&partly("%t, 37", &format!("@!%p1 {store}")), threads(64), 0, 37, &["%r1 is used"]);
}

#[test]
fn a_register_that_one_branch_writes() {
    let body = |other: &str| {
        format!(
            "setp.lt.u32 %p1, %t, 8;\n@%p1 bra LOW;\nmov.u32 %r1, 5;\nbra BOTH;\nLOW: {other}\n\
             BOTH: add.u32 %r2, %r1, 1;\nshl.b32 %r3, %r2, 1;\nst.global.u32 [%mine], %r3; // here"
        )
    };
    let words = ["%r3 is used, whose value comes from %r1", "BOTH: add.u32 %r2, %r1, 1;"];
    guilty_at(&body("mov.u32 %r9, 5;"), threads(32), 0, 0, &words);
    innocent(&body("mov.u32 %r1, 6;"), threads(32));
}

#[test]
fn a_register_that_a_loop_writes() {
    // The first time round it has no value.
    let body = |first: &str| {
        format!(
            "{first}\nmov.u32 %r2, 0;\nLOOP: st.global.u32 [%mine], %r1; // here\nmov.u32 %r1, %r2;\n\
             add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 4;\n@%p1 bra LOOP;"
        )
    };
    guilty_at(&body(""), threads(32), 0, 0, &["%r1 is used"]);
    innocent(&body("mov.u32 %r1, 9;"), threads(32));
}

#[test]
fn copies_and_choices_are_no_uses() {
    let store = "st.global.u32 [%mine], %r3;";
    // The value is taken where there is one.
    innocent(&partly("%t, 9", &format!("selp.u32 %r3, %r1, 5, %p1;\n{store}")), threads(32));
    innocent(
        &partly(
            "%t, 9",
            &format!("add.u32 %r2, %r1, 1;\nmov.u32 %r4, %r2;\nselp.u32 %r3, %r4, 5, %p1;\n{store}"),
        ),
        threads(32),
    );
    // A comparison that another decides.
    let both = "setp.eq.u32 %p2, %r1, 7;\nand.pred %p3, %p1, %p2;\n@%p3 st.global.u32 [%mine], 1;";
    innocent(&partly("%t, 9", both), threads(32));
    innocent(
        &partly("%t, 9", "setp.eq.and.u32 %p3, %r1, 7, %p1;\n@%p3 st.global.u32 [%mine], 1;"),
        threads(32),
    );
    let either = "setp.eq.u32 %p2, %r1, 7;\nor.pred %p3, %p1, %p2;\n@%p3 st.global.u32 [%mine], 1; // here";
    guilty_at(&partly("%t, 9", either), threads(32), 0, 9, &["%p3 is used, whose value comes from %r1"]);
    // Half of a register.
    innocent(
        "mov.b16 %h1, 3;\nmov.b32 %r1, {%h1, %h2};\ncvt.u32.u16 %r3, %h1;\nst.global.u32 [%mine], %r1;",
        threads(32),
    );
    // Local memory.
    innocent(".local .align 4 .b8 frame[8];\nst.local.u32 [frame], %r1;", threads(32));
}

#[test]
fn operands_that_do_not_matter() {
    let store = "st.global.u32 [%mine], %r3; // here";
    for (right, wrong) in [
        ("xor.b32 %r3, %r1, %r1;", "xor.b32 %r3, %r1, %r2;"),
        ("xor.b64 %d3, %d1, %d1;\ncvt.u32.u64 %r3, %d3;", "xor.b64 %d3, %d1, %d2;\ncvt.u32.u64 %r3, %d3;"),
        ("xor.pred %p3, %p1, %p1;\nselp.u32 %r3, 1, 2, %p3;", "not.pred %p3, %p1;\nselp.u32 %r3, 1, 2, %p3;"),
        ("prmt.b32 %r3, %t, %r1, 0x1032;", "prmt.b32 %r3, %t, %r1, 0x1432;"),
        ("prmt.b32 %r3, %r1, %t, 0x7c54;", "prmt.b32 %r3, %r1, %t, 0x3333;"),
        ("and.b32 %r2, %t, 0x3333;\nprmt.b32 %r3, %t, %r1, %r2;", "prmt.b32 %r3, %t, %t, %r1;"),
        ("lop3.b32 %r3, %t, %r1, %r2, 0xf0;", "lop3.b32 %r3, %t, %r1, %r2, 0xe0;"),
    ] {
        innocent(&format!("{right}\n{store}"), threads(32));
        guilty_at(&format!("{wrong}\n{store}"), threads(32), 0, 0, &["is used, whose value comes from"]);
    }
}

/// Zeros in shared memory, `%d1` describes them, `%p7` is true and `%p8` false.
const PRODUCTS: &str = "mov.u32 %r80, 0;\nmov.u32 %r81, buffer;\nmad.lo.u32 %r82, %t, 32, %r81;\n\
    st.shared.v4.u32 [%r82], {%r80, %r80, %r80, %r80};\nst.shared.v4.u32 [%r82+16], {%r80, %r80, %r80, %r80};\n\
    fence.proxy.async;\nbar.sync 0;\n\
    shr.u32 %r83, %r81, 4;\nor.b32 %r83, %r83, 0x80000;\nmov.u32 %r84, 16;\nmov.b64 %d1, {%r83, %r84};\n\
    setp.eq.u32 %p7, %r80, 0;\nsetp.ne.u32 %p8, %r80, 0;\n";
const FENCE: &str = "wgmma.fence.sync.aligned;";
const COMMIT: &str = "wgmma.commit_group.sync.aligned;";
const WAIT: &str = "wgmma.wait_group.sync.aligned 0;";
const WAIT1: &str = "wgmma.wait_group.sync.aligned 1;";

/// `FIRST+{0, 1, 2, 3}` accumulate a product.
fn product(first: u32, scale: &str) -> String {
    let [w, x, y, z] = [0, 1, 2, 3].map(|i| format!("%r{}", first + i));
    format!(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{w}, {x}, {y}, {z}}}, %d1, %d1, {scale}, 1, 1, 0, 0;"
    )
}

/// The same, with A in the registers from `a` on.
fn product_of(first: u32, a: u32, scale: &str) -> String {
    let [w, x, y, z] = [0, 1, 2, 3].map(|i| format!("%r{}", first + i));
    let [a, b, c, d] = [0, 1, 2, 3].map(|i| format!("%r{}", a + i));
    format!(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{w}, {x}, {y}, {z}}}, {{{a}, {b}, {c}, {d}}}, %d1, {scale}, 1, 1, 0;"
    )
}

/// Zeros in four registers, computed: no copies.
fn zeros(first: u32) -> String {
    (first..first + 4).map(|r| format!("mul.lo.u32 %r{r}, %t, 0;\n")).collect()
}

fn with_products(lines: &[&str]) -> String {
    format!("{PRODUCTS}{}", lines.join("\n"))
}

#[test]
fn accumulators_that_nobody_wrote() {
    let body = |scale| {
        let product = product(10, scale);
        with_products(&[FENCE, &format!("{product} // here"), COMMIT, WAIT, "st.global.u32 [%mine], %r13;"])
    };
    guilty_at(&body("%p7"), threads(128), 0, 0, &["%r10 is used, and nobody has written it"]);
    innocent(&body("%p8"), threads(128));
}

#[test]
fn accumulators_before_they_are_waited_for() {
    let body = |between: &str, then: &str| {
        with_products(&[&zeros(10), FENCE, &product(10, "%p7"), COMMIT, between, then])
    };
    let cases = [
        ("st.global.u32 [%mine], %r11; // here", "%r11 is read while a wgmma accumulates in it"),
        ("add.u32 %r20, %r13, 1; // here", "%r13 is read while a wgmma accumulates in it"),
        ("mov.u32 %r12, 5; // here", "%r12 is written while a wgmma accumulates in it"),
        ("ld.global.u32 %r10, [%mine]; // here", "%r10 is written while a wgmma accumulates in it"),
    ];
    for (then, what) in cases {
        guilty_at(&body("", then), threads(128), 0, 0, &[what, "wgmma.wait_group"]);
        // The group may still be in flight.
        guilty_at(&body(WAIT1, then), threads(128), 0, 0, &[what]);
        innocent(&body(WAIT, then), threads(128));
        // Not committed: nothing waits for it.
        let uncommitted = with_products(&[&zeros(10), FENCE, &product(10, "%p7"), WAIT, then]);
        guilty_at(&uncommitted, threads(128), 0, 0, &[what]);
    }
}

#[test]
fn a_warpgroup_is_told_from_the_others() {
    // The second warpgroup does not wait.
    let body = |wait| {
        let rest = [
            &zeros(10),
            FENCE,
            &product(10, "%p7"),
            COMMIT,
            "setp.ge.u32 %p1, %t, 128;\n@%p1 bra END;",
            WAIT,
        ];
        let rest = rest.join("\n");
        with_products(&[&rest, &format!("END: {wait}"), "st.global.u32 [%mine], %r11; // here"])
    };
    let shared = |body: &str| {
        body.replace("mad.lo.u32 %r82, %t, 32", "and.b32 %r82, %t, 127;\nmad.lo.u32 %r82, %r82, 32")
    };
    guilty_at(&shared(&body("")), threads(256), 0, 128, &["%r11 is read"]);
    innocent(&shared(&body(WAIT)), threads(256));
}

#[test]
fn accumulators_of_products_that_follow() {
    let wide = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, \
        %d1, %d1, %p8, 1, 1, 0, 0;";
    let marked = format!("{wide} // here");
    let product = product(10, "%p7");
    let end = format!("{COMMIT}\n{WAIT}\nst.global.u32 [%mine], %r11;");
    innocent(&with_products(&[&zeros(10), FENCE, &product, &product, COMMIT, &product, &end]), threads(128));
    let body = with_products(&[&zeros(10), FENCE, &product, COMMIT, &marked, &end]);
    guilty_at(
        &body,
        threads(128),
        0,
        0,
        &["%r10 is written while a wgmma of another shape accumulates in it"],
    );
    innocent(&with_products(&[&zeros(10), FENCE, &product, COMMIT, WAIT, FENCE, wide, &end]), threads(128));
}

#[test]
fn copies_of_accumulators_in_flight() {
    let copied = |then: &[&str]| {
        let start = [&zeros(10), FENCE, &product(10, "%p7"), COMMIT, "mov.b32 %r21, %r11;"].join("\n");
        with_products(&[&start, &then.join("\n")])
    };
    let store = "st.global.u32 [%mine], %r21; // here";
    guilty_at(&copied(&[store]), threads(128), 0, 0, &["%r21 is read while a wgmma accumulates in it"]);
    innocent(&copied(&[WAIT, store]), threads(128));
    // A copy may be dropped, and its register used for something else.
    innocent(&copied(&["mov.b32 %r21, %t;", store]), threads(128));
    // What LLVM makes of a loop: the accumulators have one name before and another behind.
    let renamed: String = (0..4).map(|i| format!("mov.b32 %r{}, %r{};\n", 30 + i, 10 + i)).collect();
    let back: String = (0..4).map(|i| format!("mov.b32 %r{}, %r{};\n", 10 + i, 30 + i)).collect();
    let body = with_products(&[
        &zeros(10),
        "mov.u32 %r50, 0;",
        "LOOP:",
        FENCE,
        &renamed,
        &product(30, "%p7"),
        COMMIT,
        WAIT1,
        &back,
        "add.u32 %r50, %r50, 1;\nsetp.lt.u32 %p1, %r50, 5;\n@%p1 bra LOOP;",
        WAIT,
        "st.global.u32 [%mine], %r12;",
    ]);
    innocent(&body, threads(128));
}

#[test]
fn fragments_of_a_in_flight() {
    let two = [&zeros(10), &zeros(20), &zeros(40), &zeros(50), FENCE].join("\n");
    let (first, second) = (product_of(10, 40, "%p7"), product_of(20, 50, "%p7"));
    let body = |wait: &str, then: &str| with_products(&[&two, &first, COMMIT, &second, COMMIT, wait, then]);
    let write = "cvt.rn.f16x2.f32 %r41, %r80, %r80; // here";
    let what = "%r41 is written while a wgmma reads it as a part of A";
    guilty_at(&body("", write), threads(128), 0, 0, &[what]);
    innocent(&body(WAIT1, write), threads(128));
    let later = "mov.u32 %r52, %t; // here";
    let what = "%r52 is written while a wgmma reads it as a part of A";
    guilty_at(&body(WAIT1, later), threads(128), 0, 0, &[what]);
    innocent(&body(WAIT, later), threads(128));
    guilty_at(&body("", "add.u32 %r60, %r43, 1; // here"), threads(128), 0, 0, &["%r43 is read while"]);
    // Other products may read them, and a copy of them is just a value.
    innocent(
        &body(&product_of(20, 40, "%p7"), "mov.b32 %r60, %r41;\nst.global.u32 [%mine], %r60;"),
        threads(128),
    );
    // Accumulators become a part of A.
    let chained = format!("{} // here", product_of(20, 10, "%p7"));
    let what = "%r10 is read while a wgmma accumulates in it";
    guilty_at(&with_products(&[&two, &first, COMMIT, &chained]), threads(128), 0, 0, &[what]);
    innocent(&with_products(&[&two, &first, COMMIT, WAIT, FENCE, &chained]), threads(128));
}

#[test]
fn a_fence_before_products() {
    let marked = format!("{} // here", product_of(10, 40, "%p7"));
    let end = format!("{COMMIT}\n{WAIT}");
    let (d, a) = (zeros(10), zeros(40));
    guilty_at(&with_products(&[&d, &a, &marked, &end]), threads(128), 0, 0, &["no wgmma.fence before"]);
    innocent(&with_products(&[&d, &a, FENCE, &marked, &end]), threads(128));
    let late = with_products(&[&d, FENCE, &a, &marked, &end]);
    guilty_at(
        &late,
        threads(128),
        0,
        0,
        &["%r40 was accessed by other instructions since the last wgmma.fence"],
    );
    // Copies of what was computed before it are no accesses.
    let copies: String = (0..4).map(|i| format!("mov.b32 %r{}, %r{};\n", 40 + i, 60 + i)).collect();
    innocent(&with_products(&[&d, &zeros(60), FENCE, &copies, &marked, &end]), threads(128));
    guilty_at(
        &with_products(&[&d, FENCE, &zeros(60), &copies, &marked, &end]),
        threads(128),
        0,
        0,
        &["%r40 was accessed"],
    );
    // Between a product's results, once they are read, and the next product.
    let read = "st.global.u32 [%mine], %r13;";
    let first = product_of(10, 40, "%p7");
    let again = |fence: &str| with_products(&[&d, &a, FENCE, &first, &end, read, fence, &marked, &end]);
    guilty_at(&again(""), threads(128), 0, 0, &["%r13 was accessed"]);
    innocent(&again(FENCE), threads(128));
}

#[test]
fn products_are_of_whole_warps() {
    let body = |guard: &str| {
        with_products(&[
            &zeros(10),
            "setp.lt.u32 %p1, %t, 40;",
            FENCE,
            &format!("{guard} {} // here", product(10, "%p7")),
            COMMIT,
            WAIT,
        ])
    };
    guilty_at(
        &body("@%p1"),
        threads(128),
        0,
        32,
        &["the instruction needs all lanes of the warp, and 0x000000ff execute it"],
    );
    innocent(&body("@%p7"), threads(128));
    innocent(&body("@%p8"), threads(128));
}

/// A word of shared memory whose lower half alone was written, and what is done with it.
fn half_a_word(then: &str) -> String {
    format!(
        "mov.u32 %r1, 5;\nst.shared.u16 [%s], %r1;\nmov.u32 %r3, 0;\nbar.sync 0;\nld.shared.b32 %r2, [%s];\n{then}\n\
         st.global.u32 [%mine], %r3;"
    )
}

#[test]
fn a_word_of_which_a_part_was_written() {
    for then in [
        "and.b32 %r3, %r2, 0xffff;",
        "bfe.u32 %r3, %r2, 0, 16;",
        "prmt.b32 %r3, %r2, 0, 0x4410;",
        "cvt.u32.u16 %r3, %r2;",
        "{ .reg .b16 %low, %high; mov.b32 {%low, %high}, %r2; cvt.u32.u16 %r3, %low; }",
        "shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;\nand.b32 %r3, %r3, 0xffff;",
        "st.global.u16 [%mine], %r2;",
    ] {
        innocent(&half_a_word(then), threads(32));
        let nobody = half_a_word(then).replace("st.shared.u16 [%s], %r1;", "");
        guilty(&nobody, threads(32), &["is used, whose value comes from", "of which nobody had written all"]);
    }
    // What uses all of it.
    let words = ["%r2 is used", "4 bytes of shared memory at 0x", "of which nobody had written all"];
    guilty(&half_a_word("ld.shared.u32 %r3, [%r2];"), threads(32), &words);
    guilty(&half_a_word("st.shared.b32 [%s], %r2;"), threads(32), &words);
    let product = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r4, %r5, %r6, %r7}, {%r2, %r1}, {%r1}, {%r3, %r3, %r3, %r3};\n\
        mov.b32 %r3, %r4;";
    guilty(&half_a_word(product), threads(32), &["is used", "of which nobody had written all"]);
}
