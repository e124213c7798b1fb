//! Copies and products that are not waited for.

use super::kernel::{cluster, guilty, innocent, needs, threads};

/// Thread 0 initialises `bar` for one arrival.
const ONE: &str = "setp.eq.u32 %p1, %t, 0;\nsetp.ne.u32 %p2, %t, 0;\n@%p1 mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\n";
/// Thread 0 copies 64 bytes of global memory to `buffer`.
const LOAD: &str = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;\n\
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buffer], [%out], 64, [bar];\n";
const WAIT: &str = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;\n@!%p3 bra WAIT;\n";

#[test]
fn cp_async() {
    let copy = "cp.async.ca.shared.global [%s], [%out], 4;\n";
    let words = ["race", "cp.async at PTX line", "cp.async.wait_group"];
    needs(&format!("{copy}⟦cp.async.wait_all;⟧\nld.shared.u32 %r1, [%s];"), threads(32), &words);
    needs(
        &format!("{copy}⟦cp.async.commit_group;\ncp.async.wait_group 0;⟧\nst.shared.u32 [%s], 1;"),
        threads(32),
        &words,
    );
    let two =
        format!("{copy}cp.async.commit_group;\n{}cp.async.commit_group;\n", copy.replace("[%s]", "[%s+4]"));
    innocent(&format!("{two}cp.async.wait_group 1;\nld.shared.u32 %r1, [%s];"), threads(32));
    guilty(&format!("{two}cp.async.wait_group 1;\nld.shared.u32 %r1, [%s+4];"), threads(32), &words);
    // The wait is one's own alone: a barrier must follow for others.
    let other = format!("{copy}cp.async.wait_all;\n⟦bar.sync 0;⟧\nld.shared.u32 %r1, [buffer];");
    needs(&other, threads(64), &["race", "cp.async"]);
}

#[test]
fn cp_async_that_arrives_at_an_mbarrier() {
    let body = |arrive: &str| {
        format!(
            "setp.eq.u32 %p1, %t, 0;\n@%p1 mbarrier.init.shared.b64 [bar], 32;\nbar.sync 0;\nsetp.lt.u32 %p2, %t, 32;\n\
             @%p2 bra WAIT;\ncp.async.ca.shared.global [%s], [%out], 16;\n{arrive} [bar];\nexit;\n{WAIT}\
             ld.shared.u32 %r1, [%s+512];"
        )
    };
    innocent(&body("cp.async.mbarrier.arrive.noinc.shared.b64"), threads(64));
    guilty(&body("mbarrier.arrive.shared::cta.b64 _,"), threads(64), &["race", "the cp.async at PTX line"]);
}

#[test]
fn bulk_loads() {
    let read = format!("{ONE}{LOAD}⟦{WAIT}⟧\n@%p1 ld.shared.u32 %r1, [buffer];");
    needs(&read, threads(32), &["race", "destination of the copy at PTX line", "mbarrier phase"]);
    let again = format!("{ONE}{LOAD}⟦{WAIT}⟧\n@%p1 st.shared.u32 [buffer], 1;");
    needs(&again, threads(32), &["race", "mbarrier phase"]);
    // What others read before must have been read.
    let full = format!(
        "{ONE}st.shared.v4.u32 [%s], {{%t, %t, %t, %t}};\nfence.proxy.async;\nbar.sync 0;\nld.shared.u32 %r1, [%s];\n"
    );
    let elsewhere = LOAD.replace("[buffer]", "[buffer+512]");
    needs(&format!("{full}⟦bar.sync 0;⟧\n{elsewhere}{WAIT}"), threads(64), &["race", "shared memory"]);
}

#[test]
fn an_earlier_phase_is_not_enough() {
    let body = |parity: u32| {
        format!(
            "{ONE}{LOAD}{WAIT}{}WAIT2: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], {parity};\n@!%p3 bra WAIT2;\n\
             @%p1 ld.shared.u32 %r1, [buffer+64];",
            LOAD.replace("[buffer]", "[buffer+64]")
        )
    };
    innocent(&body(1), threads(32));
    guilty(
        &body(1).replace(
            "WAIT2: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 1;\n@!%p3 bra WAIT2;\n",
            "",
        ),
        threads(32),
        &["race", "mbarrier phase"],
    );
}

