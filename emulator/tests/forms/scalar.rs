//! Arithmetic, moves and accesses of single threads.

use crate::run;

/// The result of instructions on constants: `d` is their destination, of so many bits.
fn result(bits: u32, instructions: &str) -> u64 {
    let body = format!(
        ".reg .b{bits} d;\n.reg .b64 wide;\n.reg .b32 r, s;\n.reg .b8 a, b, c, e;\n.reg .pred p, q;\n.reg .b128 x, y, z;\n\
         .reg .b64 low, high;\nsetp.eq.u32 p, 0, 0;\nsetp.eq.u32 q, 0, 1;\n{instructions}\nst.global.b{bits} [%out], d;"
    );
    let words = run(&body, 1, &[0; 64]).unwrap_or_else(|fault| panic!("{instructions}: {fault}"));
    u64::from(words[1]) << 32 | u64::from(words[0])
}

fn check(cases: &[(u32, &str, u64)]) {
    for &(bits, instructions, expected) in cases {
        let found = result(bits, instructions);
        assert_eq!(found, expected, "{instructions}: {found:#x}, not {expected:#x}");
    }
}

#[test]
fn integers() {
    check(&[
        (16, "mad.hi.u16 d, 0xffff, 0xffff, 3;", 1),
        (16, "mad.hi.s16 d, -2, 3, 5;", 4),
        (32, "mad.hi.sat.s32 d, 0x40000000, 0x40000000, 0x7ffffff0;", 0x7fff_ffff),
        (32, "mad.hi.sat.s32 d, 0x40000000, -0x40000000, 0x80000000;", 0x8000_0000),
        (32, "mad24.hi.sat.s32 d, 0x7fffff, 0x7fffff, 0x7fffffff;", 0x7fff_ffff),
        (32, "mad24.hi.sat.s32 d, 0x010000, 0x000003, 2;", 5),
        (16, "cnot.b16 d, 0;", 1),
        (16, "cnot.b16 d, 0x100;", 0),
        (32, "prmt.b32.f4e d, 0x33221100, 0x77665544, 3;", 0x6655_4433),
        (32, "prmt.b32.b4e d, 0x33221100, 0x77665544, 1;", 0x6677_0011),
        (32, "prmt.b32.rc8 d, 0x33221100, 0, 2;", 0x2222_2222),
        (32, "prmt.b32.ecl d, 0x33221100, 0, 2;", 0x3322_2222),
        (32, "prmt.b32.ecr d, 0x33221100, 0, 1;", 0x1111_1100),
        (32, "prmt.b32.rc16 d, 0x33221100, 0, 1;", 0x3322_3322),
        (32, "cvt.pack.sat.u16.s32 d, -5, 70000;", 0x0000_ffff),
        (32, "cvt.pack.sat.s16.s32 d, -40000, 7;", 0x8000_0007),
        (32, "cvt.pack.sat.u8.s32.b32 d, 300, -1, 0xabcd1234;", 0x1234_ff00),
        (32, "cvt.pack.sat.s8.s32.b32 d, -300, 5, 0x11112222;", 0x2222_8005),
        (32, "cvt.pack.sat.u4.s32.b32 d, 20, 3, 0xab;", 0x0000_abf3),
        (32, "cvt.pack.sat.s2.s32.b32 d, 1, -9, 0;", 0b0110),
    ]);
}

#[test]
fn floats() {
    check(&[
        // The magnitudes are compared, and the signs multiplied.
        (16, "max.xorsign.abs.f16 d, 0xc000, 0x3c00;", 0xc000),
        (16, "min.xorsign.abs.bf16 d, 0xc000, 0xbf80;", 0x3f80),
        (32, "max.xorsign.abs.f16x2 d, 0x3c00c000, 0xc000bc00;", 0xc000_4000),
        (16, "max.NaN.xorsign.abs.f16 d, 0x7e00, 0xbc00;", 0x7fff),
        (16, "min.ftz.xorsign.abs.f16 d, 0x8001, 0x3c00;", 0x8000),
        (16, "cvt.rn.satfinite.f16.f32 d, 0f49742400;", 0x7bff),
        (16, "cvt.rz.relu.satfinite.bf16.f32 d, 0fFF800000;", 0),
        (32, "cvt.rn.satfinite.f16x2.f32 d, 0fFF800000, 0f3F800000;", 0xfbff_3c00),
        (32, "cvt.rn.satfinite.bf16x2.f32 d, 0f7F800000, 0f7FC00000;", 0x7f7f_7fff),
        (32, "setp.lt.f16x2 p|q, 0x3c004000, 0x40003c00; selp.u32 d, 2, 0, p; @q add.u32 d, d, 1;", 1),
        // A result may be where the predicate was that it is combined with.
        (
            32,
            "setp.eq.and.bf16x2 p|q, 0x3f803f81, 0x3f803f80, p; selp.u32 d, 2, 0, p; @q add.u32 d, d, 1;",
            1,
        ),
        (32, "setp.nan.or.f16x2 p|q, 0x7fff0000, 0, !p; selp.u32 d, 2, 0, p; @q add.u32 d, d, 1;", 1),
    ]);
}

