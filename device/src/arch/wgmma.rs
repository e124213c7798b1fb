//! Matrix products of a warpgroup with operands in shared memory, asynchronous.
//!
//! `D (64×N) += A (64×16) · B (16×N)` of 16-bit elements or of pairs of 8-bit floats, accumulated in f32, or of pairs of int8,
//! accumulated in i32. The order of a product: [`fence`], one or more products, [`commit`], and [`wait`] or [`Settle::settle`]
//! before the registers are used.
//!
//! PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"; all of sm_90a.

use half::{bf16, f16};

use super::mma::{E4M3E5M2x2, E4M3x2, E5M2E4M3x2, E5M2x2, HalfTf32, I8x2};

mod bytes;
use bytes::{byte_products, integer_products};

/// Where a matrix lies in shared memory: PTX ISA, "Matrix Descriptor Format".
///
/// In two halves, joined only in the instruction: the high one is a constant, and from a
/// warp-uniform low one ptxas then makes uniform registers without moves between the products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Bits 0 to 31: the start address over 16, and the leading-dimension offset over 16 at bit 16.
    pub lo: u32,
    /// Bits 32 to 63: the stride-dimension offset over 16, and the swizzle in the top two bits.
    pub hi: u32,
}

impl Descriptor {
    /// All 64 bits, of which the compiler is not to know any.
    #[inline(always)]
    pub fn joined(self) -> u64 {
        let bits: u64;
        // SAFETY: a move.
        unsafe {
            ptx!("mov.b64 {0}, {{{1}, {2}}};",
                out(reg64) bits, in(reg32) self.lo, in(reg32) self.hi, options(nomem))
        };
        bits
    }
}

impl From<u64> for Descriptor {
    #[inline(always)]
    fn from(bits: u64) -> Self {
        Descriptor { lo: bits as u32, hi: (bits >> 32) as u32 }
    }
}

/// `wgmma.fence`: orders earlier accesses to the products' registers before the next products.
///
/// PTX ISA, "wgmma.fence"; sm_90a.
///
/// # Safety
/// All warps of the warpgroup execute it.
#[inline(always)]
pub unsafe fn fence() {
    // SAFETY: the caller's.
    unsafe { ptx!("wgmma.fence.sync.aligned;") }
}

/// `wgmma.commit_group`: closes the group of the products since the last one.
///
/// An empty group costs a dummy product: commit only after a product. PTX ISA,
/// "wgmma.commit_group"; sm_90a.
///
/// # Safety
/// All warps of the warpgroup execute it.
#[inline(always)]
pub unsafe fn commit() {
    // SAFETY: the caller's.
    unsafe { ptx!("wgmma.commit_group.sync.aligned;") }
}

/// `wgmma.wait_group`: waits until all but the last `N` groups are complete.
///
/// LLVM may move uses of the accumulators above it: before they are used, pass them through
/// [`Settle::settle`], or [`Settle::touch`] after this. PTX ISA, "wgmma.wait_group"; sm_90a.
///
/// # Safety
/// All warps of the warpgroup execute it.
#[inline(always)]
pub unsafe fn wait<const N: u32>() {
    // SAFETY: the caller's.
    unsafe { ptx!("wgmma.wait_group.sync.aligned {0};", const N) }
}

/// `wgmma.mma_async` m64nNk16 with f32 accumulators; `Self` is the element type of A and B. Of pairs of bytes it is m64nNk32, and
/// both operands are K-major: of [`I8x2`] s8 with i32 accumulators, of [`E4M3x2`], [`E5M2x2`], [`E4M3E5M2x2`] and [`E5M2E4M3x2`]
/// 8-bit floats with f32 accumulators, which keep fewer bits than an f32 has. Of [`HalfTf32`] it is m64nNk8 of tf32, K-major too.
///
/// With `accumulate` 0 the product overwrites the accumulators, with 1 it is added. `TA` and `TB`
/// are 0 for a K-major operand in shared memory and 1 for an MN-major one.
#[diagnostic::on_unimplemented(
    message = "wgmma has no m64n{N}k16 product of `{Self}` elements",
    note = "elements are f16, bf16, pairs of 8-bit floats or HalfTf32, and N is a multiple of 8 from 8 to 256; of I8x2 from 32 on a multiple of 16"
)]
pub trait Wgmma<const N: usize>: Copy {
    /// A thread's share of the 64×N accumulators: `[f32; N / 2]`, or as many `i32`.
    type Acc: Copy;

    /// A and B from shared memory. PTX ISA, "wgmma.mma_async"; sm_90a.
    ///
    /// # Safety
    /// All warps of the warpgroup execute it, after a [`fence`]. The descriptors name matrices in
    /// shared memory that stay unchanged until the product is complete, written before a fence of
    /// the async proxy or by TMA. Nobody uses `acc` until it has settled, but further products of
    /// the same shape.
    unsafe fn ss<const TA: u32, const TB: u32>(
        acc: &mut Self::Acc,
        a: Descriptor,
        b: Descriptor,
        accumulate: u32,
    );

