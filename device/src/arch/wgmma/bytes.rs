//! Products of bytes and of tf32: the instruction takes no orders of its operands, which are contiguous along K.

/// The products of pairs of bytes or halves of tf32: `$kind` is the instruction's depth and types, `$signs` what follows its predicate, the signs of
/// floating-point operands.
macro_rules! byte_products {
    ($ty:ident, $sum:ty, $kind:literal, $signs:literal, $n:tt [$i0:literal $($i:literal)*]) => {
        #[diagnostic::do_not_recommend]
        impl Wgmma<$n> for $ty {
            type Acc = [$sum; $n / 2];

            #[inline(always)]
            unsafe fn ss<const TA: u32, const TB: u32>(
                acc: &mut Self::Acc, a: Descriptor, b: Descriptor, accumulate: u32,
            ) {
                if TA + TB > 0 {
                    crate::arch::declare::refuse!("operands of products of bytes and of tf32 are contiguous along K");
                }
                // SAFETY: the caller's.
                unsafe {
                    ptx!(
                        concat!(
                            "{{ .reg .pred p; .reg .b64 a, b; setp.ne.u32 p, {d}, 0; ",
                            "mov.b64 a, {{{a0}, {a1}}}; mov.b64 b, {{{b0}, {b1}}}; ",
                            "wgmma.mma_async.sync.aligned.m64n", $n, $kind,
                            " {{{", $i0, "}", $(", {", $i, "}",)* "}}, a, b, p", $signs, "; }}",
                        ),
                        inout(reg32) acc[$i0], $(inout(reg32) acc[$i],)* d = in(reg32) accumulate,
                        a0 = in(reg32) a.lo, a1 = in(reg32) a.hi, b0 = in(reg32) b.lo, b1 = in(reg32) b.hi
                    )
                }
            }

            #[inline(always)]
            unsafe fn rs<const TB: u32>(acc: &mut Self::Acc, a: [u32; 4], b: Descriptor, accumulate: u32) {
                if TB > 0 {
                    crate::arch::declare::refuse!("operands of products of bytes and of tf32 are contiguous along K");
                }
                // SAFETY: the caller's.
                unsafe {
                    ptx!(
                        concat!(
                            "{{ .reg .pred p; .reg .b64 b; setp.ne.u32 p, {d}, 0; mov.b64 b, {{{b0}, {b1}}}; ",
                            "wgmma.mma_async.sync.aligned.m64n", $n, $kind,
                            " {{{", $i0, "}", $(", {", $i, "}",)* "}}, {{{a0}, {a1}, {a2}, {a3}}}, b, p", $signs, "; }}",
                        ),
                        inout(reg32) acc[$i0], $(inout(reg32) acc[$i],)* d = in(reg32) accumulate,
                        a0 = in(reg32) a[0], a1 = in(reg32) a[1], a2 = in(reg32) a[2], a3 = in(reg32) a[3],
                        b0 = in(reg32) b.lo, b1 = in(reg32) b.hi
                    )
                }
            }
        }
    };
}
pub(super) use byte_products;

/// The products of pairs of int8, which it does not have in every shape.
macro_rules! integer_products {
    (40 $i:tt) => {};
    (56 $i:tt) => {};
    (72 $i:tt) => {};
    (88 $i:tt) => {};
    (104 $i:tt) => {};
    (120 $i:tt) => {};
    (136 $i:tt) => {};
    (152 $i:tt) => {};
    (168 $i:tt) => {};
    (184 $i:tt) => {};
    (200 $i:tt) => {};
    (216 $i:tt) => {};
    (232 $i:tt) => {};
    (248 $i:tt) => {};
    ($n:tt $i:tt) => {
        byte_products!(I8x2, i32, "k32.s32.s8.s8", "", $n $i);
    };
}
pub(super) use integer_products;
