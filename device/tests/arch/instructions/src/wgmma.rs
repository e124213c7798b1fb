//! Matrix products of a warpgroup, in every shape.

use tilewright_device::arch::mma::{E4M3E5M2x2, E4M3x2, E5M2E4M3x2, E5M2x2, HalfTf32, I8x2};
use tilewright_device::arch::wgmma::{self, Descriptor, Settle, Wgmma};
use tilewright_device::{bf16, f16};

use crate::Given;

/// The orders that A and B can have in shared memory.
#[inline(always)]
unsafe fn from_shared<T: Wgmma<N, Acc = [f32; L]>, const N: usize, const L: usize>(g: Given) -> [f32; L]
where
    [f32; L]: Settle,
{
    let (a, b) = (Descriptor { lo: g.x, hi: g.n }, Descriptor { lo: g.n, hi: g.n });
    let mut d = [0.0; L];
    // SAFETY: nobody runs it.
    unsafe {
        wgmma::fence();
        T::ss::<0, 0>(&mut d, a, b, 0);
        T::ss::<1, 1>(&mut d, a, b, 1);
        T::ss::<0, 1>(&mut d, a, b, g.x);
        T::ss::<1, 0>(&mut d, a, b, g.x);
        wgmma::commit();
        d.settle();
    }
    d
}

#[inline(always)]
unsafe fn from_registers<T: Wgmma<N, Acc = [f32; L]>, const N: usize, const L: usize>(g: Given) -> [f32; L]
where
    [f32; L]: Settle,
{
    let b = Descriptor { lo: g.x, hi: g.n };
    let a = wgmma::define([g.x, g.n, g.x + 1, g.n + 1]);
    let mut d = [0.0; L];
    // SAFETY: nobody runs it.
    unsafe {
        wgmma::fence();
        T::rs::<0>(&mut d, a, b, 0);
        T::rs::<1>(&mut d, a, b, 1);
        wgmma::commit();
        wgmma::wait::<0>();
        d.touch();
    }
    d
}

macro_rules! shapes {
    ($($n:literal $f16:ident $bf16:ident;)*) => {
        entries! { Sm90a: $(
            $f16 => |r, g| {
                r.keep(from_shared::<f16, $n, { $n / 2 }>(g));
                r.keep(from_registers::<f16, $n, { $n / 2 }>(g));
            }
            $bf16 => |r, g| {
                r.keep(from_shared::<bf16, $n, { $n / 2 }>(g));
                r.keep(from_registers::<bf16, $n, { $n / 2 }>(g));
            }
        )* }
    };
}
shapes! {
    8 f16_n8 bf16_n8;
    16 f16_n16 bf16_n16;
    24 f16_n24 bf16_n24;
    32 f16_n32 bf16_n32;
    40 f16_n40 bf16_n40;
    48 f16_n48 bf16_n48;
    56 f16_n56 bf16_n56;
    64 f16_n64 bf16_n64;
    72 f16_n72 bf16_n72;
    80 f16_n80 bf16_n80;
    88 f16_n88 bf16_n88;
    96 f16_n96 bf16_n96;
    104 f16_n104 bf16_n104;
    112 f16_n112 bf16_n112;
    120 f16_n120 bf16_n120;
    128 f16_n128 bf16_n128;
    136 f16_n136 bf16_n136;
    144 f16_n144 bf16_n144;
    152 f16_n152 bf16_n152;
    160 f16_n160 bf16_n160;
    168 f16_n168 bf16_n168;
    176 f16_n176 bf16_n176;
    184 f16_n184 bf16_n184;
    192 f16_n192 bf16_n192;
    200 f16_n200 bf16_n200;
    208 f16_n208 bf16_n208;
    216 f16_n216 bf16_n216;
    224 f16_n224 bf16_n224;
    232 f16_n232 bf16_n232;
    240 f16_n240 bf16_n240;
    248 f16_n248 bf16_n248;
    256 f16_n256 bf16_n256;
}

