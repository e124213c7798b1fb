//! Atomic operations, spaces of addresses, cache hints, barriers that reduce.

use tilewright_emulator::{Arch, Emulator};

use crate::{load_error, module, run_on, words};

/// A kernel of this body: `%out` is the address of its memory, `%t` the thread, `%mine` the thread's word.
fn kernel(body: &str) -> tilewright_emulator::Module {
    module(&format!(
        ".visible .entry k(.param .u64 o)\n{{\n.reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<20>, %t;\n\
         .reg .b64 %d<20>, %out, %mine;\n.reg .f32 %f<9>;\n.shared .align 16 .b8 buffer[64];\n\
         ld.param.u64 %out, [o];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %mine, %t, 4, %out;\n{body}\nret;\n}}"
    ))
}

#[test]
fn atomics_of_halves_and_vectors() {
    // f16: 1 and 2 are 3c00 and 4000; bf16: 3f80 and 4000.
    let body = "red.global.add.noftz.f16x2 [%out], 0x3c004000;
        mov.b32 %r1, 0x40003c00; atom.global.gpu.relaxed.add.noftz.bf16x2 %r2, [%out+4], 0x3f803f80;
        mov.b16 %h1, 0x3c00; red.global.add.noftz.f16 [%out+10], %h1;
        red.global.max.noftz.v2.f16x2 [%out+16], {%r1, %r1};
        mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000;
        atom.global.add.v2.f32 {%f3, %f4}, [%out+24], {%f1, %f2};
        bar.warp.sync -1; setp.eq.u32 %p1, %t, 0; @!%p1 bra END;
        mov.b16 %h2, 0; mov.b16 %h3, 0x1234; atom.global.cas.b16 %h4, [%out+32], %h2, %h3;
        atom.global.cas.b16 %h4, [%out+34], %h3, %h3;
        END:";
    let found = words(&kernel(body), 2, 9);
    assert_eq!(found[..3], [0x4000_4400, 0x4000_4000, 0x4000_0000]);
    assert_eq!(found[4..], [0x4000_3c00, 0x4000_3c00, 2f32.to_bits(), 4f32.to_bits(), 0x1234]);
}

#[test]
fn sums_of_f32_flush_only_in_global_memory() {
    let body = "mov.f32 %f1, 0f00000001; st.shared.b32 [buffer], 0; bar.sync 0;
        atom.shared.add.f32 %f2, [buffer], %f1; ld.shared.b32 %r1, [buffer];
        red.global.add.f32 [%out], %f1; st.global.b32 [%out+4], %r1;";
    assert_eq!(words(&kernel(body), 1, 2), [0, 1]);
}

#[test]
fn spaces_of_addresses() {
    let body = "mov.u32 %r0, 0; mov.u64 %d1, buffer; cvta.shared.u64 %d1, %d1;
        isspacep.shared %p1, %d1; selp.b32 %r1, 1, 0, %p1;
        isspacep.global %p1, %d1; selp.b32 %r2, 2, 0, %p1; isspacep.global %p1, %out; selp.b32 %r3, 4, 0, %p1;
        isspacep.local %p1, %out; selp.b32 %r4, 8, 0, %p1; isspacep.shared::cluster %p1, %d1; selp.b32 %r5, 16, 0, %p1;
        getctarank.u64 %r6, %d1; mov.u32 %r7, buffer; getctarank.shared::cluster.u32 %r8, %r7;
        or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3; or.b32 %r1, %r1, %r4; or.b32 %r1, %r1, %r5;
        add.u32 %r1, %r1, %r6; add.u32 %r1, %r1, %r8; st.global.u32 [%mine], %r1;";
    assert_eq!(words(&kernel(body), 1, 1), [1 + 4 + 16]);
}

