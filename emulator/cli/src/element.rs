//! The types of arguments, and numbers of them.

use half::{bf16, f16};

/// A number of any type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Of an integer type.
    Integer(i128),
    /// Of a floating-point type.
    Float(f64),
}

impl Number {
    /// As a floating-point number; integers beyond 2^53 are rounded.
    pub fn float(self) -> f64 {
        match self {
            Number::Integer(value) => value as f64,
            Number::Float(value) => value,
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Integer(value) => value.fmt(f),
            Number::Float(value) => write!(f, "{value:?}"),
        }
    }
}

macro_rules! elements {
    ($($name:literal $variant:ident $type:ident $kind:ident $descr:literal)*) => {
        /// The type of an argument, or of a buffer's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Element { $($variant,)* }

        impl Element {
            /// Every type.
            pub const ALL: &[Element] = &[$(Element::$variant),*];

            /// Its name in a command.
            pub fn name(self) -> &'static str {
                match self { $(Element::$variant => $name,)* }
            }

            /// Its name in `.npy` files.
            pub fn descr(self) -> &'static str {
                match self { $(Element::$variant => $descr,)* }
            }

            /// Bytes of one.
            pub fn bytes(self) -> usize {
                match self { $(Element::$variant => size_of::<$type>(),)* }
            }

            /// The number of these bytes, of which there are as many as one has.
            pub fn decode(self, bytes: &[u8]) -> Number {
                match self { $(Element::$variant => decode!($kind $type bytes),)* }
            }

            /// The bytes of a number, rounded to nearest for floating-point types; `None` if an integer type does not have it.
            pub fn encode(self, number: Number) -> Option<Vec<u8>> {
                match self { $(Element::$variant => encode!($kind $type number),)* }
            }
        }
    };
}
macro_rules! decode {
    (integer $type:ident $bytes:ident) => {
        Number::Integer($bytes.try_into().map_or(0, $type::from_le_bytes).into())
    };
    (float $type:ident $bytes:ident) => {
        Number::Float($bytes.try_into().map_or($type::NAN, $type::from_le_bytes).into())
    };
}
macro_rules! encode {
    (integer $type:ident $number:ident) => {{
        let whole = match $number {
            Number::Integer(value) => Some(value),
            // All integers of the types lie far inside what a cast to 128 bits keeps.
            Number::Float(value) => (value.trunc() == value).then_some(value as i128),
        };
        Some($type::try_from(whole?).ok()?.to_le_bytes().to_vec())
    }};
    (float f64 $number:ident) => {
        Some($number.float().to_le_bytes().to_vec())
    };
    (float f32 $number:ident) => {
        Some(($number.float() as f32).to_le_bytes().to_vec())
    };
    (float $type:ident $number:ident) => {
        Some($type::from_f64($number.float()).to_le_bytes().to_vec())
    };
}
// NumPy has no bf16: its packages that do write it as bytes.
elements! {
    "i8" I8 i8 integer "|i1"
    "u8" U8 u8 integer "|u1"
    "i16" I16 i16 integer "<i2"
    "u16" U16 u16 integer "<u2"
    "i32" I32 i32 integer "<i4"
    "u32" U32 u32 integer "<u4"
    "i64" I64 i64 integer "<i8"
    "u64" U64 u64 integer "<u8"
    "f16" F16 f16 float "<f2"
    "bf16" Bf16 bf16 float "<V2"
    "f32" F32 f32 float "<f4"
    "f64" F64 f64 float "<f8"
}

impl Element {
    /// The type of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|element| element.name() == name)
    }

    /// The names of all types.
    pub fn names() -> String {
        Self::ALL.iter().map(|element| element.name()).collect::<Vec<_>>().join(", ")
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Element::F16 | Element::Bf16 | Element::F32 | Element::F64)
    }

    /// The number that a text is of this type: `5`, `-0x1f`, `1.5`, `inf`.
    pub fn parse(self, text: &str) -> Option<Number> {
        if self.is_float() {
            return text.parse().ok().map(Number::Float);
        }
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
        let magnitude = match digits.strip_prefix("0x") {
            Some(digits) => i128::from(u64::from_str_radix(digits, 16).ok()?),
            None => i128::from(digits.parse::<u64>().ok()?),
        };
        let number = Number::Integer(sign * magnitude);
        self.encode(number).map(|_| number)
    }
}

#[cfg(test)]
mod tests {
    use super::{Element, Number};

    #[test]
    fn numbers_come_back() {
        for (element, text, bytes) in [
            (Element::I8, "-128", vec![0x80]),
            (Element::U16, "0xff01", vec![0x01, 0xff]),
            (Element::I64, "-0x10", (-16i64).to_le_bytes().to_vec()),
            (Element::U64, "18446744073709551615", vec![0xff; 8]),
            (Element::F16, "1.5", vec![0x00, 0x3e]),
            (Element::Bf16, "-2", vec![0x00, 0xc0]),
            (Element::F32, "0.1", 0.1f32.to_le_bytes().to_vec()),
            (Element::F64, "-inf", f64::NEG_INFINITY.to_le_bytes().to_vec()),
        ] {
            let number = element.parse(text).unwrap();
            assert_eq!(element.encode(number), Some(bytes.clone()), "{text}");
            assert_eq!(element.encode(element.decode(&bytes)), Some(bytes), "{text}");
        }
    }

    #[test]
    fn what_a_type_does_not_have_is_none() {
        for (element, text) in [
            (Element::I8, "128"),
            (Element::U32, "-1"),
            (Element::I32, "1.5"),
            (Element::U64, "18446744073709551616"),
            (Element::F32, "x"),
            (Element::I32, ""),
            (Element::I32, "--1"),
        ] {
            assert_eq!(element.parse(text), None, "{text} as {}", element.name());
        }
        assert_eq!(Element::I32.encode(Number::Float(0.5)), None);
        assert_eq!(Element::I32.encode(Number::Float(f64::NAN)), None);
        assert_eq!(Element::I32.encode(Number::Float(3.0)), Some(vec![3, 0, 0, 0]));
    }
}
