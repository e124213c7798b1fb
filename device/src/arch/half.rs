//! Arithmetic of pairs of 16-bit floating-point numbers: two in a register, the first in the low half.
//!
//! PTX ISA, "Half Precision Floating Point Instructions"; sm_80.

macro_rules! pairs {
    ($($(#[$doc:meta])* $name:ident($($x:ident),*) = $asm:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// PTX ISA, "Half Precision Floating Point Instructions"; sm_80.
        #[inline(always)]
        pub fn $name($($x: u32),*) -> u32 {
            let r: u32;
            // SAFETY: registers alone.
            unsafe { ptx!($asm, out(reg32) r $(, in(reg32) $x)*, options(pure, nomem)) };
            r
        }
    )* };
}

pairs! {
    /// `fma.rn.f16x2`: a b + c, rounded once.
    fma_f16x2(a, b, c) = "fma.rn.f16x2 {0}, {1}, {2}, {3};";

    /// `fma.rn.bf16x2`: a b + c, rounded once.
    fma_bf16x2(a, b, c) = "fma.rn.bf16x2 {0}, {1}, {2}, {3};";

    /// `add.rn.f16x2`: a + b.
    add_f16x2(a, b) = "add.rn.f16x2 {0}, {1}, {2};";

    /// `mul.rn.f16x2`: a b.
    mul_f16x2(a, b) = "mul.rn.f16x2 {0}, {1}, {2};";

    /// `sub.rn.f16x2`: a - b.
    sub_f16x2(a, b) = "sub.rn.f16x2 {0}, {1}, {2};";
}

/// The same number twice, as a pair.
///
/// PTX ISA, "mov": arithmetic of pairs takes it from one half of a register; sm_80.
#[inline(always)]
pub fn twice_f16x2(x: u16) -> u32 {
    let r: u32;
    // SAFETY: registers alone.
    unsafe { ptx!("mov.b32 {0}, {{{1}, {1}}};", out(reg32) r, in(reg16) x, options(pure, nomem)) };
    r
}
