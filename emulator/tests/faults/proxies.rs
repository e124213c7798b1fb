//! Memory that the generic proxy wrote and the async proxy accesses.

use super::kernel::{ctas, guilty, innocent, needs, threads};

#[test]
fn a_bulk_store_of_what_threads_wrote() {
    let body = "st.shared.v4.u32 [%s], {%t, %t, %t, %t};\n⟦fence.proxy.async.shared::cta;⟧\nbar.sync 0;\n\
        setp.ne.u32 %p1, %t, 0;\n@%p1 exit;\ncp.async.bulk.global.shared::cta.bulk_group [%out], [buffer], 64;\n\
        cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;";
    needs(body, threads(64), &["generic proxy", "no fence.proxy.async", "thread 0 wrote them"]);
    // The fence may also stand behind the barrier.
    let body =
        body.replace("⟦fence.proxy.async.shared::cta;⟧\nbar.sync 0;", "bar.sync 0;\nfence.proxy.async;");
    innocent(&body, threads(64));
}

#[test]
fn a_product_of_what_threads_wrote() {
    let zeros: String = (0..4).map(|i| format!("mov.b32 %f{i}, 0;\n")).collect();
    let body = format!(
        "{zeros}st.shared.v4.u32 [%s], {{0, 0, 0, 0}};\nst.shared.v4.u32 [%s+2048], {{0, 0, 0, 0}};\n⟦fence.proxy.async;⟧\n\
         bar.sync 0;\nmov.u32 %r1, buffer;\nshr.u32 %r1, %r1, 4;\ncvt.u64.u32 %d1, %r1;\n\
         or.b64 %d1, %d1, 0x1000080000;\nsetp.eq.u32 %p1, %t, %t;\nwgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %d1, %d1, %p1, 1, 1, 0, 0;\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
    );
    needs(&body, threads(128), &["generic proxy", "no fence.proxy.async"]);
}

#[test]
fn a_bulk_load_over_what_threads_wrote() {
    let body = "setp.eq.u32 %p1, %t, 0;\n@%p1 mbarrier.init.shared.b64 [bar], 1;\nst.shared.u32 [%s], 1;\n⟦fence.proxy.async;⟧\n\
        bar.sync 0;\n@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;\n\
        @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buffer], [%out], 64, [bar];\n\
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;\n@!%p3 bra WAIT;";
    needs(body, threads(32), &["generic proxy", "no fence.proxy.async"]);
}

#[test]
fn a_fence_of_one_lane() {
    // It is of what the lane knows: what others wrote must have come to it before.
    let body = |first: &str, second: &str| {
        format!(
            "st.shared.v4.u32 [%s], {{%t, %t, %t, %t}};\nsetp.eq.u32 %p1, %t, 0;\n{first}\n{second}\n@!%p1 exit;\n\
             cp.async.bulk.global.shared::cta.bulk_group [%out], [buffer], 64;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
        )
    };
    let (fence, all) = ("@%p1 fence.proxy.async.shared::cta;", "fence.proxy.async.shared::cta;");
    for (barrier, count) in [("bar.sync 0;", 64), ("bar.warp.sync -1;", 32)] {
        innocent(&body(barrier, fence), threads(count));
        innocent(&body(all, barrier), threads(count));
        guilty(&body(fence, barrier), threads(count), &["no fence.proxy.async", "wrote them"]);
    }
    // What it wrote itself.
    let own = body(fence, "").replace("[buffer], 64", "[buffer], 16");
    innocent(&own, threads(32));
}

#[test]
fn a_bulk_store_of_what_stmatrix_wrote() {
    let body = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%s], {%t};\n⟦fence.proxy.async;⟧\nbar.warp.sync -1;\nsetp.ne.u32 %p1, %t, 0;\n\
        @%p1 exit;\ncp.async.bulk.global.shared::cta.bulk_group [%out], [buffer], 128;\ncp.async.bulk.commit_group;\n\
        cp.async.bulk.wait_group 0;";
    needs(body, threads(32), &["generic proxy", "no fence.proxy.async"]);
}

/// CTA 0 writes, tells CTA 1, and that reads: each by one thread.
fn passed(write: &str, read: &str) -> String {
    format!(
        "setp.ne.u32 %p1, %t, 0;\n@%p1 exit;\nsetp.eq.u32 %p1, %cta, 1;\n@%p1 bra LOOK;\n{write}\n\
         st.release.gpu.global.u32 [%out+2048], 1;\nexit;\nLOOK: mbarrier.init.shared.b64 [bar], 1;\nfence.proxy.async;\n\
         AGAIN: ld.acquire.gpu.global.u32 %r1, [%out+2048];\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 bra AGAIN;\n{read}"
    )
}

