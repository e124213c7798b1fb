//! What shared memory holds.

use super::kernel::{guilty, innocent, needs, threads};

#[test]
fn shared_memory_that_nobody_wrote() {
    needs(
        "⟦st.shared.u32 [%s], %t;⟧\nld.shared.u32 %r1, [%s];",
        threads(32),
        &["nobody wrote", "shared memory", "thread 0"],
    );
    // One byte of four is missing.
    needs(
        "st.shared.u16 [%s], 1;\nst.shared.u8 [%s+2], 1;\n⟦st.shared.u8 [%s+3], 1;⟧\nld.shared.u32 %r1, [%s];",
        threads(32),
        &["4 bytes of shared memory", "nobody wrote all of them"],
    );
    innocent(
        "st.shared.v4.u32 [%s], {%t, %t, %t, %t};\nld.shared.u8 %r1, [%s+7];\nld.shared.u64 %d1, [%s+8];",
        threads(32),
    );
    guilty(
        "st.shared.v2.u32 [%s], {%t, %t};\nld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%s];",
        threads(32),
        &["16 bytes"],
    );
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