#[test]
fn bulk_stores() {
    let begin = "st.shared.v4.u32 [%s], {%t, %t, %t, %t};\nfence.proxy.async;\nbar.sync 0;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 exit;\n\
        cp.async.bulk.global.shared::cta.bulk_group [%out], [buffer], 64;\ncp.async.bulk.commit_group;\n";
    let end = "cp.async.bulk.wait_group 0;";
    let again = format!("{begin}⟦cp.async.bulk.wait_group.read 0;⟧\nst.shared.u32 [buffer], 1;\n{end}");
    needs(&again, threads(32), &["race", "still reads them", "cp.async.bulk.wait_group.read"]);
    let read =
        |wait: &str| format!("{begin}cp.async.bulk.wait_group{wait} 0;\nld.global.u32 %r1, [%out];\n{end}");
    innocent(&read(""), threads(32));
    guilty(
        &read(".read"),
        threads(32),
        &["race", "global memory", "was not waited for (cp.async.bulk.wait_group)"],
    );
    let leave = format!("{begin}⟦cp.async.bulk.wait_group.read 0;⟧");
    needs(&leave, threads(32), &["a thread ends", "cp.async.bulk.wait_group.read"]);
}

#[test]
fn stores_to_another_cta() {
    let body = |wait: &str| {
        format!(
            "setp.eq.u32 %p1, %t, 0;\n@%p1 mbarrier.init.shared.b64 [bar], 1;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n\
             mov.u32 %r1, %cluster_ctarank;\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 bra RECEIVE;\nmapa.shared::cluster.u32 %r2, %s, 0;\n\
             mov.u32 %r3, bar;\nmapa.shared::cluster.u32 %r3, %r3, 0;\n\
             st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r2], %t, [%r3];\nbra DONE;\n\
             RECEIVE: @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;\n{wait}\
             DONE: barrier.cluster.arrive;\nbarrier.cluster.wait;\n@%p2 ld.shared.u32 %r4, [%s];"
        )
    };
    innocent(&body(WAIT), cluster(2, 32));
    guilty(&body(""), cluster(2, 32), &["race", "destination of the copy at PTX line", "st.async"]);
}

#[test]
fn products_that_still_read() {
    // A and B of zeros at the beginning of the buffer, without a swizzle.
    let zeros: String = (0..4).map(|i| format!("mov.b32 %f{i}, 0;\n")).collect();
    let body = format!(
        "{zeros}st.shared.v4.u32 [%s], {{0, 0, 0, 0}};\nst.shared.v4.u32 [%s+2048], {{0, 0, 0, 0}};\nfence.proxy.async;\nbar.sync 0;\n\
         mov.u32 %r1, buffer;\nshr.u32 %r1, %r1, 4;\ncvt.u64.u32 %d1, %r1;\nor.b64 %d1, %d1, 0x1000080000;\n\
         setp.eq.u32 %p1, %t, %t;\nwgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %d1, %d1, %p1, 1, 1, 0, 0;\n\
         wgmma.commit_group.sync.aligned;\n⟦wgmma.wait_group.sync.aligned 0;⟧\nbar.sync 0;\nst.shared.u32 [%s], 1;\n\
         wgmma.wait_group.sync.aligned 0;"
    );
    needs(&body, threads(128), &["race", "the wgmma at PTX line", "still reads them (wgmma.wait_group)"]);
}

#[test]
fn tensor_maps_that_are_none() {
    let copy = |at: &str| {
        format!(
            "{ONE}mov.u64 %d1, 0;\nmov.u32 %r1, 0;\n@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;\n@%p1 \
             cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [buffer], [{at}, {{%r1}}], [bar];\n{WAIT}"
        )
    };
    guilty(&copy("%out"), threads(32), &["the tensor map at 0x"]);
    guilty(&copy("%out+32"), threads(32), &["a tensor map at 0x", "must be a multiple of 64"]);
    guilty(&copy("%d1"), threads(32), &["global memory at 0x0: not allocated"]);
}

#[test]
fn a_bulk_load_into_a_cta_that_ends() {
    let body = format!("{ONE}{LOAD}⟦{WAIT}⟧");
    needs(&body, threads(32), &["shared memory of a CTA that ends", "mbarrier phase"]);
}
