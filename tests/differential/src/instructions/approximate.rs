//! Instructions that approximate: results lie within the manual's bounds of the true ones, so two of them within both.
//!
//! PTX ISA, "Floating Point Instructions" and "Half Precision Floating Point Instructions": the maximum errors of each.

use super::{Agreement, Instruction, parse};

/// Half a unit in the last place of f32, by which the emulator's correctly rounded results are off.
const ROUNDING: f64 = 1.0 / (1 << 24) as f64;
/// The smallest normal f32: subnormal results may be flushed or not.
const SUBNORMAL: f64 = f32::MIN_POSITIVE as f64;

/// Instructions with the bounds of their errors.
pub(super) fn table() -> Vec<(Instruction, Agreement)> {
    let ulp = 2.0 * ROUNDING;
    let relative = |bound: f64| Agreement::F32 { relative: bound + ROUNDING, absolute: SUBNORMAL };
    let absolute = |bound: f64| Agreement::F32 { relative: ROUNDING, absolute: bound };
    // Of sine and cosine within two periods: everything between -4 and 4.
    let range = "and.b32 %d, %a, 0x81ffffff; or.b32 %d, %d, 0x3e000000;";
    let sine = format!("f=f: {range} {{sin,cos}}.approx{{,.ftz}}.f32 %d, %d;");
    let near_one =
        "f=f: and.b32 %d, %a, 0x00ffffff; or.b32 %d, %d, 0x3f000000; lg2.approx{,.ftz}.f32 %d, %d;";
    // Divisors up to 2^126; beyond, the manual gives quotients of zero.
    let divisor = "and.b32 %d, %b, 0xbfffffff;";
    let tables: [(&str, Agreement); 13] = [
        ("f=f: ex2.approx{,.ftz}.f32 %d, %a;", relative(2.0 * ulp)),
        (
            "f=f: and.b32 %d, %a, 0x7fffffff; lg2.approx{,.ftz}.f32 %d, %d;",
            Agreement::F32 { relative: ulp * 2.0 + ROUNDING, absolute: 2.0 * ulp },
        ),
        (near_one, absolute(2.0 * ulp)),
        ("f=f: rcp.approx{,.ftz}.f32 %d, %a;", relative(ulp)),
        ("f=f: rsqrt.approx{,.ftz}.f32 %d, %a;", relative(1.1 * ulp)),
        ("f=f: sqrt.approx{,.ftz}.f32 %d, %a;", relative(2.0 * ulp)),
        (&sine, absolute(0.5f64.powf(20.5))),
        ("f=f: tanh.approx.f32 %d, %a;", relative(0.5f64.powi(11))),
        (&format!("f=ff: {divisor} div.approx{{,.ftz}}.f32 %d, %a, %d;"), relative(2.0 * ulp)),
        ("f=ff: div.full{,.ftz}.f32 %d, %a, %b;", relative(2.0 * ulp)),
        (
            "x=x: {ex2,tanh}.approx.f16x2 %d, %a;",
            Agreement::F16 { relative: 0.5f64.powf(9.9) + 0.5f64.powi(11), absolute: 0.5f64.powf(10.5) },
        ),
        (
            "y=y: ex2.approx.ftz.bf16x2 %d, %a;",
            Agreement::Bf16 { relative: 0.5f64.powi(6), absolute: SUBNORMAL },
        ),
        (
            "y=y: tanh.approx.bf16x2 %d, %a;",
            Agreement::Bf16 { relative: 0.5f64.powi(8), absolute: 0.5f64.powi(8) },
        ),
    ];
    let lines = tables.into_iter().flat_map(|(line, agreement)| {
        parse(line).into_iter().map(move |instruction| (instruction, agreement))
    });
    lines.collect()
}