#[test]
fn logic_with_a_predicate() {
    check(&[
        (32, "lop3.or.b32 d|p, 0xf0, 0x3c, 0, 0xc0, q; @!p add.u32 d, d, 1;", 0x30),
        (32, "lop3.and.b32 d|p, 0xf0, 0x0f, 0, 0xc0, p; @!p add.u32 d, d, 1;", 1),
        (32, "lop3.and.b32 _|p, 1, 1, 0, 0xc0, q; selp.u32 d, 1, 0, p;", 0),
    ]);
}

#[test]
fn moves() {
    check(&[
        (32, "mov.b32 {a, b, c, e}, 0x44332211; mov.b32 d, {e, c, b, a};", 0x1122_3344),
        (16, "mov.b32 {_, b, _, e}, 0x44332211; mov.b16 d, {b, e};", 0x4422),
        (16, "mov.b16 {a, b}, 0x1234; mov.b16 d, {b, a};", 0x3412),
        (64, "mov.b128 x, {5, 7}; mov.b128 y, x; mov.b128 {_, d}, y;", 7),
        (
            64,
            "mov.b128 x, {5, 7}; st.global.b128 [%out+16], x; ld.global.v2.b64 {low, high}, [%out+16]; add.u64 d, low, high;",
            12,
        ),
        (64, "ld.global.nc.b128 x, [%out+32]; mov.b128 {d, _}, x;", 0),
        (32, "mov.pred p, %is_explicit_cluster; selp.u32 d, 1, 0, p;", 0),
        (32, "mov.u32 d, %clock_hi;", 0),
        (32, "mov.u32 d, %globaltimer_hi;", 0),
        // Time goes on.
        (
            32,
            "mov.u32 r, %globaltimer_lo; mov.u32 s, %globaltimer_lo; setp.gt.u32 p, s, r; selp.u32 d, 1, 0, p;",
            1,
        ),
    ]);
}

#[test]
fn atomic_operations_on_128_bits() {
    let memory = "mov.b128 x, {1, 2};\nst.global.b128 [%out+16], x;\n";
    let after = "ld.global.b128 z, [%out+16];\nmov.b128 {low, high}, z;\nmad.lo.u64 low, high, 100, low;\n";
    let old = "mov.b128 {d, high}, y;\nmad.lo.u64 d, high, 10, d;\nmad.lo.u64 d, low, 1000, d;\n";
    let of = |operation: &str| result(64, &format!("{memory}{operation}\n{after}{old}"));
    assert_eq!(of("mov.b128 z, {3, 4};\natom.global.exch.b128 y, [%out+16], z;"), 403_021);
    assert_eq!(of("mov.b128 z, {3, 4};\natom.acq_rel.gpu.global.cas.b128 y, [%out+16], x, z;"), 403_021);
    // One half is another.
    assert_eq!(of("mov.b128 z, {1, 4};\natom.global.cas.b128 y, [%out+16], z, z;"), 201_021);
    let misaligned =
        run(".reg .b128 x, y;\nmov.b128 x, {1, 2};\natom.global.exch.b128 y, [%out+8], x;", 1, &[0; 64]);
    assert!(misaligned.expect_err("it is misaligned").to_string().contains("misaligned"));
}

/// What a kernel of two warps is accused of.
fn accused(body: &str) -> String {
    run(body, 64, &[0; 64]).expect_err("the kernel is faulty").to_string()
}