#[test]
fn a_bulk_load_of_what_another_cta_wrote() {
    let load = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;\n\
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buffer], [%out], 64, [bar];\n\
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;\n@!%p3 bra WAIT;";
    // The fence stands on either side.
    needs(
        &passed("st.global.u32 [%out], 7;\n⟦fence.proxy.async;⟧", load),
        ctas(2, 32),
        &["no fence.proxy.async"],
    );
    let after = format!("⟦fence.proxy.async;⟧\n{load}");
    needs(&passed("st.global.u32 [%out], 7;", &after), ctas(2, 32), &["no fence.proxy.async"]);
}

#[test]
fn a_bulk_store_that_another_cta_reads() {
    let store = |wait: &str| {
        format!(
            "st.shared.v4.u32 [buffer], {{1, 2, 3, 4}};\nfence.proxy.async;\n\
             cp.async.bulk.global.shared::cta.bulk_group [%out], [buffer], 16;\ncp.async.bulk.commit_group;\n\
             cp.async.bulk.wait_group{wait} 0;"
        )
    };
    let read = "ld.global.u32 %r2, [%out];";
    innocent(&passed(&store(""), read), ctas(2, 32));
    let early = passed(&store(".read"), read).replace("1;\nexit;", "1;\ncp.async.bulk.wait_group 0;\nexit;");
    guilty(&early, ctas(2, 32), &["race", "global memory", "was not waited for (cp.async.bulk.wait_group)"]);
}

#[test]
fn a_fence_of_other_memory() {
    let store = |fence: &str| {
        format!(
            "st.shared.v4.u32 [%s], {{%t, %t, %t, %t}};\nfence.proxy.async{fence};\nbar.sync 0;\nsetp.ne.u32 %p1, %t, 0;\n\
             @%p1 exit;\ncp.async.bulk.global.shared::cta.bulk_group [%out], [buffer], 64;\ncp.async.bulk.commit_group;\n\
             cp.async.bulk.wait_group 0;"
        )
    };
    let load = |fence: &str| {
        format!(
            "st.global.u32 [%mine], %t;\nfence.proxy.async{fence};\nbar.sync 0;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 exit;\n\
             mbarrier.init.shared.b64 [bar], 1;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;\n\
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buffer], [%out], 64, [bar];\n\
             WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;\n@!%p3 bra WAIT;"
        )
    };
    for fence in ["", ".shared::cta", ".shared::cluster"] {
        innocent(&store(fence), threads(64));
    }
    for fence in ["", ".global"] {
        innocent(&load(fence), threads(64));
    }
    guilty(&store(".global"), threads(64), &["of shared memory", "no fence.proxy.async"]);
    guilty(&load(".shared::cta"), threads(64), &["of global memory", "no fence.proxy.async"]);
    // One of each does for both.
    innocent(&store(".global;\nfence.proxy.async.shared::cta"), threads(64));
    innocent(&load(".shared::cta;\nfence.proxy.async.global"), threads(64));
}

#[test]
fn a_copy_by_one_lane_of_what_the_others_wrote() {
    let store = "st.shared.v4.u32 [%s], {%t, %t, %t, %t};\nfence.proxy.async.shared::cta;\n⟦bar.warp.sync -1;⟧\nsetp.ne.u32 %p1, %t, 0;\n\
        @%p1 exit;\ncp.async.bulk.global.shared::cta.bulk_group [%out], [buffer], 64;\ncp.async.bulk.commit_group;\n\
        cp.async.bulk.wait_group 0;";
    needs(store, threads(32), &["race", "thread 1 wrote them", "no bar.warp.sync"]);
    // All have arrived at an mbarrier, and waited there.
    let met = "mbarrier.arrive.shared.b64 _, [bar];\nWAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n@!%p2 bra WAIT;";
    let init = "setp.eq.u32 %p3, %t, 0;\n@%p3 mbarrier.init.shared.b64 [bar], 32;\nbar.warp.sync -1;\n";
    innocent(&format!("{init}{}", store.replace("⟦bar.warp.sync -1;⟧", met)), threads(32));
    // All have arrived, and the one that copies has waited.
    let waited = "mbarrier.arrive.shared.b64 _, [bar];\nsetp.ne.u32 %p1, %t, 0;\n@%p1 exit;\n\
        WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n@!%p2 bra WAIT;";
    innocent(&format!("{init}{}", store.replace("⟦bar.warp.sync -1;⟧", waited)), threads(32));
}
