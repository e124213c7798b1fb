//! mbarriers.

use super::pair::{needs, right, wrong};

#[test]
fn an_mbarrier_orders_arrivals_before_waits() {
    let body = |arrive: &str, wait: &str| {
        format!(
            "setp.eq.u32 %p1, %t, 0;\n@%p1 mbarrier.init.shared.b64 [bar], 32;\nbar.sync 0;\nsetp.lt.u32 %p2, %t, 32;\n\
             @%p2 bra WAIT;\nst.shared.u32 [%s], %t;\nmbarrier.arrive{arrive}.shared::cta.b64 _, [bar];\n\
             st.shared.u32 [%s+4], %t;\nexit;\n\
             WAIT: mbarrier.try_wait.parity{wait}.shared::cta.b64 %p3, [bar], 0;\n@!%p3 bra WAIT;\nld.shared.u32 %r1, [%s+512];"
        )
    };
    right(&body("", ""), 64, 1);
    wrong(&body(".relaxed.cta", ""), 64, 1, &["race", "thread 32 wrote them"]);
    wrong(&body("", ".relaxed.cta"), 64, 1, &["race", "thread 32 wrote them"]);
    // What was written behind the arrival.
    wrong(&body("", "").replace("[%s+512]", "[%s+516]"), 64, 1, &["race", "[%s+4]"]);
}

#[test]
fn an_mbarrier_is_initialised_before_others_use_it() {
    let body = "setp.eq.u32 %p1, %t, 0;\n@%p1 mbarrier.init.shared.b64 [bar], 1;\n⟦bar.sync 0;⟧\nsetp.eq.u32 %p1, %t, 32;\n\
        @%p1 mbarrier.arrive.shared.b64 _, [bar];";
    needs(body, 64, 1, &["race", "the mbarrier at shared address", "mbarrier.init"]);
}
