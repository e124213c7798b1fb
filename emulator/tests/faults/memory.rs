//! What shared memory holds.

use super::pair::{needs, right, wrong};

#[test]
fn shared_memory_that_nobody_wrote() {
    needs(
        "⟦st.shared.u32 [%s], %t;⟧\nld.shared.u32 %r1, [%s];",
        32,
        1,
        &["nobody wrote", "shared memory", "thread 0"],
    );
    // One byte of four is missing.
    needs(
        "st.shared.u16 [%s], 1;\nst.shared.u8 [%s+2], 1;\n⟦st.shared.u8 [%s+3], 1;⟧\nld.shared.u32 %r1, [%s];",
        32,
        1,
        &["4 bytes of shared memory", "nobody wrote all of them"],
    );
    right(
        "st.shared.v4.u32 [%s], {%t, %t, %t, %t};\nld.shared.u8 %r1, [%s+7];\nld.shared.u64 %d1, [%s+8];",
        32,
        1,
    );
    wrong(
        "st.shared.v2.u32 [%s], {%t, %t};\nld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%s];",
        32,
        1,
        &["16 bytes"],
    );
}

#[test]
fn an_mbarrier_is_no_memory() {
    let begin = "setp.ne.u32 %p1, %t, 0;\n@%p1 exit;\nmbarrier.init.shared.b64 [bar], 1;\n";
    wrong(&format!("{begin}ld.shared.u64 %d1, [bar];"), 32, 1, &["of an mbarrier"]);
    wrong(&format!("{begin}st.shared.u32 [bar+4], 1;"), 32, 1, &["of an mbarrier"]);
    right(
        &format!(
            "{begin}mbarrier.inval.shared.b64 [bar];\nst.shared.u64 [bar], 1;\nld.shared.u32 %r1, [bar];"
        ),
        32,
        1,
    );
}
