//! Arithmetic that Rust has no one-instruction spelling for.
//!
//! The approximations flush subnormal inputs and results to zero (`.ftz`) where the instruction
//! would else take more than one step.
//!
//! PTX ISA, "Floating Point Instructions", "Integer Arithmetic Instructions", "Logic and Shift Instructions".

macro_rules! pure {
    ($($(#[$doc:meta])* $name:ident$(<const $c:ident: $ct:ty>)?($($x:ident: $ty:ty),*) -> $out:ty = $asm:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name$(<const $c: $ct>)?($($x: $ty),*) -> $out {
            let r: $out;
            // SAFETY: registers alone.
            unsafe { ptx!($asm, out(reg32) r, $(in(reg32) $x,)* $(const $c,)? options(pure, nomem)) };
            r
        }
    )* };
}

pure! {
    /// `ex2.approx.ftz.f32`: 2 to the power of `x`.
    ///
    /// PTX ISA, "ex2"; sm_80.
    ex2(x: f32) -> f32 = "ex2.approx.ftz.f32 {0}, {1};";

    /// `lg2.approx.ftz.f32`: the binary logarithm.
    ///
    /// PTX ISA, "lg2"; sm_80.
    lg2(x: f32) -> f32 = "lg2.approx.ftz.f32 {0}, {1};";

    /// `rcp.approx.ftz.f32`: one over `x`.
    ///
    /// PTX ISA, "rcp.approx.ftz"; sm_80.
    rcp(x: f32) -> f32 = "rcp.approx.ftz.f32 {0}, {1};";

    /// `rsqrt.approx.ftz.f32`: one over the square root.
    ///
    /// PTX ISA, "rsqrt"; sm_80.
    rsqrt(x: f32) -> f32 = "rsqrt.approx.ftz.f32 {0}, {1};";

    /// `sqrt.approx.ftz.f32`: the square root.
    ///
    /// PTX ISA, "sqrt"; sm_80.
    sqrt(x: f32) -> f32 = "sqrt.approx.ftz.f32 {0}, {1};";

    /// `tanh.approx.f32`: the hyperbolic tangent, to a relative error of 2⁻¹¹.
    ///
    /// PTX ISA, "tanh"; sm_80.
    tanh(x: f32) -> f32 = "tanh.approx.f32 {0}, {1};";

    /// `fma.rn.f32`: `a * b + c`, rounded once.
    ///
    /// PTX ISA, "fma"; sm_80.
    fma(a: f32, b: f32, c: f32) -> f32 = "fma.rn.f32 {0}, {1}, {2}, {3};";

    /// `max.f32`: the greater; where one is NaN, the other.
    ///
    /// PTX ISA, "max"; sm_80.
    max(a: f32, b: f32) -> f32 = "max.f32 {0}, {1}, {2};";

    /// `cvt.rpi.f32.f32`: the least integer that is not less.
    ///
    /// PTX ISA, "cvt"; sm_80.
    ceil(x: f32) -> f32 = "cvt.rpi.f32.f32 {0}, {1};";

    /// `min.f32`: the lesser; where one is NaN, the other.
    ///
    /// PTX ISA, "min"; sm_80.
    min(a: f32, b: f32) -> f32 = "min.f32 {0}, {1}, {2};";

    /// `max.NaN.f32`: the greater, or NaN where one is.
    ///
    /// PTX ISA, "max"; sm_80.
    max_nan(a: f32, b: f32) -> f32 = "max.NaN.f32 {0}, {1}, {2};";

    /// `min.NaN.f32`: the lesser, or NaN where one is.
    ///
    /// PTX ISA, "min"; sm_80.
    min_nan(a: f32, b: f32) -> f32 = "min.NaN.f32 {0}, {1}, {2};";

    /// `lop3.b32`: the bitwise function of three operands that `TABLE` lists.
    ///
    /// `TABLE` is the function applied to 0xF0, 0xCC and 0xAA. PTX ISA, "lop3"; sm_80.
    lop3<const TABLE: u32>(a: u32, b: u32, c: u32) -> u32 = "lop3.b32 {0}, {1}, {2}, {3}, {4};";

    /// `prmt.b32`: picks four of the eight bytes of `b:a`, by a nibble of `select` each.
    ///
    /// PTX ISA, "prmt"; sm_80.
    prmt(a: u32, b: u32, select: u32) -> u32 = "prmt.b32 {0}, {1}, {2}, {3};";

    /// `dp4a.s32.s32`: the dot product of four signed bytes, added to `c`.
    ///
    /// PTX ISA, "dp4a"; sm_80.
    dp4a(a: u32, b: u32, c: i32) -> i32 = "dp4a.s32.s32 {0}, {1}, {2}, {3};";
}

/// `mul.rn.f64`: a product that is rounded, and not fused with what is added to it.
///
/// PTX ISA, "mul" of floating point; sm_80.
#[inline(always)]
pub fn mul_rn_f64(x: f64, y: f64) -> f64 {
    let r: u64;
    // SAFETY: registers alone.
    unsafe {
        ptx!("{{ .reg .f64 x, y; mov.b64 x, {1}; mov.b64 y, {2}; mul.rn.f64 x, x, y; mov.b64 {0}, x; }}",
            out(reg64) r, in(reg64) x.to_bits(), in(reg64) y.to_bits(), options(pure, nomem))
    };
    f64::from_bits(r)
}