/// Pairs of int8, whose operands have one order.
#[inline(always)]
unsafe fn of_bytes<const N: usize, const L: usize>(g: Given) -> [i32; L]
where
    I8x2: Wgmma<N, Acc = [i32; L]>,
{
    let b = Descriptor { lo: g.x, hi: g.n };
    let a = wgmma::define([g.x, g.n, g.x + 1, g.n + 1]);
    let mut d = [0; L];
    // SAFETY: nobody runs it.
    unsafe {
        wgmma::fence();
        <I8x2 as Wgmma<N>>::ss::<0, 0>(&mut d, b, b, 0);
        <I8x2 as Wgmma<N>>::rs::<0>(&mut d, a, b, g.x);
        wgmma::commit();
        wgmma::wait::<0>();
    }
    d
}

macro_rules! byte_shapes {
    ($($n:literal $name:ident;)*) => {
        entries! { Sm90a: $(
            $name => |r, g| {
                r.keep(of_bytes::<$n, { $n / 2 }>(g));
            }
        )* }
    };
}
byte_shapes! {
    8 i8_n8;
    16 i8_n16;
    24 i8_n24;
    32 i8_n32;
    48 i8_n48;
    64 i8_n64;
    80 i8_n80;
    96 i8_n96;
    112 i8_n112;
    128 i8_n128;
    144 i8_n144;
    160 i8_n160;
    176 i8_n176;
    192 i8_n192;
    208 i8_n208;
    224 i8_n224;
    240 i8_n240;
    256 i8_n256;
}

/// Pairs of 8-bit floats and halves of tf32, in the least shape, the largest and one between: the text is one macro's, as that of int8.
#[inline(always)]
unsafe fn of_floats<T: Wgmma<N, Acc = [f32; L]>, const N: usize, const L: usize>(g: Given) -> [f32; L]
where
    [f32; L]: Settle,
{
    let b = Descriptor { lo: g.x, hi: g.n };
    let a = wgmma::define([g.x, g.n, g.x + 1, g.n + 1]);
    let mut d = [0.0; L];
    // SAFETY: nobody runs it.
    unsafe {
        wgmma::fence();
        T::ss::<0, 0>(&mut d, b, b, 0);
        T::rs::<0>(&mut d, a, b, g.x);
        wgmma::commit();
        d.settle();
    }
    d
}

macro_rules! float_shapes {
    ($($t:ident $n8:ident $n136:ident $n256:ident;)*) => {
        entries! { Sm90a: $(
            $n8 => |r, g| {
                r.keep(of_floats::<$t, 8, 4>(g));
            }
            $n136 => |r, g| {
                r.keep(of_floats::<$t, 136, 68>(g));
            }
            $n256 => |r, g| {
                r.keep(of_floats::<$t, 256, 128>(g));
            }
        )* }
    };
}
float_shapes! {
    E4M3x2 e4m3_n8 e4m3_n136 e4m3_n256;
    E5M2x2 e5m2_n8 e5m2_n136 e5m2_n256;
    E4M3E5M2x2 e4m3_e5m2_n8 e4m3_e5m2_n136 e4m3_e5m2_n256;
    E5M2E4M3x2 e5m2_e4m3_n8 e5m2_e4m3_n136 e5m2_e4m3_n256;
    HalfTf32 tf32_n8 tf32_n136 tf32_n256;
}

/// More registers than one asm takes.
#[inline(always)]
unsafe fn settled<S: Settle>(mut d: S) -> S {
    // SAFETY: nobody runs it.
    unsafe {
        d.settle();
        d.touch();
    }
    d
}

entries! { Sm90a:
    overwritten => |r, g| {
        r.keep([wgmma::overwritten() * g.f]);
    }
    settle_160 => |r, g| {
        r.keep(settled([g.f; 160]));
    }
    settle_192 => |r, g| {
        r.keep(settled([g.f; 192]));
    }
    settle_arrays => |r, g| {
        r.keep(settled([[g.f; 32]; 3]));
    }
}
