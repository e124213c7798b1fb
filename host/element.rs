//! The element types of tensors.

use std::fmt;

use half::{bf16, f16};

use crate::fp8::{F8E4M3, F8E5M2};

/// The type of a tensor's elements, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// IEEE half precision.
    F16,
    /// The upper half of an `f32`.
    BF16,
    /// IEEE single precision.
    F32,
    /// Unsigned bytes; quantised weights are packed in them.
    U8,
    /// Signed bytes.
    I8,
    /// 32-bit unsigned integers.
    U32,
    /// 32-bit signed integers.
    I32,
    /// 64-bit signed integers.
    I64,
    /// Floating point of 8 bits, three of them of mantissa.
    E4M3,
    /// Floating point of 8 bits, two of them of mantissa.
    E5M2,
}

impl DType {
    /// Size of an element in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            DType::U8 | DType::I8 | DType::E4M3 | DType::E5M2 => 1,
            DType::F16 | DType::BF16 => 2,
            DType::F32 | DType::U32 | DType::I32 => 4,
            DType::I64 => 8,
        }
    }
}

impl DType {
    /// The type's name: as in Rust, or that of the [`Format`](crate::quant::Format) of 8 bits.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::U32 => "u32",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::E4M3 => "e4m3",
            DType::E5M2 => "e5m2",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that tensors are made of. Every bit pattern is a value of it, so device memory of any content is.
pub trait Element: sealed::Bits + Copy + Default + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// The type as a value.
    const DTYPE: DType;
}

pub(crate) mod sealed {
    /// The bits of an element, low in a `u64`: what a fill writes.
    pub trait Bits {
        fn bits(self) -> u64;
    }
}

macro_rules! element {
    ($($t:ident $dtype:ident $bits:expr;)*) => { $(
        impl sealed::Bits for $t {
            fn bits(self) -> u64 {
                let bits: fn($t) -> u64 = $bits;
                bits(self)
            }
        }
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
        }
        const _: () = assert!(DType::$dtype.bytes() == size_of::<$t>());
    )* };
}
element! {
    f16 F16 |x| x.to_bits().into();
    bf16 BF16 |x| x.to_bits().into();
    f32 F32 |x| x.to_bits().into();
    u8 U8 u64::from;
    i8 I8 |x| x.cast_unsigned().into();
    u32 U32 u64::from;
    i32 I32 |x| x.cast_unsigned().into();
    i64 I64 i64::cast_unsigned;
    F8E4M3 E4M3 |x| x.to_bits().into();
    F8E5M2 E5M2 |x| x.to_bits().into();
}
