//! Vectors of 16-bit numbers whose type is known when the program runs.

use half::{bf16, f16};
use tilewright_device::quantize::HalfKind;

use crate::DType;

/// A 16-bit floating-point type: that of scales, zeros and activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HalfType {
    /// IEEE half precision.
    F16,
    /// The upper half of an `f32`.
    BF16,
}

impl HalfType {
    /// The element type of tensors.
    pub const fn dtype(self) -> DType {
        match self {
            HalfType::F16 => DType::F16,
            HalfType::BF16 => DType::BF16,
        }
    }

    /// As kernels know it.
    pub(super) const fn kind(self) -> HalfKind {
        match self {
            HalfType::F16 => HalfKind::F16,
            HalfType::BF16 => HalfKind::BF16,
        }
    }

    /// The nearest number of the type; infinite beyond its range.
    pub(super) fn round(self, x: f64) -> f64 {
        self.kind().round(x)
    }
}

/// 16-bit numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Halves {
    /// Of type f16.
    F16(Vec<f16>),
    /// Of type bf16.
    BF16(Vec<bf16>),
}

impl Halves {
    /// The numbers' type.
    pub const fn kind(&self) -> HalfType {
        match self {
            Halves::F16(_) => HalfType::F16,
            Halves::BF16(_) => HalfType::BF16,
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Halves::F16(x) => x.len(),
            Halves::BF16(x) => x.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at `i`; panics beyond the end.
    pub fn get(&self, i: usize) -> f32 {
        match self {
            Halves::F16(x) => x[i].to_f32(),
            Halves::BF16(x) => x[i].to_f32(),
        }
    }

    /// The nearest numbers of a type.
    pub fn round(kind: HalfType, values: impl IntoIterator<Item = f64>) -> Self {
        let values = values.into_iter().map(|x| kind.round(x));
        // Of numbers of the type these are exact.
        match kind {
            HalfType::F16 => Halves::F16(values.map(f16::from_f64).collect()),
            HalfType::BF16 => Halves::BF16(values.map(bf16::from_f64).collect()),
        }
    }

    /// The numbers' bits, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Halves::F16(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Halves::BF16(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }

    /// The inverse of [`to_bytes`](Self::to_bytes); half a number at the end is ignored.
    pub fn from_bytes(kind: HalfType, bytes: &[u8]) -> Self {
        let numbers = bytes.as_chunks().0.iter().copied();
        match kind {
            HalfType::F16 => Halves::F16(numbers.map(f16::from_le_bytes).collect()),
            HalfType::BF16 => Halves::BF16(numbers.map(bf16::from_le_bytes).collect()),
        }
    }

    /// Those at `indices`, in that order, and 0 for `None`: the same bits, not only the same values.
    pub(super) fn gather(&self, indices: impl Iterator<Item = Option<usize>>) -> Self {
        match self {
            Halves::F16(x) => Halves::F16(indices.map(|i| i.map_or(f16::ZERO, |i| x[i])).collect()),
            Halves::BF16(x) => Halves::BF16(indices.map(|i| i.map_or(bf16::ZERO, |i| x[i])).collect()),
        }
    }

    /// The index of a number that is infinite or NaN.
    pub(super) fn not_finite(&self) -> Option<usize> {
        match self {
            Halves::F16(x) => x.iter().position(|x| !x.is_finite()),
            Halves::BF16(x) => x.iter().position(|x| !x.is_finite()),
        }
    }
}
