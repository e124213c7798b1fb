//! Elements of matrices: small numbers, whose sums of products are exact, and others.

use half::{bf16, f16};

use crate::random::Random;

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
    S4,
    U4,
}

impl Element {
    /// As PTX names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::S8 => "s8",
            Self::U8 => "u8",
            Self::S4 => "s4",
            Self::U4 => "u4",
        }
    }

    pub(super) fn bits(self) -> u32 {
        match self {
            Self::Tf32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::S4 | Self::U4 => 4,
            _ => 8,
        }
    }

    pub(super) fn is_integer(self) -> bool {
        matches!(self, Self::S8 | Self::U8 | Self::S4 | Self::U4)
    }

    /// The number's bits, rounded towards zero where the type is narrow; not for numbers near its ends.
    fn encode(self, x: f32) -> u32 {
        match self {
            Self::F16 => f16::from_f32(x).to_bits().into(),
            Self::Bf16 => bf16::from_f32(x).to_bits().into(),
            Self::Tf32 => x.to_bits(),
            Self::E5m2 => u32::from(f16::from_f32(x).to_bits() >> 8),
            Self::E4m3 => {
                let bits = x.to_bits();
                let exponent = (bits >> 23 & 0xff) as i32 - 120;
                let sign = bits >> 24 & 0x80;
                if exponent < 1 { sign } else { sign | (exponent as u32) << 3 | bits >> 20 & 7 }
            }
            _ => x as i32 as u32 & ((1 << self.bits()) - 1),
        }
    }

    /// A whole number from -4 to 4.
    pub(super) fn small(self, random: &mut Random) -> u32 {
        let low = if matches!(self, Self::U8 | Self::U4) { 0 } else { -4 };
        self.encode((low + random.below((5 - low) as usize) as i32) as f32)
    }

    /// Any number between -1 and 1; any of all integers.
    pub(super) fn any(self, random: &mut Random) -> u32 {
        if self.is_integer() {
            return random.bits() as u32 & ((1 << self.bits()) - 1);
        }
        self.encode(random.unit())
    }

    /// So many words of elements.
    pub(super) fn words(self, count: usize, random: &mut Random, each: Each) -> Vec<u32> {
        let per = 32 / self.bits();
        let word = |random: &mut Random| {
            (0..per).fold(0u32, |word, i| word | each(self, random).wrapping_shl(i * self.bits()))
        };
        (0..count).map(|_| word(random)).collect()
    }
}

/// What makes an element.
pub(super) type Each = fn(Element, &mut Random) -> u32;
