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

#[test]
fn an_mbarrier_is_initialised_once() {
    let body = "setp.ne.u32 %p1, %t, 0;\n@%p1 exit;\nmbarrier.init.shared.b64 [bar], 1;\n⟦mbarrier.inval.shared.b64 [bar];⟧\n\
        mbarrier.init.shared.b64 [bar], 2;";
    needs(body, threads(32), &["the mbarrier at shared address", "initialised again", "mbarrier.inval"]);
    // By every lane.
    guilty("mbarrier.init.shared.b64 [bar], 1;", threads(32), &["race", "8 bytes of shared memory"]);
}

#[test]
fn reductions_at_a_barrier_are_told_from_the_others() {
    let body = |first: &str, second: &str| {
        format!(
            "setp.lt.u32 %p1, %t, 32;\n@%p1 bra LOW;\n{first}\nbra END;\nLOW: {second}\nEND: mov.u32 %r2, %r1;"
        )
    };
    let reduce = "bar.red.popc.u32 %r1, 1, 64, %p1;";
    innocent(&body(reduce, reduce), threads(64));
    innocent(&body("bar.sync 1, 64;", "bar.sync 1, 64;"), threads(64));
    let words = ["barrier 1", "the warp reduces, and others that wait there do not"];
    guilty(&body(reduce, "bar.sync 1, 64;"), threads(64), &words);
    guilty(&body(reduce, "bar.arrive 1, 64;"), threads(64), &words);
    let words = ["the warp does not reduce, and others that wait there do"];
    guilty(&body("bar.sync 1, 64;", reduce), threads(64), &words);
}

#[test]
fn a_warpgroup_changes_its_registers_together() {
    let body = |skip: u32, then: &str| {
        format!(
            "setp.ge.u32 %p1, %t, {skip};\n@%p1 bra END;\nsetmaxnreg.dec.sync.aligned.u32 40;\n{then}\nEND:"
        )
    };
    innocent(&body(128, ""), threads(256));
    guilty(&body(96, ""), threads(128), &["setmaxnreg", "warp 3 ends, and warp 0"]);
    guilty(&body(96, "bar.sync 1, 96;\nsetmaxnreg.dec.sync.aligned.u32 32;"), threads(128), &["warp 3"]);
    // To different numbers.
    let two = "setp.ge.u32 %p1, %t, 32;\n@%p1 bra REST;\nsetmaxnreg.dec.sync.aligned.u32 40;\nbra END;\n\
        REST: setmaxnreg.dec.sync.aligned.u32 NUMBER;\nEND:";
    innocent(&two.replace("NUMBER", "40"), threads(128));
    guilty(&two.replace("NUMBER", "48"), threads(128), &["setmaxnreg to 48, where warp 0", "has 40"]);
}

#[test]
fn a_state_is_of_this_phase_or_the_one_before() {
    let body = |state: &str| {
        format!(
            "setp.ne.u32 %p1, %t, 0;\n@%p1 exit;\nmbarrier.init.shared.b64 [bar], 1;\n\
             mbarrier.arrive.shared.b64 %d1, [bar];\nmbarrier.arrive.shared.b64 %d2, [bar];\n\
             mbarrier.test_wait.shared.b64 %p3, [bar], {state};\n@%p3 st.global.u32 [%out], 1;"
        )
    };
    innocent(&body("%d2"), threads(32));
    guilty(&body("%d1"), threads(32), &["a state of phase 0 of an mbarrier, of which phase 2 has begun"]);
}
