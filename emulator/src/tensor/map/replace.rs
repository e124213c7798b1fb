//! Fields of a tensor map that kernels change: `tensormap.replace`.
//!
//! PTX ISA, "tensormap.replace" and its table of values.

use super::{DATA_TYPES, DataType, MAGIC, MAX_RANK, MapError, SWIZZLES, require};

/// What is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Address,
    /// Less one.
    Rank,
    /// Of dimensions of these numbers.
    Box(usize),
    Extent(usize),
    Stride(usize),
    Step(usize),
    DataType,
    Interleave,
    Swizzle,
    Fill,
}

impl Field {
    /// Whether it is of 64 bits.
    pub(crate) fn is_wide(self) -> bool {
        matches!(self, Field::Address | Field::Stride(_))
    }

    /// Puts a value into the words of a map. One of zeros is begun by it: kernels make whole maps so, as Triton's do.
    pub(crate) fn replace(self, words: &mut [u64; 16], value: u64) -> Result<(), MapError> {
        if *words == [0; 16] {
            words[0] = MAGIC;
        }
        require(words[0] == MAGIC, "first word", words[0], "that of a map which this crate encoded")?;
        let mut flags = words[2].to_le_bytes();
        match self {
            Field::Address => words[1] = value,
            Field::Rank => {
                require(value < MAX_RANK as u64, "rank less one", value, "0 to 4")?;
                flags[0] = value as u8 + 1;
            }
            Field::Box(i) => {
                require(value <= 0xffff, "box", value, "1 to 256 in each dimension")?;
                put(words, i, 0, value);
            }
            Field::Step(i) => {
                require(value <= 0xffff, "element stride", value, "1 to 8")?;
                put(words, i, 16, value);
            }
            // Zero stands for 2^32.
            Field::Extent(i) => words[3 + i] = value.wrapping_sub(1) & 0xffff_ffff,
            Field::Stride(i) => words[8 + i] = value,
            Field::DataType => flags[1] = data_type(value)? as u8,
            Field::Interleave => {
                require(value == 0, "interleaved layout", value, "0: others are not emulated")?
            }
            Field::Swizzle => {
                require((value as usize) < SWIZZLES.len(), "swizzle", value, "0 to 3")?;
                flags[2] = value as u8;
            }
            Field::Fill => {
                require(value <= 1, "fill", value, "0 or 1")?;
                flags[3] = value as u8;
            }
        }
        words[2] = u64::from_le_bytes(flags);
        Ok(())
    }
}

/// Puts 16 bits into the entry of a dimension.
fn put(words: &mut [u64; 16], dimension: usize, shift: usize, value: u64) {
    let shift = dimension % 2 * 32 + shift;
    let word = &mut words[12 + dimension / 2];
    *word = *word & !(0xffff << shift) | value << shift;
}

/// The type of a number of the manual's table.
fn data_type(value: u64) -> Result<DataType, MapError> {
    let found = match value {
        ..=7 => DATA_TYPES.get(value as usize).copied(),
        9 => Some(DataType::F64),
        10 => Some(DataType::Bf16),
        _ => None,
    };
    found.ok_or_else(|| MapError {
        argument: "element type",
        was: value.to_string(),
        allowed: "0 to 7, 9 and 10: others are not emulated".into(),
    })
}
