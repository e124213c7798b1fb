//! Tensor maps, as the emulator reads them.

use tilewright_device::abi::TensorMap;
use tilewright_emulator::{DataType, Fill, Im2col, Swizzle, TensorMap as Description};

use crate::backend::{TensorMapShape, Walk};
use crate::{DType, Result};

/// Bits of the addresses that the driver takes.
const ADDRESS_BITS: u32 = 57;

/// Encodes a map like the driver's: the swizzle of 128 bytes, zeros outside the tensor. Strides of zero are taken, as by the
/// driver for CUDA 13.
pub(super) fn encode(shape: &TensorMapShape) -> Result<Option<TensorMap>> {
    if shape.address >> ADDRESS_BITS != 0 {
        return Ok(None);
    }
    let data = match shape.dtype {
        DType::F16 => DataType::F16,
        DType::BF16 => DataType::Bf16,
        DType::F32 => DataType::F32,
        DType::U8 | DType::I8 | DType::E4M3 | DType::E5M2 => DataType::U8,
        DType::U32 => DataType::U32,
        DType::I32 => DataType::I32,
        DType::I64 => DataType::I64,
    };
    let description = Description {
        data,
        rank: shape.rank,
        address: shape.address,
        shape: shape.shape,
        strides: shape.strides,
        tile: shape.tile,
        steps: match shape.walk {
            Some(Walk { steps: [width, height, depth], .. }) => [1, width, height, depth, 1],
            None => [1; crate::MAX_RANK],
        },
        swizzle: Swizzle::B128,
        fill: Fill::Zero,
        im2col: shape
            .walk
            .map(|Walk { lower, upper, .. }| Im2col { lower: corner(lower), upper: corner(upper) }),
    };
    match description.encode() {
        Ok(words) => Ok(Some(TensorMap(words))),
        Err(error) => Err(super::emulated("encode a tensor map", &error)),
    }
}

/// The corner of a walk that [fits](Walk::fits).
fn corner(of: [i32; 3]) -> [i16; 3] {
    of.map(|pixel| pixel as i16)
}
