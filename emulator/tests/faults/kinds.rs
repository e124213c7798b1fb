//! Programs tell faults apart by their kind.

use tilewright_emulator::{FaultKind, Launch};

use super::kernel::{accused, cluster, ctas, threads};

const BULK: &str = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes ";

#[test]
fn faults_have_kinds() {
    let one = threads(32);
    for (kind, launch, body) in [
        (FaultKind::Race, threads(64), "st.shared.u32 [buffer], %t;".to_owned()),
        (FaultKind::Race, ctas(2, 32), "st.global.u32 [%out], %cta;".to_owned()),
        (FaultKind::Race, one, "ld.global.nc.u32 %r1, [%mine];\nst.global.u32 [%mine], %t;".to_owned()),
        (
            FaultKind::Race,
            one,
            "st.shared.u32 [%s], %t;\nbar.warp.sync -1;\nsetp.eq.u32 %p1, %t, 0;\n\
             @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [buffer], 16;"
                .to_owned(),
        ),
        (FaultKind::Deadlock, threads(64), "bar.sync 1, 96;".to_owned()),
        (FaultKind::Address, one, "st.global.u32 [%out+4096], %t;".to_owned()),
        (FaultKind::Address, one, "mov.u64 %d1, 0;\nld.u32 %r1, [%d1];".to_owned()),
        (FaultKind::Address, one, "st.shared.u32 [buffer+4100], %t;".to_owned()),
        (FaultKind::Misaligned, one, "ld.shared.u32 %r1, [buffer+2];".to_owned()),
        (FaultKind::Misaligned, one, "mbarrier.init.shared.b64 [bar+4], 1;".to_owned()),
        (FaultKind::Misaligned, one, format!("mov.u32 %r1, 16;\n{BULK}[buffer], [%out+8], %r1, [bar];")),
        (FaultKind::Misuse, one, format!("mov.u32 %r1, 24;\n{BULK}[buffer], [%out], %r1, [bar];")),
        (FaultKind::Uninitialized, one, "st.global.u32 [%mine], %r5;".to_owned()),
        (FaultKind::Uninitialized, one, "ld.shared.u32 %r1, [%s];\nst.global.u32 [%mine], %r1;".to_owned()),
        (FaultKind::Uninitialized, one, "atom.shared.add.u32 %r1, [buffer], 1;".to_owned()),
        (FaultKind::Trap, one, "trap;".to_owned()),
        (FaultKind::Misuse, one, "mbarrier.arrive.shared.b64 _, [bar];".to_owned()),
        (FaultKind::Misuse, one, "bar.sync 1, 63;".to_owned()),
        (FaultKind::Launch, cluster(3, 2048), String::new()),
    ] {
        let fault = accused(&body, &launch);
        assert_eq!(fault.kind, kind, "{body}: {fault}");
    }
    let fault = accused("trap;", &Launch { dynamic_shared: 1 << 20, ..one });
    assert_eq!(fault.kind.name(), "launch");
}
