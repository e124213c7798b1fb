//! What tiny kernels count, worked out by hand.

use tilewright_emulator::{
    Arch, Class, Counters, Emulator, GlobalTraffic, Launch, Module, SharedTraffic, Waits,
};

/// Bytes of the buffer that every kernel gets.
const BUFFER: usize = 1 << 16;

/// Runs a kernel of this body in one CTA: `%out` is the buffer's address, `%t` the thread, `%s` the address of 32 KiB of
/// shared memory, `%at` that of the thread's byte in it.
fn count_with(emulator: &Emulator, threads: u32, body: &str) -> Counters {
    let text = format!(
        ".version 8.1\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 out)\n{{\n.reg .pred %p<9>;\n.reg .b32 %r<20>;\n.reg .f32 %f<9>;\n\
         .reg .b64 %d<20>;\n.reg .b64 %out;\n.reg .b32 %t, %s, %at;\n\
         .shared .align 1024 .b8 buffer[32768];\n.shared .align 8 .b64 bars[4];\n\
         ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmov.u32 %s, buffer;\n{body}\nret;\n}}\n"
    );
    let module = Module::load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let out = emulator.allocate(BUFFER as u64).unwrap();
    emulator.write(out, &[0; BUFFER]).unwrap();
    let launch = Launch { threads: [threads, 1, 1], ..Launch::default() };
    let counters = emulator.launch(&module.kernel("k").unwrap(), &launch, &out.to_le_bytes());
    counters.unwrap_or_else(|fault| panic!("{fault}"))
}

fn count(threads: u32, body: &str) -> Counters {
    count_with(&Emulator::new(Arch::Sm90a), threads, body)
}

/// Wavefronts and conflicts of a warp's store to shared memory, lanes so many bytes apart, and a load from there.
fn shared(stride: u32, kind: &str, values: &str) -> [u64; 2] {
    let body = format!(
        "mad.lo.u32 %at, %t, {stride}, %s;\nmov.u32 %r1, 0;\nmov.u32 %r2, 0;\nmov.u32 %r3, 0;\nmov.u32 %r4, 0;\n\
         st.shared.{kind} [%at], {values};\nbar.warp.sync -1;\nld.shared.{kind} {values}, [%at];"
    );
    let traffic = count(32, &body).shared;
    assert_eq!(traffic.loads, traffic.stores);
    assert_eq!(traffic.total().wavefronts, 2 * traffic.loads.wavefronts);
    [traffic.loads.wavefronts, traffic.loads.conflicts]
}

#[test]
fn shared_memory_has_32_banks() {
    let word = |stride| shared(stride, "u32", "%r1");
    assert_eq!(word(4), [1, 0]);
    assert_eq!(word(8), [2, 1]);
    assert_eq!(word(16), [4, 3]);
    assert_eq!(word(128), [32, 31]);
    assert_eq!(word(132), [1, 0], "a padded line");
    assert_eq!(word(0), [1, 0], "all lanes at one word");
    assert_eq!(shared(2, "u16", "%r1"), [1, 0], "two lanes at each word");
}

#[test]
fn vectors_take_a_wavefront_for_each_128_bytes() {
    assert_eq!(shared(8, "v2.u32", "{%r1, %r2}"), [2, 0]);
    assert_eq!(shared(16, "v4.u32", "{%r1, %r2, %r3, %r4}"), [4, 0]);
    assert_eq!(shared(128, "v4.u32", "{%r1, %r2, %r3, %r4}"), [32, 28]);
    assert_eq!(shared(144, "v4.u32", "{%r1, %r2, %r3, %r4}"), [4, 0], "a padded line");
}

#[test]
fn matrices_are_rows_of_16_bytes() {
    // The rows of all four matrices, in lines of this many bytes; the second body swizzles 128-byte lines.
    let plain = |line: u32| format!("mad.lo.u32 %at, %t, {line}, %s;");
    let swizzled =
        "and.b32 %r1, %t, 7;\nshl.b32 %r1, %r1, 4;\nmad.lo.u32 %at, %t, 128, %s;\nxor.b32 %at, %at, %r1;";
    for (address, conflicts) in [(plain(16), 0), (plain(32), 4), (plain(128), 28), (swizzled.into(), 0)] {
        let body = format!(
            "{address}\nmov.u32 %r1, 0;\n\
             stmatrix.sync.aligned.m8n8.x4.shared.b16 [%at], {{%r1, %r1, %r1, %r1}};\nbar.warp.sync -1;\n\
             ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r1, %r2, %r3, %r4}}, [%at];"
        );
        let shared = count(32, &body).shared;
        let expected = SharedTraffic { requests: 1, bytes: 512, wavefronts: 4 + conflicts, conflicts };
        assert_eq!([shared.ldmatrix, shared.stmatrix], [expected; 2], "{address}");
    }
}