#[test]
fn accesses_of_128_bits_are_ordered() {
    let head = ".reg .b128 x;\n.reg .b32 t;\n.reg .b64 at, low;\n.reg .pred p;\nmov.u32 t, %tid.x;\nsetp.ne.u32 p, t, 0;\n\
        cvt.u64.u32 low, t;\n";
    let store = "@p bra S;\nmov.b128 x, {low, low};\nst.shared.b128 [buffer], x;\nS:\n";
    let load = "ld.shared.b128 x, [buffer];\nst.global.b128 [%out], x;";
    run(&format!("{head}{store}bar.sync 0;\n{load}"), 64, &[0; 64]).unwrap_or_else(|fault| panic!("{fault}"));
    let race = accused(&format!("{head}{store}{load}"));
    assert!(race.contains("race"), "{race}");
    let unwritten = accused(&format!("{head}{load}"));
    assert!(unwritten.contains("of which nobody had written"), "{unwritten}");
    let histogram = accused(".reg .b128 x;\nmov.b128 x, {1, 2};\natom.shared.cas.b128 x, [buffer], x, x;");
    assert!(histogram.contains("an atomic operation on 16 bytes"), "{histogram}");
    // Those of several threads do not race with each other.
    let cas = ".reg .b128 x;\nmov.b128 x, {0, 0};\natom.global.cas.b128 x, [%out], x, x;";
    run(cas, 64, &[0; 64]).unwrap_or_else(|fault| panic!("{fault}"));
}

#[test]
fn what_is_discarded_is_gone() {
    let discard = "discard.global.L2 [%out], 128;\n";
    let words = run(discard, 1, &[7; 64]).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!((words[0], words[31], words[32]), (0xcdcd_cdcd, 0xcdcd_cdcd, 7));
    let race = accused(&format!(
        ".reg .pred p;\n.reg .b32 t;\nmov.u32 t, %tid.x;\nsetp.ne.u32 p, t, 0;\n@!p {discard}@p ld.global.u32 t, [%out];\nst.global.u32 [%out+252], t;"
    ));
    assert!(race.contains("race"), "{race}");
}

#[test]
fn arrivals_that_must_not_complete() {
    let arrive = |count: u32| {
        format!(
            ".reg .pred p;\n.reg .b32 t;\n.reg .b64 state;\nmov.u32 t, %tid.x;\nsetp.ne.u32 p, t, 0;\n@p exit;\n\
             mbarrier.init.shared.b64 [bar], 3;\nmbarrier.arrive.noComplete.shared.b64 state, [bar], {count};\n\
             mbarrier.pending_count.b64 t, state;\nst.global.u32 [%out], t;\nmbarrier.arrive.shared.b64 state, [bar];\n\
             L: mbarrier.try_wait.parity.shared.b64 p, [bar], 0;\n@!p bra L;"
        )
    };
    assert_eq!(run(&arrive(2), 64, &[0; 64]).unwrap_or_else(|fault| panic!("{fault}"))[0], 3);
    let complete = accused(&arrive(3));
    assert!(complete.contains("must not complete the phase of an mbarrier, which waits for 3"), "{complete}");
}

#[test]
fn rows_by_generic_addresses() {
    let rows = |from: &str| {
        format!(
            ".reg .b32 t, r;\n.reg .b64 at, row;\n.reg .b16 h;\nmov.u32 t, %tid.x;\nmov.b64 at, {from};\n\
             mul.wide.u32 row, t, 4;\nadd.u64 row, at, row;\nst.b32 [row], t;\nbar.sync 0;\nand.b32 r, t, 7;\n\
             mul.wide.u32 row, r, 16;\nadd.u64 row, at, row;\nldmatrix.sync.aligned.m8n8.x1.b16 {{r}}, [row];\n\
             mul.wide.u32 row, t, 4;\nadd.u64 row, %out, row;\nst.global.b32 [row], r;"
        )
    };
    let shared = rows("buffer").replacen("mul.wide", "cvta.shared.u64 at, at;\nmul.wide", 1);
    let found = run(&shared, 32, &[0; 64]).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(found[..32], (0..32).collect::<Vec<u32>>());
    let global = run(&rows("%out"), 32, &[0; 64]).expect_err("it is not in shared memory").to_string();
    assert!(global.contains("is no address in shared memory"), "{global}");
}

