//! Matrix products of a warp with operands in registers.
//!
//! `D (16×8) += A (16×K, row-major) · B (K×8, column-major)`. Which lane holds which element:
//! PTX ISA, "Matrix Fragments for mma" of each shape.
//!
//! PTX ISA, "mma"; sm_80.

use half::{bf16, f16};

/// Two int8 that are neighbours along K, the first in the low byte: products of bytes take such a pair where others take an
/// element of 16 bits, so that their operands lie alike.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct I8x2(pub u16);

macro_rules! floats {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub u16);
    )* };
}
floats! {
    /// As [`I8x2`], of e4m3: four bits of exponent, three of mantissa, NaN but no infinities.
    E4M3x2;
    /// As [`I8x2`], of e5m2: five bits of exponent, two of mantissa.
    E5M2x2;
    /// Two bytes of either operand of a product whose A is of e4m3 and whose B is of e5m2.
    E4M3E5M2x2;
    /// Two bytes of either operand of a product whose A is of e5m2 and whose B is of e4m3.
    E5M2E4M3x2;
    /// Half of an f32: two of them, neighbours along K, are an operand's element of a product of tf32, which reads its upper 19 bits.
    HalfTf32;
}

/// `mma.sync` with accumulators of `S`; `Self` is the element type of A and B.
#[diagnostic::on_unimplemented(
    message = "mma has no m16n8k16 product of `{Self}` elements",
    note = "elements are f16 or bf16, or I8x2 accumulated in i32"
)]
pub trait Mma<S = f32>: Copy {
    /// `mma.sync.m16n8k16`; m16n8k32 of s8 where the elements are [`I8x2`]. PTX ISA, "mma"; sm_80.
    ///
    /// # Safety
    /// All 32 lanes execute it.
    unsafe fn m16n8k16(d: &mut [S; 4], a: [u32; 4], b: [u32; 2]);

    /// `mma.sync.m16n8k8`; m16n8k16 of s8 where the elements are [`I8x2`]. PTX ISA, "mma"; sm_80.
    ///
    /// # Safety
    /// All 32 lanes execute it.
    unsafe fn m16n8k8(d: &mut [S; 4], a: [u32; 2], b: u32);
}

macro_rules! mma {
    ($($ty:ident $name:literal)*) => { $(
        impl Mma for $ty {
            #[inline(always)]
            unsafe fn m16n8k16(d: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
                // SAFETY: the caller's.
                unsafe {
                    ptx!(
                        concat!(
                            "mma.sync.aligned.m16n8k16.row.col.f32.", $name, ".", $name, ".f32 ",
                            "{{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};",
                        ),
                        inout(reg32) d[0], inout(reg32) d[1], inout(reg32) d[2], inout(reg32) d[3],
                        in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3],
                        in(reg32) b[0], in(reg32) b[1], options(nomem)
                    )
                }
            }

            #[inline(always)]
            unsafe fn m16n8k8(d: &mut [f32; 4], a: [u32; 2], b: u32) {
                // SAFETY: the caller's.
                unsafe {
                    ptx!(
                        concat!(
                            "mma.sync.aligned.m16n8k8.row.col.f32.", $name, ".", $name, ".f32 ",
                            "{{{0}, {1}, {2}, {3}}}, {{{4}, {5}}}, {{{6}}}, {{{0}, {1}, {2}, {3}}};",
                        ),
                        inout(reg32) d[0], inout(reg32) d[1], inout(reg32) d[2], inout(reg32) d[3],
                        in(reg32) a[0], in(reg32) a[1], in(reg32) b, options(nomem)
                    )
                }
            }
        }
    )* };
}
mma!(f16 "f16" bf16 "bf16");

/// `mma.sync.m16n8k8` of tf32: f32 values of which the hardware reads the upper 19 bits.
///
/// PTX ISA, "mma"; sm_80.
///
/// # Safety
/// All 32 lanes execute it.
#[inline(always)]
pub unsafe fn tf32_m16n8k8(d: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
    // SAFETY: the caller's.
    unsafe {
        ptx!(
            concat!(
                "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 ",
                "{{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};",
            ),
            inout(reg32) d[0], inout(reg32) d[1], inout(reg32) d[2], inout(reg32) d[3],
            in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3],
            in(reg32) b[0], in(reg32) b[1], options(nomem)
        )
    }
}

impl Mma<i32> for I8x2 {
    #[inline(always)]
    unsafe fn m16n8k16(d: &mut [i32; 4], a: [u32; 4], b: [u32; 2]) {
        // SAFETY: the caller's.
        unsafe {
            ptx!(
                concat!(
                    "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 ",
                    "{{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};",
                ),
                inout(reg32) d[0], inout(reg32) d[1], inout(reg32) d[2], inout(reg32) d[3],
                in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3],
                in(reg32) b[0], in(reg32) b[1], options(nomem)
            )
        }
    }

    #[inline(always)]
    unsafe fn m16n8k8(d: &mut [i32; 4], a: [u32; 2], b: u32) {
        // SAFETY: the caller's.
        unsafe {
            ptx!(
                concat!(
                    "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 ",
                    "{{{0}, {1}, {2}, {3}}}, {{{4}, {5}}}, {{{6}}}, {{{0}, {1}, {2}, {3}}};",
                ),
                inout(reg32) d[0], inout(reg32) d[1], inout(reg32) d[2], inout(reg32) d[3],
                in(reg32) a[0], in(reg32) a[1], in(reg32) b, options(nomem)
            )
        }
    }
}