#[test]
fn global_memory_moves_in_sectors() {
    let load = |stride: u32| {
        count(32, &format!("mad.wide.u32 %d1, %t, {stride}, %out;\nld.global.u32 %r1, [%d1];")).global.loads
    };
    assert_eq!(load(4), GlobalTraffic { requests: 1, bytes: 128, sectors: 4 });
    assert!(load(4).is_coalesced());
    assert_eq!(load(8), GlobalTraffic { requests: 1, bytes: 128, sectors: 8 });
    assert_eq!(load(64), GlobalTraffic { requests: 1, bytes: 128, sectors: 32 });
    assert!(!load(64).is_coalesced());
    // Through generic addresses, and others' accesses.
    let all = count(
        64,
        "mad.wide.u32 %d1, %t, 16, %out;\nld.v4.u32 {%r1, %r2, %r3, %r4}, [%d1];\nst.global.u32 [%d1], %r1;\n\
         red.global.add.u32 [%out+2048], 1;",
    );
    assert_eq!(all.global.read(), GlobalTraffic { requests: 2, bytes: 1024, sectors: 32 });
    assert_eq!(all.global.written(), GlobalTraffic { requests: 2, bytes: 256, sectors: 32 });
    assert_eq!(all.global.atomics, GlobalTraffic { requests: 2, bytes: 8, sectors: 2 });
}

#[test]
fn instructions_have_classes() {
    let counters = count(
        64,
        "setp.lt.u32 %p1, %t, 40;\nmov.f32 %f1, 0f3F800000;\n@%p1 add.f32 %f1, %f1, %f1;\ncvt.rzi.u32.f32 %r1, %f1;\n\
         bar.sync 0;\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;",
    );
    let of = |class| (counters.classes[class].warps, counters.classes[class].lanes);
    assert_eq!(of(Class::Integer), (2, 64));
    assert_eq!(of(Class::Float), (2, 40), "lanes that take part");
    assert_eq!(of(Class::Conversion), (2, 64));
    assert_eq!(of(Class::Move), (6, 192));
    assert_eq!(of(Class::Local), (2, 64));
    assert_eq!(of(Class::Warp), (2, 64));
    assert_eq!(of(Class::Synchronisation), (2, 64));
    assert_eq!(of(Class::Control), (2, 64));
    assert_eq!(counters.instructions, counters.classes.total().warps);
    assert_eq!(counters.lane_instructions, counters.classes.total().lanes);
}

#[test]
fn warps_wait_at_barriers() {
    // The last warp does not.
    let waits = count(128, "bar.sync 0;").waits;
    assert_eq!(waits.barriers.times, 3);
    assert!(waits.barriers.turns >= 3);
    assert_eq!((waits.mbarriers, waits.clusters), (Waits::default(), Waits::default()));
    // Warp 0 polls until warp 1 has arrived.
    let body = "mov.u32 %r1, bars;\nsetp.ne.u32 %p1, %t, 0;\n@!%p1 mbarrier.init.shared.b64 [%r1], 32;\nbar.sync 0;\n\
        setp.lt.u32 %p2, %t, 32;\n@!%p2 bra ARRIVE;\n\
        POLL: mbarrier.test_wait.parity.shared.b64 %p3, [%r1], 0;\n@!%p3 bra POLL;\nexit;\n\
        ARRIVE: mbarrier.arrive.shared.b64 _, [%r1];";
    let waits = count(64, body).waits;
    assert_eq!(waits.mbarriers.times, 1);
    assert_eq!(waits.barriers.times, 1);
}

/// Fills `ahead` stages by bulk copies, one mbarrier each, before it reads the first; then reads and fills in turn.
fn pipeline(ahead: u32) -> Counters {
    let body = format!(
        "mov.u32 %r1, bars;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 bra READY;\n\
         mbarrier.init.shared.b64 [%r1], 1;\nmbarrier.init.shared.b64 [%r1+8], 1;\n\
         mbarrier.init.shared.b64 [%r1+16], 1;\nmbarrier.init.shared.b64 [%r1+24], 1;\nREADY: bar.sync 0;\n\
         mov.u32 %r2, 0;\nmov.u32 %r3, 0;\n\
         LOOP: setp.ge.u32 %p2, %r2, 12;\n@%p2 bra READ;\n\
         rem.u32 %r4, %r2, {ahead};\nmad.lo.u32 %r5, %r4, 8, %r1;\nmad.lo.u32 %r6, %r4, 1024, %s;\n@%p1 bra FILLED;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 1024;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%out], 1024, [%r5];\n\
         FILLED: add.u32 %r2, %r2, 1;\nsub.u32 %r7, %r2, %r3;\nsetp.lt.u32 %p3, %r7, {ahead};\n@%p3 bra LOOP;\n\
         READ: rem.u32 %r4, %r3, {ahead};\nmad.lo.u32 %r5, %r4, 8, %r1;\nmad.lo.u32 %r6, %r4, 1024, %s;\n\
         div.u32 %r8, %r3, {ahead};\nand.b32 %r8, %r8, 1;\n\
         POLL: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r5], %r8;\n@!%p4 bra POLL;\n\
         mad.lo.u32 %at, %t, 16, %r6;\nld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%at];\nbar.sync 0;\n\
         add.u32 %r3, %r3, 1;\nsetp.lt.u32 %p5, %r3, 12;\n@%p5 bra LOOP;"
    );
    count(64, &body)
}

