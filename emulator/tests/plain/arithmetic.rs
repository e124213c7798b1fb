//! Arithmetic and conversions, one instruction at a time. An H200 gives the same.

use crate::{load_error, module, words};

/// The result of an instruction on constants: `{d}` is its destination, of so many bits.
fn result(bits: u32, instruction: &str) -> u64 {
    let text = format!(
        ".entry k(.param .u64 o) {{ .reg .b{bits} d; .reg .b64 out; .reg .pred p; ld.param.u64 out, [o];
         setp.eq.u32 p, 0, 0;\n{instruction}\nst.global.b{bits} [out], d; ret; }}"
    );
    let words = words(&module(&text), 1, 2);
    u64::from(words[1]) << 32 | u64::from(words[0])
}

fn check(cases: &[(u32, &str, u64)]) {
    for &(bits, instruction, expected) in cases {
        let found = result(bits, instruction);
        assert_eq!(found, expected, "{instruction}: {found:#x}, not {expected:#x}");
    }
}

fn f(x: f32) -> u64 {
    x.to_bits().into()
}

#[test]
fn predicates_may_be_numbers() {
    check(&[
        (32, "selp.b32 d, 5, 7, 1;", 5),
        (32, "selp.b32 d, 5, 7, 0;", 7),
        (32, "setp.eq.and.u32 p, 1, 1, 0; selp.b32 d, 5, 7, p;", 7),
        (32, "or.pred p, 0, 1; selp.b32 d, 5, 7, p;", 5),
        (32, "vote.sync.ballot.b32 d, -1, 1;", 1),
    ]);
}

#[test]
fn integers() {
    check(&[
        (32, "div.u32 d, 7, 0;", 0xffff_ffff),
        (32, "rem.u32 d, 7, 0;", 0xffff_ffff),
        (32, "rem.s32 d, -7, 0;", 0xffff_ffff),
        (64, "rem.u64 d, 7, 0;", u64::MAX),
        (32, "sad.s32 d, -5, 7, 100;", 112),
        (32, "mul24.lo.s32 d, 0xffffff, 3;", 0xffff_fffd),
        (32, "mul24.hi.u32 d, 0xffffff, 0xffffff;", 0xffff_fe00),
        (32, "mad24.lo.u32 d, 0x1000003, 5, 1;", 16),
        (64, "mad.hi.u64 d, -1, -1, 5;", 3),
        (64, "mad.hi.s64 d, -1, 4, 5;", 4),
        (32, "dp2a.lo.s32.u32 d, 0xffff0002, 0x44332211, 1;", 1),
        (32, "dp2a.hi.u32.s32 d, 0x00030002, 0x80010000, 0;", (2u32.wrapping_sub(3 * 128)).into()),
        (32, "bfind.u32 d, 0x1000;", 12),
        (32, "bfind.s32 d, -2;", 0),
        (32, "bfind.s64 d, -1;", 0xffff_ffff),
        (32, "bfind.shiftamt.u64 d, 1;", 63),
        (32, "bmsk.clamp.b32 d, 4, 8;", 0xff0),
        (32, "bmsk.wrap.b32 d, 36, 8;", 0xff0),
        (32, "szext.clamp.s32 d, 0x80, 8;", 0xffff_ff80),
        (32, "fns.b32 d, 0xb0, 0, 2;", 5),
        (32, "fns.b32 d, 0xb0, 6, -1;", 5),
        (32, "fns.b32 d, 0xb0, 8, 1;", 0xffff_ffff),
        (64, "bfi.b64 d, 0xff, 0, 60, 8;", 0xf << 60),
        (32, "vadd4.u32.u32.u32 d, 0x01ff0203, 0x01010101, 0;", 0x0200_0304),
        (32, "vabsdiff4.u32.u32.u32.add d, 0x01ff0203, 0x02010101, 10;", 1 + 254 + 1 + 2 + 10),
        (32, "vmax2.s32.s32.s32 d, 0xffff0001, 0x00020003, 0;", 0x0002_0003),
        (32, "max.s16x2 d, 0xffff0001, 0xfffe0003;", 0xffff_0003),
        (32, "min.relu.s16x2 d, 0xffff0001, 0xfffe0003;", 1),
        (32, "add.u16x2 d, 0xffff0001, 0x00020003;", 0x0001_0004),
        (32, "slct.u32.f32 d, 1, 2, 0f80000000;", 1),
        (32, "slct.u32.s32 d, 1, 2, -1;", 2),
    ]);
}

