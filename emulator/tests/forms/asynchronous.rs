//! Stores and reductions that complete on an mbarrier of the cluster.

use tilewright_emulator::{Arch, Emulator, Fault, Launch, Module};

/// Runs a kernel of one cluster of two CTAs of 32 threads; gives 64 words.
fn run(body: &str) -> Result<Vec<u32>, Fault> {
    let text = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out)\n{{\n.reg .pred %p<4>;\n\
         .reg .b32 %r<16>, %t, %peer, %there, %bar;\n.reg .b64 %d<4>, %out;\n.shared .align 16 .b8 buffer[256];\n\
         .shared .align 8 .b64 bar;\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmov.u32 %peer, %cluster_ctarank;\n\
         mad.lo.u32 %r0, %peer, 32, %t;\nmad.wide.u32 %d0, %r0, 4, %out;\nxor.b32 %peer, %peer, 1;\n\
         mov.u32 %r1, buffer;\nmapa.shared::cluster.u32 %there, %r1, %peer;\nmov.u32 %r2, bar;\n\
         mapa.shared::cluster.u32 %bar, %r2, %peer;\nmad.lo.u32 %r3, %t, 8, %r1;\nmov.u64 %d1, 5;\nst.shared.u64 [%r3], %d1;\n\
         setp.ne.u32 %p0, %t, 0;\n@%p0 bra READY;\nmbarrier.init.shared.b64 [bar], 1;\n\
         READY: barrier.cluster.arrive;\nbarrier.cluster.wait;\n{body}\n\
         barrier.cluster.arrive;\nbarrier.cluster.wait;\nret;\n}}\n"
    );
    let module = Module::load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let emulator = Emulator::new(Arch::Sm90a);
    let out = emulator.allocate(256).expect("it is little");
    let launch = Launch { grid: [2, 1, 1], cluster: [2, 1, 1], threads: [32, 1, 1], ..Launch::default() };
    emulator.launch(&module.kernel("k").expect("it is called so"), &launch, &out.to_le_bytes())?;
    let mut bytes = [0; 256];
    emulator.read(out, &mut bytes).expect("just allocated");
    Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

const EXPECT: &str = "@%p0 bra ON;\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;\nON:\n";
const WAIT: &str = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;\n@!%p1 bra WAIT;\n";
const READ: &str = "ld.shared.u32 %r5, [buffer];\nst.global.u32 [%d0], %r5;\n";

fn reduction(op: &str) -> String {
    format!(
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op} [%there], %t, [%bar];\n"
    )
}

#[test]
fn reductions_arrive_at_the_peer() {
    for (op, expected) in
        [("add.u32", 5 + 31 * 16), ("max.s32", 31), ("min.u32", 0), ("or.b32", 31), ("and.b32", 0)]
    {
        let found = run(&format!("{EXPECT}{}{WAIT}{READ}", reduction(op)))
            .unwrap_or_else(|fault| panic!("{op}: {fault}"));
        assert_eq!(found, [expected; 64], "{op}");
    }
    let wide = "cvt.u64.u32 %d2, %t;\nred.async.relaxed.cluster.mbarrier::complete_tx::bytes.add.u64 [%there], %d2, [%bar];\n";
    let found = run(&format!("{}{wide}{WAIT}{READ}", EXPECT.replace("128", "256")))
        .unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(found, [5 + 31 * 16; 64]);
}

#[test]
fn reductions_are_waited_for() {
    let race = run(&format!("{EXPECT}{}{READ}", reduction("add.u32"))).expect_err("a race").to_string();
    assert!(race.contains("race"), "{race}");
    let own = reduction("add.u32").replace("[%bar]", "[%r2]");
    let apart = run(&format!("{EXPECT}{own}{WAIT}{READ}")).expect_err("they are apart").to_string();
    assert!(apart.contains("a destination and an mbarrier are in different CTAs"), "{apart}");
}

#[test]
fn bulk_reductions_add_to_the_peer() {
    let copy = |op: &str| {
        format!(
            "fence.proxy.async.shared::cta;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n@%p0 bra SENT;\nmov.u32 %r6, 128;\n\
             cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op} \
             [%there], [%r1], %r6, [%bar];\nSENT:\n"
        )
    };
    // Half of the buffer is sent; what arrives goes behind it.
    let behind = "add.u32 %there, %there, 128;\n";
    let read = READ.replace("[buffer]", "[buffer+128]");
    let found = run(&format!("{EXPECT}{behind}{}{WAIT}{read}", copy("add.u64")))
        .unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(found, [10; 64]);
    let found = run(&format!("{EXPECT}{behind}{}{WAIT}{read}", copy("xor.b32")))
        .unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(found, [0; 64]);
    let race = run(&format!("{EXPECT}{behind}{}{read}", copy("add.u64"))).expect_err("a race").to_string();
    assert!(race.contains("race"), "{race}");
}
