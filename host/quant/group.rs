//! Which weights share a scale, and how a zero shifts them.

use std::fmt;
use std::str::FromStr;

use tilewright_device::quantize::Shift;

/// Neighbouring weights of a row (along K) that share a scale and a zero. The last group of a row may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// 32 weights.
    K32,
    /// 64 weights.
    K64,
    /// 128 weights.
    K128,
    /// All weights of a row.
    Row,
}

impl Group {
    /// Every size.
    pub const ALL: [Group; 4] = [Group::K32, Group::K64, Group::K128, Group::Row];

    /// The group of a number of weights, if it is one of 32, 64, 128; of -1 or 0, as checkpoints say it: the whole row.
    pub const fn of(weights: i64) -> Option<Self> {
        match weights {
            32 => Some(Group::K32),
            64 => Some(Group::K64),
            128 => Some(Group::K128),
            -1 | 0 => Some(Group::Row),
            _ => None,
        }
    }

    /// Weights of a group in rows of `k` weights.
    pub const fn len(self, k: usize) -> usize {
        match self {
            Group::K32 => 32,
            Group::K64 => 64,
            Group::K128 => 128,
            Group::Row => k,
        }
    }

    /// Groups of a row of `k` weights.
    pub const fn count(self, k: usize) -> usize {
        if k == 0 { 0 } else { k.div_ceil(self.len(k)) }
    }

    /// The group's name: `32`, `64`, `128` or `row`.
    pub const fn name(self) -> &'static str {
        match self {
            Group::K32 => "32",
            Group::K64 => "64",
            Group::K128 => "128",
            Group::Row => "row",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Group::Row => f.write_str("one group a row"),
            _ => write!(f, "groups of {}", self.name()),
        }
    }
}

impl FromStr for Group {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Group::ALL.into_iter().find(|group| group.name() == name).ok_or(())
    }
}

/// How a group's zero z and scale s make a weight w of the value q of its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Zeros {
    /// w = q s: no zeros.
    None,
    /// w = (q - z) s, z of the scales' type.
    Original,
    /// w = q s - z, z of the scales' type.
    Rescaled,
    /// w = (q - z) s, z an integer in the format's range. Only of integer formats.
    Packed,
}

impl Zeros {
    /// Every mode.
    pub const ALL: [Zeros; 4] = [Zeros::None, Zeros::Original, Zeros::Rescaled, Zeros::Packed];

    /// As kernels know it.
    pub(super) const fn shift(self) -> Shift {
        match self {
            Zeros::None => Shift::None,
            Zeros::Original => Shift::Original,
            Zeros::Rescaled => Shift::Rescaled,
            Zeros::Packed => Shift::Packed,
        }
    }

    /// The mode's name: `none`, `original`, `rescaled` or `packed`.
    pub const fn name(self) -> &'static str {
        match self {
            Zeros::None => "none",
            Zeros::Original => "original",
            Zeros::Rescaled => "rescaled",
            Zeros::Packed => "packed",
        }
    }
}

impl fmt::Display for Zeros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Zeros {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Zeros::ALL.into_iter().find(|zeros| zeros.name() == name).ok_or(())
    }
}