    /// A from registers, B from shared memory. PTX ISA, "wgmma.mma_async"; sm_90a.
    ///
    /// # Safety
    /// As for [`ss`](Wgmma::ss); the registers of `a` too stay unchanged until the product is complete.
    unsafe fn rs<const TB: u32>(acc: &mut Self::Acc, a: [u32; 4], b: Descriptor, accumulate: u32);
}

/// The same registers, with their values in them from here on: an operand of [`Wgmma::rs`] is computed before the
/// [`fence`].
///
/// An empty instruction. PTX ISA, "wgmma.fence"; sm_80.
#[inline(always)]
pub fn define(a: [u32; 4]) -> [u32; 4] {
    let [mut w, mut x, mut y, mut z] = a;
    // SAFETY: no instruction.
    unsafe { ptx!("// {0} {1} {2} {3}", inout(reg32) w, inout(reg32) x, inout(reg32) y, inout(reg32) z) };
    [w, x, y, z]
}

/// A register that the next product overwrites: no value is put into it.
///
/// An empty instruction. PTX ISA, "wgmma.mma_async", operand `scale-d`; sm_80.
#[inline(always)]
pub fn overwritten() -> f32 {
    let x: f32;
    // SAFETY: no instruction; every value of a register is an `f32`.
    unsafe { ptx!("// {0}", out(reg32) x, options(nomem)) };
    x
}

/// Registers that products in flight may be writing.
///
/// Implemented for `[f32; L]`, `L` a multiple of 4 up to 128, or 160, 192 or 256, and for arrays of those.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an accumulator of wgmma",
    note = "accumulators are `[f32; L]` with L a multiple of 4 up to 128, or 160, 192 or 256"
)]
pub trait Settle {
    /// `wgmma.wait_group 0` that all the registers pass through: no use of them moves above it.
    ///
    /// PTX ISA, "wgmma.wait_group"; sm_90a.
    ///
    /// # Safety
    /// All warps of the warpgroup execute it.
    unsafe fn settle(&mut self);

    /// Passes all the registers through an empty instruction: no use of them moves above it.
    ///
    /// # Safety
    /// After a wait that completed the products that write them.
    unsafe fn touch(&mut self);
}

macro_rules! products {
    ($ty:ident, $name:literal, $n:literal, [$i0:literal $($i:literal)*]) => {
        #[diagnostic::do_not_recommend]
        impl Wgmma<$n> for $ty {
            type Acc = [f32; $n / 2];

            #[inline(always)]
            unsafe fn ss<const TA: u32, const TB: u32>(
                acc: &mut Self::Acc, a: Descriptor, b: Descriptor, accumulate: u32,
            ) {
                // SAFETY: the caller's.
                unsafe {
                    ptx!(
                        concat!(
                            "{{ .reg .pred p; .reg .b64 a, b; setp.ne.u32 p, {d}, 0; ",
                            "mov.b64 a, {{{a0}, {a1}}}; mov.b64 b, {{{b0}, {b1}}}; ",
                            "wgmma.mma_async.sync.aligned.m64n", $n, "k16.f32.", $name, ".", $name,
                            " {{{", $i0, "}", $(", {", $i, "}",)* "}}, a, b, p, 1, 1, {ta}, {tb}; }}",
                        ),
                        inout(reg32) acc[$i0], $(inout(reg32) acc[$i],)* d = in(reg32) accumulate,
                        a0 = in(reg32) a.lo, a1 = in(reg32) a.hi, b0 = in(reg32) b.lo, b1 = in(reg32) b.hi,
                        ta = const TA, tb = const TB
                    )
                }
            }

            #[inline(always)]
            unsafe fn rs<const TB: u32>(acc: &mut Self::Acc, a: [u32; 4], b: Descriptor, accumulate: u32) {
                // SAFETY: the caller's.
                unsafe {
                    ptx!(
                        concat!(
                            "{{ .reg .pred p; .reg .b64 b; setp.ne.u32 p, {d}, 0; mov.b64 b, {{{b0}, {b1}}}; ",
                            "wgmma.mma_async.sync.aligned.m64n", $n, "k16.f32.", $name, ".", $name,
                            " {{{", $i0, "}", $(", {", $i, "}",)* "}}, {{{a0}, {a1}, {a2}, {a3}}}, b, p, 1, 1, {tb}; }}",
                        ),
                        inout(reg32) acc[$i0], $(inout(reg32) acc[$i],)* d = in(reg32) accumulate,
                        a0 = in(reg32) a[0], a1 = in(reg32) a[1], a2 = in(reg32) a[2], a3 = in(reg32) a[3],
                        b0 = in(reg32) b.lo, b1 = in(reg32) b.hi, tb = const TB
                    )
                }
            }
        }
    };
}