#[test]
fn floats_of_every_rounding() {
    check(&[
        (32, "add.rz.f32 d, 0f3F800000, 0f33000001;", f(1.0)),
        (32, "add.rp.f32 d, 0f3F800000, 0f33000001;", f(1.0f32.next_up())),
        (32, "sub.rm.f32 d, 0f3F800000, 0f3F800000;", f(-0.0)),
        (32, "fma.rm.f32 d, 0f3F800001, 0f3F800001, 0f00000000;", 0x3f80_0002),
        (32, "fma.rp.f32 d, 0f3F800001, 0f3F800001, 0f00000000;", 0x3f80_0003),
        (32, "div.rz.f32 d, 0f3F800000, 0f40400000;", 0x3eaa_aaaa),
        (32, "rcp.rp.f32 d, 0f40400000;", 0x3eaa_aaab),
        (32, "sqrt.rm.ftz.f32 d, 0f40000000;", 0x3fb5_04f3),
        (32, "mul.rz.ftz.f32 d, 0f00800000, 0f3F000000;", 0),
        (64, "add.rz.f64 d, 0d3FF0000000000000, 0d3C00000000000000;", 1.0f64.to_bits()),
        (64, "mul.rp.f64 d, 0d3FB999999999999A, 0d3FB999999999999A;", (0.1f64 * 0.1).to_bits()),
        (64, "div.rm.f64 d, 0d3FF0000000000000, 0d4008000000000000;", (1.0f64 / 3.0).to_bits()),
        (64, "sqrt.rn.f64 d, 0d4000000000000000;", 2f64.sqrt().to_bits()),
        (64, "min.f64 d, 0d7FF8000000000000, 0dC008000000000000;", (-3f64).to_bits()),
        (64, "rcp.approx.ftz.f64 d, 0d4010000000000000;", 0.25f64.to_bits()),
        (64, "copysign.f64 d, 0dBFF0000000000000, 0d4008000000000000;", (-3f64).to_bits()),
        (32, "max.xorsign.abs.f32 d, 0fC0000000, 0f3F800000;", f(-2.0)),
        (16, "ex2.approx.f16 d, 0x4200;", 0x4800),
        (32, "tanh.approx.bf16x2 d, 0x7f800000;", 0x3f80_0000),
        (32, "testp.subnormal.f32 p, 0f00000001; selp.u32 d, 1, 0, p;", 1),
        (32, "testp.normal.f64 p, 0d0000000000000000; selp.u32 d, 1, 0, p;", 1),
    ]);
}

#[test]
fn comparisons() {
    check(&[
        (32, "setp.lt.f16 p, 0xbc00, 0x3c00; selp.u32 d, 1, 0, p;", 1),
        (32, "setp.gtu.bf16 p, 0x7fff, 0x3f80; selp.u32 d, 1, 0, p;", 1),
        (32, "set.gt.f16x2.f16x2 d, 0x3c004000, 0x40003c00;", 0x0000_3c00),
        (32, "set.le.u32.bf16x2 d, 0x3f80c000, 0x40003f80;", 0xffff_ffff),
        (32, "set.eq.s32.u64 d, 5, 5;", 0xffff_ffff),
        (32, "set.lt.and.f32.s32 d, -1, 2, !p;", 0),
        (32, "set.lt.or.f32.s32 d, 3, 2, p;", f(1.0)),
    ]);
}

