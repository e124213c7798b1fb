//! The types of instructions.

/// A fundamental type, or a packed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Pred,
    B(u32),
    U(u32),
    S(u32),
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    E4m3x2,
    E5m2x2,
    F32,
    F64,
}

impl Type {
    /// The type that a modifier names.
    pub(super) fn parse(modifier: &str) -> Option<Self> {
        Some(match modifier {
            "pred" => Self::Pred,
            "b8" => Self::B(8),
            "b16" => Self::B(16),
            "b32" => Self::B(32),
            "b64" => Self::B(64),
            "b128" => Self::B(128),
            "u8" => Self::U(8),
            "u16" => Self::U(16),
            "u32" => Self::U(32),
            "u64" => Self::U(64),
            "s8" => Self::S(8),
            "s16" => Self::S(16),
            "s32" => Self::S(32),
            "s64" => Self::S(64),
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "tf32" => Self::Tf32,
            "e4m3x2" => Self::E4m3x2,
            "e5m2x2" => Self::E5m2x2,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => return None,
        })
    }

    /// Bits of a register of this type; 1 for predicates.
    pub(super) fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::B(bits) | Self::U(bits) | Self::S(bits) => bits,
            Self::F16 | Self::Bf16 | Self::E4m3x2 | Self::E5m2x2 => 16,
            Self::F16x2 | Self::Bf16x2 | Self::Tf32 | Self::F32 => 32,
            Self::F64 => 64,
        }
    }

    pub(super) fn is_signed(self) -> bool {
        matches!(self, Self::S(_))
    }

    pub(super) fn is_integer(self) -> bool {
        matches!(self, Self::B(_) | Self::U(_) | Self::S(_))
    }
}