#[test]
fn video() {
    let registers = "mov.b32 r, 0x80ff7f01;\nmov.b32 s, 0x01020304;\n";
    let of = |instruction: &str| result(32, &format!("{registers}{instruction}")) as u32;
    for (instruction, expected) in [
        ("vadd.s32.s32.u32 d, r.b2, s.b0;", 3),
        // As on an H200, and not in the manual: 32 unsigned bits are not held below 2^32, of fewer negative ones are large, and the upper
        // half is of the result's.
        ("vadd.u32.u32.u32.sat d, r, r;", 0x01fe_fe02),
        ("vsub.u32.u32.u32.sat d, s.b0, r.b2;", 0),
        ("vsub.u32.u32.u32.sat d.b0, s.b0, r.b2, 0x11223344;", 0x1122_33ff),
        ("vadd.u32.u32.u32 d.h1, s.b0, r.h0, 0x11223344;", 0x3344),
        ("vsub.s32.u32.u32.sat d.b1, s.b0, r.b2, 0x11223344;", 0x1122_8044),
        ("vsub.u32.u32.u32.sat d.h1, s.b0, r.b2, 0x11223344;", 0x3344),
        ("vabsdiff.s32.s32.s32.add d, r.h1, s.h0, 10;", 0x7f01 + 0x304 + 10),
        ("vmin.s32.s32.s32.max d, r.b3, s.b1, -5;", 5u32.wrapping_neg()),
        ("vmax.u32.u32.s32 d, r.b3, s.b1;", 0x80),
        ("vshl.u32.u32.u32.clamp d, s.b0, 40;", 0),
        ("vshl.u32.u32.u32.wrap d, s.b0, 33;", 8),
        ("vshr.s32.s32.u32.clamp d, r, 40;", u32::MAX),
        ("vshr.s32.s32.u32.wrap.add d, r.b3, s.b2, 100;", 100 - 32),
        ("vmad.s32.s32.u32 d, r.b2, s.b0, 10;", 6),
        ("vmad.u32.u32.u32.po.shr7 d, r.h0, r.h0, 5;", (0x7f01 * 0x7f01 + 6) >> 7),
        ("vmad.s32.s32.s32.sat d, r, r, 0;", i32::MAX as u32),
        // Negated: the product, with one of a and b; twice, which is not at all; what is added, as its 32 bits are.
        ("vmad.s32.s32.u32 d, -r.b2, s.b0, 10;", 14),
        ("vmad.s32.u32.u32 d, r.h0, -s.b0, 5;", (5 - 0x7f01 * 4i32) as u32),
        ("vmad.s32.u32.u32 d, -r.h0, -s.b0, 5;", 5 + 0x7f01 * 4),
        ("vmad.s32.u32.u32 d, r.h0, s.b0, -s;", (0x7f01 * 4i32).wrapping_sub(0x0102_0304) as u32),
        ("vmad.s32.u32.u32.shr7 d, -r.h0, s.b0, 5;", ((5 - 0x7f01 * 4) >> 7) as u32),
        ("vmad.s32.u32.u32.sat d, -r, r, 0;", i32::MIN as u32),
        // Whole registers are signed.
        ("vmad.u32.u32.u32.sat d, r, s, 0;", 0),
        ("vmad.u32.u32.u32.sat.shr15 d, r, 1, 0;", u32::MAX),
        ("vmad.u32.u32.u32.shr7 d, r, 1, 0;", ((0x80ff_7f01u32 as i32) >> 7) as u32),
        ("vset.s32.u32.lt d, r.b3, s.b0;", 1),
        ("vset.s32.u32.lt.min d, r.b3, s.b0, -5;", 5u32.wrapping_neg()),
        ("vset.u32.u32.lt.min d, r.b3, s.b0, -5;", 0),
        ("vset.u32.u32.gt.add d, r.b3, s.b0, 7;", 8),
        ("vadd2.s32.s32.s32.sat d, r, s, 0;", 0x8201_7fff),
        ("vsub2.u32.u32.u32.sat d, s, r, 0;", 0),
        (
            "vavrg2.s32.s32.s32 d.h0, r.h11, s.h23, 0xabcd0000;",
            (0xabcd_0000u32 as i32 | ((-0x7f01 + 0x102) >> 1) & 0xffff) as u32,
        ),
        ("vset2.s32.s32.lt.add d, r, s, 5;", 6),
        ("vadd4.u32.u32.u32 d, r, s, 0;", 0x8101_8205),
        ("vadd4.u32.u32.u32.sat d.b20, r, s, 0x11111111;", 0x11ff_1105),
        ("vmax4.s32.s32.s32 d, r.b3210, r.b0123, 0;", 0x017f_7f01),
        ("vabsdiff4.u32.s32.s32.add d, r, s.b7777, 1;", 1 + 129 + 2 + 126),
        ("vset4.u32.u32.ge d, r, s, 0;", 0x0101_0100),
        ("vmin4.s32.u32.u32 d.b3, s.b7654, r.b1111, 0;", 0x0300_0000),
    ] {
        assert_eq!(of(instruction), expected, "{instruction}: {:#x}, not {expected:#x}", of(instruction));
    }
}
