//! Clusters: shared memory of other CTAs, their mbarriers, multicast.

use super::{Kernel, bytes, store, wait};
use crate::random::Random;

pub(super) fn kernels() -> Vec<Kernel> {
    let mut random = Random::new(6);
    let mut words = || bytes((0..1024).map(|_| random.bits() as u32));
    let barrier = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
    let next = "mov.u32 %r0, %cluster_ctarank;\nadd.u32 %r1, %r0, 1;\nand.b32 %r1, %r1, 3;\n";
    let init = "add.u32 %r2, %shared, 2048;\nsetp.ne.u32 %p0, %id, 0;\n@%p0 bra READY;\nmbarrier.init.shared.b64 [%r2], 1;\n\
        fence.mbarrier_init.release.cluster;\nREADY:\n";
    let mut kernels = Vec::new();

    let body = format!(
        "{next}mad.lo.u32 %r3, %id, 4, %shared;\nmad.lo.u32 %r4, %thread, 7, 3;\nst.shared.b32 [%r3], %r4;\n{barrier}\
         mapa.shared::cluster.u32 %r5, %r3, %r1;\nld.shared::cluster.b32 %r6, [%r5];\nld.shared::cluster.u8 %r7, [%r5+1];\n\
         cvt.u64.u32 %d0, %r3;\ncvta.shared.u64 %d0, %d0;\nmapa.u64 %d1, %d0, %r1;\nld.b32 %r8, [%d1];\n{barrier}\
         atom.shared::cluster.add.u32 %r9, [%r5], 5;\nred.shared::cluster.max.u32 [%r5], 100;\n\
         st.shared::cluster.b32 [%r5+128], %r4;\n{barrier}\
         ld.shared.b32 %r10, [%r3];\nld.shared.b32 %r11, [%r3+128];\n\
         mov.u32 %r12, %cluster_ctaid.x;\nmov.u32 %r13, %cluster_nctaid.x;\nmov.u32 %r14, %clusterid.x;\n\
         mov.u32 %r15, %nclusterid.x;\nmov.u32 %r16, %cluster_nctarank;\nmov.u32 %r17, %cluster_nctaid.y;\n{}",
        store(6, 12, 0)
    );
    kernels.push(cluster(Kernel::new("shared memory of a cluster", 12, body), 2048));

    let body = format!(
        "{next}{init}{barrier}setp.ne.u32 %p0, %id, 0;\n@%p0 bra EXPECTED;\n\
         mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 640;\nEXPECTED:\n{barrier}\
         mapa.shared::cluster.u32 %r4, %shared, %r1;\nmapa.shared::cluster.u32 %r5, %r2, %r1;\nmad.lo.u32 %r6, %id, 20, %r4;\n\
         mad.lo.u32 %r7, %thread, 3, 1;\nmad.lo.u32 %r8, %id, 16, %r4;\n\
         st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r8], {{%r7, %r0, %r1, %id}}, [%r5];\n\
         mad.lo.u32 %r8, %id, 4, %r4;\n\
         st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r8+512], %r7, [%r5];\n{}{barrier}\
         mad.lo.u32 %r8, %id, 16, %shared;\nld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r8];\n\
         mad.lo.u32 %r8, %id, 4, %shared;\nld.shared.b32 %r14, [%r8+512];\n{}",
        wait("%r2", 0, "ARRIVED"),
        store(10, 5, 0)
    );
    kernels.push(cluster(Kernel::new("st.async", 5, body), 4096));

    // Each CTA waits for arrivals of threads of the one before.
    let body = format!(
        "{next}add.u32 %r2, %shared, 2048;\nsetp.ne.u32 %p0, %id, 0;\n@%p0 bra READY;\nmbarrier.init.shared.b64 [%r2], 32;\n\
         fence.mbarrier_init.release.cluster;\nREADY:\n{barrier}mad.lo.u32 %r3, %id, 4, %shared;\n\
         mapa.shared::cluster.u32 %r4, %r3, %r1;\nmapa.shared::cluster.u32 %r5, %r2, %r1;\nst.shared::cluster.u32 [%r4], %thread;\n\
         mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];\nmov.u32 %n, 0;\nPOLL:\n\
         mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r2], 0;\n@!%p1 bra POLL;\n\
         ld.shared.b32 %r10, [%r3];\n{}{barrier}",
        store(10, 1, 0)
    );
    kernels.push(cluster(Kernel::new("arrivals at mbarriers of another CTA", 1, body), 4096));

    let body = format!(
        "{next}{init}{barrier}setp.ne.u32 %p0, %id, 0;\n@%p0 bra SENT;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r2], 512;\n\
         setp.ne.u32 %p0, %r0, 2;\n@%p0 bra SENT;\nmov.b16 %h0, 11;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%shared], [%in], 512, [%r2], %h0;\n\
         SENT:\nsetp.eq.u32 %p0, %r0, 2;\n@%p0 bra NONE;\n{}mad.lo.u32 %r3, %id, 16, %shared;\n\
         ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r3];\n{}NONE:\n{barrier}",
        wait("%r2", 0, "ARRIVED"),
        store(4, 4, 0)
    );
    kernels.push(cluster(Kernel::new("a bulk copy to several CTAs", 4, body).input(words()), 4096));

    let body = format!(
        "{next}{init}mad.lo.u32 %r3, %id, 16, %shared;\nmad.lo.u32 %r4, %thread, 5, 2;\n\
         st.shared.v4.b32 [%r3], {{%r4, %id, %cta, %r0}};\nfence.proxy.async;\n{barrier}\
         setp.ne.u32 %p0, %id, 0;\n@%p0 bra SENT;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r2], 512;\nSENT:\n{barrier}\
         setp.ne.u32 %p0, %id, 0;\n@%p0 bra DONE;\nadd.u32 %r6, %shared, 1024;\nmapa.shared::cluster.u32 %r6, %r6, %r1;\n\
         mapa.shared::cluster.u32 %r7, %r2, %r1;\n\
         cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [%shared], 512, [%r7];\nDONE:\n{}\
         ld.shared.v4.b32 {{%r8, %r9, %r10, %r11}}, [%r3+1024];\n{}{barrier}",
        wait("%r2", 0, "ARRIVED"),
        store(8, 4, 0)
    );
    kernels.push(cluster(Kernel::new("a bulk copy to another CTA", 4, body), 4096));
    kernels
}

/// Two clusters of four CTAs of a warp.
fn cluster(mut kernel: Kernel, shared: u32) -> Kernel {
    kernel.launch.grid = [8, 1, 1];
    kernel.launch.cluster = [4, 1, 1];
    kernel.launch.dynamic_shared = shared;
    kernel
}
