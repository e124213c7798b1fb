//! mbarriers.

use super::kernel::{guilty, innocent, needs, threads};

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
    innocent(&body("", ""), threads(64));
    guilty(&body(".relaxed.cta", ""), threads(64), &["race", "thread 32 wrote them"]);
    guilty(&body("", ".relaxed.cta"), threads(64), &["race", "thread 32 wrote them"]);
    // What was written behind the arrival.
    guilty(&body("", "").replace("[%s+512]", "[%s+516]"), threads(64), &["race", "[%s+4]"]);
}

#[test]
fn an_mbarrier_is_initialised_before_others_use_it() {
    let body = "setp.eq.u32 %p1, %t, 0;\n@%p1 mbarrier.init.shared.b64 [bar], 1;\n⟦bar.sync 0;⟧\nsetp.eq.u32 %p1, %t, 32;\n\
        @%p1 mbarrier.arrive.shared.b64 _, [bar];";
    needs(body, threads(64), &["race", "the mbarrier at shared address", "mbarrier.init"]);
}

#[test]
fn bytes_of_an_mbarrier() {
    let begin =
        "setp.ne.u32 %p1, %t, 0;\n@%p1 exit;\nmbarrier.init.shared.b64 [bar], 1;\nfence.proxy.async;\n";
    let copy =
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buffer], [%out], 64, [bar];\n";
    let wait = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;\n@!%p3 bra WAIT;";
    let body = format!("{begin}mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;\n{copy}{wait}");
    innocent(&body, threads(32));
    let unexpected = body.replace(".expect_tx", "").replace("[bar], 64;\n", "[bar];\n");
    guilty(&unexpected, threads(32), &["a CTA ends", "64 bytes", "never expected"]);
    let most = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 1048575;\n";
    innocent(&format!("{begin}{most}"), threads(32));
    let more = format!("{begin}{most}mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 1;");
    guilty(&more, threads(32), &["tx-count of 1048576"]);
}

#[test]
fn arrivals_at_an_mbarrier() {
    let begin = "setp.ne.u32 %p1, %t, 0;\n@%p1 exit;\nmbarrier.init.shared.b64 [bar], 2;\n";
    innocent(&format!("{begin}mbarrier.arrive.shared.b64 _, [bar], 2;"), threads(32));
    guilty(
        &format!("{begin}mbarrier.arrive.shared.b64 _, [bar], 3;"),
        threads(32),
        &["3 arrivals", "waits for 2 of 2"],
    );
}