#[test]
fn hints_change_nothing() {
    let body = "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %d1, 0f3F800000;
        createpolicy.fractional.L2::evict_first.b64 %d2; createpolicy.range.global.L2::evict_last.b64 %d3, [%out], 64, 128;
        prefetch.global.L2 [%out]; prefetch.global.L2::evict_last [%out]; prefetchu.L1 [%out];
        applypriority.global.L2::evict_normal [%out], 128;
        st.global.wb.L1::no_allocate.L2::cache_hint.u32 [%mine], %t, %d1;
        ld.global.L1::evict_last.L2::cache_hint.L2::128B.u32 %r1, [%mine], %d2; ld.global.cs.u32 %r2, [%mine];
        ldu.global.u32 %r3, [%mine]; add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;
        cp.async.bulk.prefetch.L2.global [%out], 16; st.global.wt.u32 [%mine], %r1;";
    assert_eq!(words(&kernel(body), 4, 4), [0, 3, 6, 9]);
}

#[test]
fn barriers_reduce() {
    let body = "setp.gt.u32 %p1, %t, 40; bar.red.popc.u32 %r1, 0, %p1; barrier.cta.red.popc.aligned.u32 %r2, 1, 96, !%p1;
        bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, %p1; selp.u32 %r3, 1000, 0, %p2; selp.u32 %r4, 10000, 0, %p3;
        mad.lo.u32 %r1, %r1, 100000, %r2; add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r4; st.global.u32 [%mine], %r1;";
    assert_eq!(words(&kernel(body), 96, 96), [5_500_000 + 41 + 10_000; 96]);
}

#[test]
fn lanes_match() {
    let body = "shr.u32 %r1, %t, 1; cvt.u64.u32 %d1, %r1; shl.b64 %d1, %d1, 40; match.any.sync.b64 %r2, %d1, -1;
        match.all.sync.b32 %r3|%p1, %r1, -1; selp.u32 %r4, 1, 0, %p1; add.u32 %r3, %r3, %r4; add.u32 %r2, %r2, %r3;
        st.global.u32 [%mine], %r2;";
    assert_eq!(words(&kernel(body), 32, 32), (0..32).map(|t| 3u32 << (t & !1)).collect::<Vec<_>>());
}

#[test]
fn an_assertion_that_fails_is_a_fault() {
    let module = module(
        ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e) .noreturn;
         .entry k(.param .u64 o) { .reg .b64 %d; mov.u64 %d, 0;
         { .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4; st.param.b64 [p0], %d;
         call.uni __assertfail, (p0, p1, p2, p3, p4); } }",
    );
    let message = run_on(&Emulator::new(Arch::Sm90a), &module, 1, 1).unwrap_err().to_string();
    assert!(message.contains("trap"), "{message}");
}

#[test]
fn what_is_refused_is_named() {
    let error = |line: &str| {
        let registers = ".reg .b32 r<9>; .reg .b64 d<4>; .reg .pred p; .reg .f32 f<9>;";
        load_error(&format!(".entry k() {{ {registers}\n{line} }}"))
    };
    for (line, part) in [
        ("wmma.load.a.sync.aligned.row.m16n16k16.f16 {r1}, [d0], r2;", "1 registers where 8 are needed"),
        (
            "mma.sp.sync.aligned.m16n8k64.row.col.f32.f16.f16.f32 {f0, f1, f2, f3}, {r0}, {r1}, {f0}, r2, 0;",
            "shape m16n8k64 of F16",
        ),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {r0, r1}, [r2];", "only the shape m8n8"),
        ("atom.global.cas.b128 d0, [d1], d2, d3;", "`d0` is no register of 128 bits"),
        ("atom.global.add.v2.u32 {r0, r1}, [d1], {r2, r3};", "U(32)"),
        ("red.async.relaxed.cluster.add.u32 [r0], r1, [r2];", "needs `.mbarrier::complete_tx::bytes`"),
        ("isspacep.const p, d0;", "state space"),
        ("mov.u32 r0, %envreg3;", "`%envreg3` is not known"),
        ("tex.2d.v4.f32.f32 {f0, f1, f2, f3}, [d0, {f4, f5}];", "not emulated"),
        ("discard.global.L2 [d0], 64;", "128 bytes"),
        ("bar.red.popc.u32 r0, 0, 96, r1;", "is no predicate"),
    ] {
        let message = error(line);
        assert!(message.starts_with("PTX line 3:") && message.contains(part), "{line} {message}");
    }
}
