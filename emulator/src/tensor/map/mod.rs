//! Tensor maps: how the TMA unit sees a tensor in global memory, and which box of it one copy moves.
//!
//! The 128 bytes are this crate's own, filled by [`TensorMap::encode`] in the place of the driver's
//! `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`, whose rules it has: a kernel hands them around without looking inside.

mod replace;
#[cfg(test)]
mod tests;

use std::fmt;

pub(crate) use replace::Field;

/// Dimensions of a tensor at most.
pub(crate) const MAX_RANK: usize = 5;

/// Marks the bytes as a map of this crate.
const MAGIC: u64 = u64::from_le_bytes(*b"twTMAv1\0");

/// The element types of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    /// Unsigned bytes.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// Half precision.
    F16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// The upper half of an f32.
    Bf16,
}

const DATA_TYPES: [DataType; 10] = {
    use DataType::*;
    [U8, U16, U32, I32, U64, I64, F16, F32, F64, Bf16]
};

impl DataType {
    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            DataType::U8 => 1,
            DataType::U16 | DataType::F16 | DataType::Bf16 => 2,
            DataType::U32 | DataType::I32 | DataType::F32 => 4,
            DataType::U64 | DataType::I64 | DataType::F64 => 8,
        }
    }

    fn is_float(self) -> bool {
        matches!(self, DataType::F16 | DataType::F32 | DataType::F64 | DataType::Bf16)
    }
}

/// How 16-byte pieces of a box are permuted in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// Not at all.
    None,
    /// Within 32 bytes.
    B32,
    /// Within 64 bytes.
    B64,
    /// Within 128 bytes.
    B128,
}

const SWIZZLES: [Swizzle; 4] = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128];

impl Swizzle {
    /// Bytes that stay together; 16 for none.
    pub(crate) fn span(self) -> u32 {
        match self {
            Swizzle::None => 16,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        }
    }

    /// Where what belongs at `address` is put: bits 7 and up are added to bits 4 and up.
    pub(crate) fn place(self, address: u32) -> u32 {
        address ^ (address >> 7 & (self.span() / 16 - 1)) << 4
    }
}

/// What a copy reads outside the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Zeros.
    Zero,
    /// NaN, of floating-point elements.
    Nan,
}

/// How copies of a map in im2col mode walk through the tensor's pixels: what of it lies between two corners, by its dimensions
/// between the first, the channels, and the last, the images. PTX ISA, "im2col mode".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Im2col {
    /// The first pixel, in each of these dimensions: `pixelBoxLowerCorner`.
    pub lower: [i16; 3],
    /// The last pixel, less the tensor's last one: `pixelBoxUpperCorner`.
    pub upper: [i16; 3],
}

/// A tensor and a box of it. Index 0 is the contiguous dimension; entries from the rank on have no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// The element type.
    pub data: DataType,
    /// Dimensions, 1 to 5.
    pub rank: usize,
    /// The first element's address, a multiple of 16.
    pub address: u64,
    /// Elements in each dimension.
    pub shape: [u64; MAX_RANK],
    /// Bytes from one element to the next in each dimension but the first, multiples of 16.
    pub strides: [u64; MAX_RANK - 1],
    /// The extent of the box in each dimension, up to 256. In im2col mode the first is channels of a pixel, the second pixels,
    /// up to 1024, and the others have no meaning.
    pub tile: [u32; MAX_RANK],
    /// Only every so manieth element of the box is copied, in each dimension but the first.
    pub steps: [u32; MAX_RANK],
    /// The permutation in shared memory.
    pub swizzle: Swizzle,
    /// What is outside the tensor.
    pub fill: Fill,
    /// Of a map in im2col mode.
    pub im2col: Option<Im2col>,
}

/// Why there is no such tensor map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapError {
    /// Which field.
    pub argument: &'static str,
    /// Its value.
    pub was: String,
    /// What it may be.
    pub allowed: String,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a tensor map's {} was {}; allowed: {}", self.argument, self.was, self.allowed)
    }
}

impl std::error::Error for MapError {}

/// `Ok` if `holds`, else the error about `argument`.
fn require(holds: bool, argument: &'static str, was: impl fmt::Debug, allowed: &str) -> Result<(), MapError> {
    if holds { Ok(()) } else { Err(MapError { argument, was: format!("{was:?}"), allowed: allowed.into() }) }
}

impl TensorMap {
    /// The map as 128 bytes, if a driver would make it.
    ///
    /// A stride of 0, which repeats elements, is taken.
    pub fn encode(&self) -> Result<[u64; 16], MapError> {
        self.check()?;
        let rank = self.rank;
        let mut words = [0; 16];
        words[0] = MAGIC;
        words[1] = self.address;
        let mode = u8::from(self.im2col.is_some());
        let flags = [
            rank as u8,
            self.data as u8,
            self.swizzle as u8,
            u8::from(self.fill == Fill::Nan),
            mode,
            0,
            0,
            0,
        ];
        words[2] = u64::from_le_bytes(flags);
        for dimension in 0..rank {
            // Extents of 2^32 are allowed, so they are stored less one.
            words[3 + dimension] = self.shape[dimension] - 1;
            let (tile, step) = (u64::from(self.tile[dimension]), u64::from(self.steps[dimension]));
            words[12 + dimension / 2] |= (tile | step << 16) << (dimension % 2 * 32);
        }
        words[8..8 + rank - 1].copy_from_slice(&self.strides[..rank - 1]);
        if let Some(Im2col { lower, upper }) = self.im2col {
            for (i, corner) in lower.into_iter().chain(upper).enumerate() {
                let (word, shift) = corner_at(i);
                words[word] |= u64::from(corner as u16) << shift;
            }
        }
        Ok(words)
    }