#[test]
fn conversions() {
    check(&[
        (32, "cvt.rzi.s32.f64 d, 0dC00CCCCCCCCCCCCD;", (-3i32 as u32).into()),
        (32, "cvt.rpi.u32.f32 d, 0fBF800000;", 0),
        (32, "cvt.rni.s32.f32 d, 0f7FC00000;", 0),
        (64, "cvt.rmi.s64.f32 d, 0fC0200000;", -3i64 as u64),
        (64, "cvt.rzi.u64.f64 d, 0d7FF0000000000000;", u64::MAX),
        (16, "cvt.rzi.u16.f16 d, 0x4240;", 3),
        (16, "cvt.sat.u16.s32 d, -5;", 0),
        (16, "cvt.sat.s8.s32 d, 300;", 127),
        (16, "cvt.sat.s8.s32 d, -300;", 0xff80),
        (32, "cvt.sat.u32.u64 d, 0x100000000;", 0xffff_ffff),
        (32, "cvt.rz.f32.f64 d, 0d3FF000001FFFFFFF;", f(1.0)),
        (32, "cvt.rp.f32.s64 d, 0x1000001;", f(16_777_218.0)),
        (32, "cvt.rn.f32.u64 d, 0xffffffffffffffff;", f(2f32.powi(64))),
        (64, "cvt.rm.f64.u64 d, 0xffffffffffffffff;", 0x43ef_ffff_ffff_ffff),
        (64, "cvt.rpi.f64.f64 d, 0d3FF199999999999A;", 2f64.to_bits()),
        (64, "cvt.ftz.f64.f32 d, 0f00000001;", 0),
        (32, "cvt.sat.f32.f32 d, 0f40000000;", f(1.0)),
        (32, "cvt.rzi.ftz.f32.f32 d, 0fC0200000;", f(-2.0)),
        (16, "cvt.rz.f16.f64 d, 0d3FF003FFFFFFFFFF;", 0x3c00),
        (16, "cvt.rn.relu.f16.f32 d, 0fBF800000;", 0),
        (16, "cvt.rn.bf16.u64 d, 0x8080000000000001;", 0x5f01),
        (16, "cvt.rni.f16.f16 d, 0x4100;", 0x4000),
        (16, "cvt.rn.bf16.f16 d, 0x3c01;", 0x3f80),
        (32, "cvt.rna.tf32.f32 d, 0f3F801000;", 0x3f80_2000),
        (32, "cvt.rz.relu.bf16x2.f32 d, 0fBF800000, 0f3F80FFFF;", 0x0000_3f80),
        (16, "cvt.rn.satfinite.relu.e4m3x2.f32 d, 0f461C4000, 0fBF800000;", 0x7e00),
        (16, "cvt.rn.satfinite.e5m2x2.f16x2 d, 0x3c00bc00;", 0x3cbc),
        (32, "cvt.rn.f16x2.e4m3x2 d, 0x38b8;", 0x3c00_bc00),
        (32, "cvt.rn.relu.f16x2.e5m2x2 d, 0x3cbc;", 0x3c00_0000),
    ]);
}

#[test]
fn forms_that_do_not_exist_are_errors_at_load() {
    let error = |line: &str| {
        load_error(&format!(".entry k() {{ .reg .f32 f; .reg .b32 r; .reg .b16 h; .reg .f64 d;\n{line} }}"))
    };
    for line in [
        "cvt.s32.f32 r, f;",
        "cvt.f32.f64 f, d;",
        "cvt.rn.f32.f16 f, h;",
        "cvt.rni.f16.f32 h, f;",
        "cvt.relu.f32.f32 f, f;",
        "cvt.rn.e4m3x2.f32 h, f, f;",
        "cvt.rna.f32.f64 f, d;",
        "cvt.rn.satfinite.e2m3x2.f32 h, f, f;",
        "cvt.rs.f16x2.f32 r, f, f, r;",
    ] {
        let message = error(line);
        assert!(message.starts_with("PTX line 3: cvt."), "{line} {message}");
    }
}
