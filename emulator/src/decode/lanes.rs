//! Functions of whole registers, from expressions of one lane.

/// How a lane's slot of a register file holds a value.
pub(crate) trait Lane<Slot> {
    fn get(slot: Slot) -> Self;
    fn put(self) -> Slot;
}

macro_rules! lane {
    ($($ty:ty as $slot:ty: |$s:ident| $get:expr, |$v:ident| $put:expr;)*) => { $(
        impl Lane<$slot> for $ty {
            #[inline(always)]
            fn get($s: $slot) -> Self {
                $get
            }
            #[inline(always)]
            fn put(self) -> $slot {
                let $v = self;
                $put
            }
        }
    )* };
}
lane! {
    u8 as u32: |s| s as u8, |v| v.into();
    i8 as u32: |s| s as i8, |v| (v as u8).into();
    u8 as u64: |s| s as u8, |v| v.into();
    i8 as u64: |s| s as i8, |v| (v as u8).into();
    u16 as u64: |s| s as u16, |v| v.into();
    i16 as u64: |s| s as i16, |v| (v as u16).into();
    u32 as u64: |s| s as u32, |v| v.into();
    i32 as u64: |s| s as i32, |v| (v as u32).into();
    u16 as u32: |s| s as u16, |v| v.into();
    i16 as u32: |s| s as i16, |v| (v as u16).into();
    u32 as u32: |s| s, |v| v;
    i32 as u32: |s| s as i32, |v| v as u32;
    f32 as u32: |s| f32::from_bits(s), |v| if v.is_nan() { 0x7fff_ffff } else { v.to_bits() };
    u64 as u64: |s| s, |v| v;
    i64 as u64: |s| s as i64, |v| v as u64;
    f64 as u64: |s| f64::from_bits(s), |v| v.to_bits();
}

/// A function of one register: `f1!(|a: u32| -> u32 { !a })`.
macro_rules! f1 {
    (|$a:ident: $A:ty| -> $D:ty $e:block) => {
        $crate::wide::pointer!(
            [X, Z] fn(x: &[X; $crate::program::register::LANES], d: &mut [Z; $crate::program::register::LANES]) -> (),
            where [$A: $crate::decode::lanes::Lane<X>, $D: $crate::decode::lanes::Lane<Z>]
            {
                for i in 0..$crate::program::register::LANES {
                    let $a = <$A as $crate::decode::lanes::Lane<X>>::get(x[i]);
                    let value: $D = $e;
                    d[i] = $crate::decode::lanes::Lane::put(value);
                }
            }
        )
    };
}

/// A function of two registers.
macro_rules! f2 {
    (|$a:ident: $A:ty, $b:ident: $B:ty| -> $D:ty $e:block) => {
        $crate::wide::pointer!(
            [X, Y, Z] fn(
                x: &[X; $crate::program::register::LANES],
                y: &[Y; $crate::program::register::LANES],
                d: &mut [Z; $crate::program::register::LANES]
            ) -> (),
            where [
                $A: $crate::decode::lanes::Lane<X>,
                $B: $crate::decode::lanes::Lane<Y>,
                $D: $crate::decode::lanes::Lane<Z>
            ]
            {
                for i in 0..$crate::program::register::LANES {
                    let $a = <$A as $crate::decode::lanes::Lane<X>>::get(x[i]);
                    let $b = <$B as $crate::decode::lanes::Lane<Y>>::get(y[i]);
                    let value: $D = $e;
                    d[i] = $crate::decode::lanes::Lane::put(value);
                }
            }
        )
    };
}

/// A function of three registers.
macro_rules! f3 {
    (|$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty| -> $D:ty $e:block) => {
        $crate::wide::pointer!(
            [X, Y, V, Z] fn(
                x: &[X; $crate::program::register::LANES],
                y: &[Y; $crate::program::register::LANES],
                v: &[V; $crate::program::register::LANES],
                d: &mut [Z; $crate::program::register::LANES]
            ) -> (),
            where [
                $A: $crate::decode::lanes::Lane<X>,
                $B: $crate::decode::lanes::Lane<Y>,
                $C: $crate::decode::lanes::Lane<V>,
                $D: $crate::decode::lanes::Lane<Z>
            ]
            {
                for i in 0..$crate::program::register::LANES {
                    let $a = <$A as $crate::decode::lanes::Lane<X>>::get(x[i]);
                    let $b = <$B as $crate::decode::lanes::Lane<Y>>::get(y[i]);
                    let $c = <$C as $crate::decode::lanes::Lane<V>>::get(v[i]);
                    let value: $D = $e;
                    d[i] = $crate::decode::lanes::Lane::put(value);
                }
            }
        )
    };
}

/// A comparison of two registers.
macro_rules! comparison {
    (|$a:ident: $A:ty, $b:ident| $e:expr) => {
        $crate::wide::pointer!(
            [X] fn(x: &[X; $crate::program::register::LANES], y: &[X; $crate::program::register::LANES]) -> u32,
            where [$A: $crate::decode::lanes::Lane<X>]
            {
                let mut mask = 0u32;
                for i in 0..$crate::program::register::LANES {
                    let $a = <$A as $crate::decode::lanes::Lane<X>>::get(x[i]);
                    let $b = <$A as $crate::decode::lanes::Lane<X>>::get(y[i]);
                    mask |= u32::from($e) << i;
                }
                mask
            }
        )
    };
}

pub(super) use {comparison, f1, f2, f3};