    /// The inverse of [`encode`](Self::encode).
    pub fn decode(words: &[u64; 16]) -> Result<TensorMap, MapError> {
        require(words[0] == MAGIC, "first word", words[0], "that of a map which this crate encoded")?;
        let [rank, data, swizzle, nan, mode, ..] = words[2].to_le_bytes();
        let damaged = || MapError { argument: "bytes", was: "damaged".into(), allowed: "as encoded".into() };
        let entry = |dimension: usize| words[12 + dimension / 2] >> (dimension % 2 * 32);
        let map = TensorMap {
            data: *DATA_TYPES.get(usize::from(data)).ok_or_else(damaged)?,
            rank: rank.into(),
            address: words[1],
            shape: std::array::from_fn(|i| words[3 + i].saturating_add(1)),
            strides: std::array::from_fn(|i| words[8 + i]),
            tile: std::array::from_fn(|i| (entry(i) & 0xffff) as u32),
            steps: std::array::from_fn(|i| (entry(i) >> 16 & 0xffff) as u32),
            swizzle: *SWIZZLES.get(usize::from(swizzle)).ok_or_else(damaged)?,
            fill: if nan == 0 { Fill::Zero } else { Fill::Nan },
            im2col: (mode != 0).then(|| {
                let corner = |i| {
                    let (word, shift) = corner_at(i);
                    (words[word] >> shift) as i16
                };
                let corners = |first: usize| std::array::from_fn(|i| corner(first + i));
                Im2col { lower: corners(0), upper: corners(3) }
            }),
        };
        map.check()?;
        Ok(map)
    }

    /// The rules of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` without interleaving.
    fn check(&self) -> Result<(), MapError> {
        let rank = self.rank;
        require((1..=MAX_RANK).contains(&rank), "rank", rank, "1 to 5")?;
        require(self.address.is_multiple_of(16), "address", self.address, "a multiple of 16")?;
        for extent in &self.shape[..rank] {
            require((1..=1 << 32).contains(extent), "extent", extent, "1 to 2^32")?;
        }
        for stride in &self.strides[..rank - 1] {
            let allowed = stride.is_multiple_of(16) && *stride < 1 << 40;
            require(allowed, "stride", stride, "a multiple of 16 below 2^40")?;
        }
        if let Some(im2col) = self.im2col {
            self.check_corners(im2col)?;
        }
        let extents = if self.im2col.is_some() { 1 } else { rank };
        for tile in &self.tile[..extents] {
            require((1..=256).contains(tile), "box", tile, "1 to 256 in each dimension")?;
        }
        for step in &self.steps[..rank] {
            require((1..=8).contains(step), "element stride", step, "1 to 8")?;
        }
        let line = self.line_bytes();
        require(line.is_multiple_of(16), "box", line, "a multiple of 16 bytes in the contiguous dimension")?;
        let fits = self.swizzle == Swizzle::None || line <= self.swizzle.span();
        require(fits, "box", line, "no more bytes in the contiguous dimension than the swizzle's span")?;
        let fills = self.fill == Fill::Zero || self.data.is_float();
        require(fills, "fill", self.fill, "NaN only with floating-point elements")
    }

    /// The rules of the pixels in im2col mode.
    fn check_corners(&self, im2col: Im2col) -> Result<(), MapError> {
        let rank = self.rank;
        require((3..=MAX_RANK).contains(&rank), "rank in im2col mode", rank, "3 to 5")?;
        require((1..=1024).contains(&self.tile[1]), "pixels in im2col mode", self.tile[1], "1 to 1024")?;
        // They have 16 bits together.
        let most = [1 << 15, 1 << 7, 1 << 4][rank - 3];
        for corner in im2col.lower.iter().chain(&im2col.upper) {
            let allowed = (-most..most).contains(&i32::from(*corner));
            require(allowed, "corner", corner, "16 bits with 3 dimensions, 8 with 4, 5 with 5")?;
        }
        for i in 0..rank - 2 {
            let (first, last) = im2col.bounds(i, self.shape[i + 1]);
            require(first <= last, "corners", (first, last), "a first pixel that is not behind the last")?;
        }
        Ok(())
    }

    /// Bytes of the box in the contiguous dimension.
    pub(crate) fn line_bytes(&self) -> u32 {
        self.tile[0] * self.data.bytes() as u32
    }

    /// Elements of the box that are copied in a dimension.
    pub(crate) fn copied(&self, dimension: usize) -> u32 {
        if dimension == 0 { self.tile[0] } else { self.tile[dimension].div_ceil(self.steps[dimension]) }
    }

    /// Lines of the box, or pixels.
    pub(crate) fn lines(&self) -> u32 {
        if self.im2col.is_some() {
            return self.tile[1];
        }
        (1..self.rank).map(|dimension| self.copied(dimension)).product()
    }

    /// Bytes that a load of the box completes at its barrier, those outside the tensor included.
    pub(crate) fn bytes(&self) -> u32 {
        self.lines() * self.line_bytes()
    }
}

impl Im2col {
    /// The first pixel and the last in a dimension of such an extent, the `i`th behind the channels.
    pub(crate) fn bounds(&self, i: usize, extent: u64) -> (i64, i64) {
        (self.lower[i].into(), extent as i64 - 1 + i64::from(self.upper[i]))
    }
}

/// The word that a corner is in, and its first bit.
fn corner_at(i: usize) -> (usize, usize) {
    (14 + (i + 2) / 4, (i + 2) % 4 * 16)
}