#[test]
fn stages_are_live_from_their_copy_to_their_last_read() {
    for ahead in 1..=4 {
        let counters = pipeline(ahead);
        assert_eq!(counters.live_stages, u64::from(ahead));
        let written = SharedTraffic { requests: 12, bytes: 12 << 10, wavefronts: 96, conflicts: 0 };
        assert_eq!(counters.shared.bulk_writes, written);
        assert_eq!(
            counters.global.bulk_loads,
            GlobalTraffic { requests: 12, bytes: 12 << 10, sectors: 12 * 32 }
        );
    }
}

#[test]
fn groups_of_copies_are_stages_too() {
    // Two warps copy three groups each, one stage after the other, before they read the first.
    let copy = |stage: u32| {
        format!("cp.async.cg.shared.global [%at+{}], [%d1], 16;\ncp.async.commit_group;\n", 1024 * stage)
    };
    let read = |stage: u32| format!("ld.shared.u32 %r1, [%at+{}];\n", 1024 * stage);
    let body = format!(
        "mad.wide.u32 %d1, %t, 16, %out;\nmad.lo.u32 %at, %t, 16, %s;\n{}{}{}cp.async.wait_group 1;\nbar.sync 0;\n\
         {}{}bar.sync 0;\n{}cp.async.wait_group 0;\nbar.sync 0;\n{}{}",
        copy(0),
        copy(1),
        copy(2),
        read(0),
        read(1),
        copy(3),
        read(2),
        read(3)
    );
    assert_eq!(count(64, &body).live_stages, 3);
}

#[test]
fn asynchronous_copies_of_warps_are_counted() {
    let body = "mad.wide.u32 %d1, %t, 64, %out;\nmad.lo.u32 %at, %t, 32, %s;\n\
        cp.async.ca.shared.global [%at], [%d1], 16;\ncp.async.ca.shared.global [%at+16], [%d1], 16, 0;\n\
        cp.async.wait_all;\nbar.sync 0;\nld.shared.u32 %r1, [%at];";
    let counters = count(32, body);
    // What a copy of no bytes writes is zeros: nothing is read for it.
    assert_eq!(counters.global.copies, GlobalTraffic { requests: 1, bytes: 512, sectors: 32 });
    let copies = SharedTraffic { requests: 2, bytes: 1024, wavefronts: 16, conflicts: 8 };
    assert_eq!(counters.shared.copies, copies);
    assert_eq!(counters.live_stages, 1);
}

#[test]
fn operands_of_products_have_no_conflicts_in_any_layout() {
    // A and B of 64 lines; the span of the swizzle is in the upper bits, eight lines are 8 spans.
    let product = |mode: u64, stride: u64| {
        let zeros: String = (0..32).map(|i| format!("mov.f32 %a{i}, 0f00000000;\n")).collect();
        let registers: Vec<String> = (0..32).map(|i| format!("%a{i}")).collect();
        let high = mode << 62 | (stride >> 4) << 32 | 1 << 16;
        let body = format!(
            ".reg .f32 %a<32>;\n{zeros}mad.lo.u32 %at, %t, 128, %s;\nmov.u32 %r1, 0;\nmov.u32 %r2, 0;\n\
             FILL: st.shared.u32 [%at], 0;\nadd.u32 %at, %at, 4;\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 32;\n\
             @%p1 bra FILL;\nfence.proxy.async;\nbar.sync 0;\nshr.u32 %r3, %s, 4;\ncvt.u64.u32 %d1, %r3;\n\
             or.b64 %d1, %d1, {high};\nsetp.eq.u32 %p2, %t, %t;\nwgmma.fence.sync.aligned;\n\
             wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{}}}, %d1, %d1, %p2, 1, 1, 0, 0;\n\
             wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;",
            registers.join(", ")
        );
        let counters = count(128, &body);
        assert_eq!(counters.tensor_operations, 2 * 64 * 64 * 16);
        assert_eq!(counters.classes[Class::Tensor].warps, 4);
        counters.shared.wgmma
    };
    let traffic =
        |conflicts| SharedTraffic { requests: 2, bytes: 4096, wavefronts: 32 + conflicts, conflicts };
    assert_eq!(product(1, 1024), traffic(0), "128-byte lines, swizzled");
    assert_eq!(product(3, 256), traffic(0), "32-byte lines, swizzled");
    assert_eq!(product(0, 128), traffic(0), "core matrices of 128 contiguous bytes");
}

#[test]
fn counting_may_be_off() {
    let body = "mad.wide.u32 %d1, %t, 4, %out;\nld.global.u32 %r1, [%d1];\nbar.sync 0;";
    let (on, off) = (count(64, body), count_with(&Emulator::new(Arch::Sm90a).counting(false), 64, body));
    assert_ne!(on.global, off.global);
    assert_eq!((off.global, off.shared, off.waits), Default::default());
    assert_eq!((off.instructions, off.classes), (on.instructions, on.classes));
}