/// Every shape: each line adds 8 columns, and with them 4 registers, to those above it.
macro_rules! shapes {
    ([$($regs:literal)*]) => {};
    ([$($regs:literal)*] $n:tt: $($more:literal)*; $($rest:tt)*) => {
        shapes!(@shape $n, [$($regs)* $($more)*]);
        shapes!([$($regs)* $($more)*] $($rest)*);
    };
    (@shape $n:tt, [$($i:literal)*]) => {
        products!(f16, "f16", $n, [$($i)*]);
        products!(bf16, "bf16", $n, [$($i)*]);
        integer_products!($n [$($i)*]);
        byte_products!(E4M3x2, f32, "k32.f32.e4m3.e4m3", ", 1, 1", $n [$($i)*]);
        byte_products!(E5M2x2, f32, "k32.f32.e5m2.e5m2", ", 1, 1", $n [$($i)*]);
        byte_products!(E4M3E5M2x2, f32, "k32.f32.e4m3.e5m2", ", 1, 1", $n [$($i)*]);
        byte_products!(E5M2E4M3x2, f32, "k32.f32.e5m2.e4m3", ", 1, 1", $n [$($i)*]);
        byte_products!(HalfTf32, f32, "k8.f32.tf32.tf32", ", 1, 1", $n [$($i)*]);

        impl Settle for [f32; $n / 2] {
            #[inline(always)]
            unsafe fn settle(&mut self) {
                // SAFETY: the caller's.
                unsafe {
                    ptx!(concat!("wgmma.wait_group.sync.aligned 0; //", $(" {", $i, "}",)*), $(inout(reg32) self[$i]),*)
                }
            }

            #[inline(always)]
            unsafe fn touch(&mut self) {
                // SAFETY: no instruction.
                unsafe { ptx!(concat!("//", $(" {", $i, "}",)*), $(inout(reg32) self[$i]),*) }
            }
        }
    };
}

shapes! { []
    8: 0 1 2 3;
    16: 4 5 6 7;
    24: 8 9 10 11;
    32: 12 13 14 15;
    40: 16 17 18 19;
    48: 20 21 22 23;
    56: 24 25 26 27;
    64: 28 29 30 31;
    72: 32 33 34 35;
    80: 36 37 38 39;
    88: 40 41 42 43;
    96: 44 45 46 47;
    104: 48 49 50 51;
    112: 52 53 54 55;
    120: 56 57 58 59;
    128: 60 61 62 63;
    136: 64 65 66 67;
    144: 68 69 70 71;
    152: 72 73 74 75;
    160: 76 77 78 79;
    168: 80 81 82 83;
    176: 84 85 86 87;
    184: 88 89 90 91;
    192: 92 93 94 95;
    200: 96 97 98 99;
    208: 100 101 102 103;
    216: 104 105 106 107;
    224: 108 109 110 111;
    232: 112 113 114 115;
    240: 116 117 118 119;
    248: 120 121 122 123;
    256: 124 125 126 127;
}

/// Accumulators of more registers than one asm takes: the first 128 wait, the rest follow.
macro_rules! in_two {
    ($($rest:literal)*) => { $(
        impl Settle for [f32; 128 + $rest] {
            #[inline(always)]
            unsafe fn settle(&mut self) {
                let (first, rest) = halves::<$rest>(self);
                // SAFETY: the caller's; the wait in `settle` is for the registers of both.
                unsafe {
                    first.settle();
                    rest.touch();
                }
            }

            #[inline(always)]
            unsafe fn touch(&mut self) {
                let (first, rest) = halves::<$rest>(self);
                // SAFETY: the caller's.
                unsafe {
                    first.touch();
                    rest.touch();
                }
            }
        }
    )* };
}
in_two!(32 64 128);

/// The first 128 registers and the other `REST`.
#[inline(always)]
fn halves<const REST: usize>(all: &mut [f32]) -> (&mut [f32; 128], &mut [f32; REST]) {
    assert!(all.len() == 128 + REST);
    let at: *mut f32 = all.as_mut_ptr();
    // SAFETY: two disjoint parts of the slice, whose length was checked.
    unsafe { (&mut *at.cast(), &mut *at.add(128).cast()) }
}

/// The accumulators of several products.
impl<T: Settle, const COUNT: usize> Settle for [T; COUNT] {
    #[inline(always)]
    unsafe fn settle(&mut self) {
        for (i, part) in self.iter_mut().enumerate() {
            // SAFETY: the caller's; the first wait is for all of them.
            unsafe { if i == 0 { part.settle() } else { part.touch() } }
        }
    }

    #[inline(always)]
    unsafe fn touch(&mut self) {
        for part in self {
            // SAFETY: the caller's.
            unsafe { part.touch() }
        }
    }
}
