//! Tensor maps: descriptors by which the TMA unit copies tiles.

use cudarc::driver::sys;
use tilewright_device::abi::TensorMap;

use super::driver;
use crate::backend::{L2Fetch, TensorMapShape, Walk};
use crate::{DType, MAX_RANK, Result};

/// Encodes a map with the swizzle of 128 bytes that all kernels use; zeros are read outside the tensor.
///
/// `None` if the driver does not take strides by which elements repeat. The context is current.
pub(super) fn encode(shape: &TensorMapShape) -> Result<Option<TensorMap>> {
    use sys::CUtensorMapDataType as Type;
    let dtype = match shape.dtype {
        DType::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DType::BF16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        DType::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        DType::U8 | DType::I8 | DType::E4M3 | DType::E5M2 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        DType::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        DType::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        DType::I64 => Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
    };
    let mut map = sys::CUtensorMap { opaque: [0; 16] };
    let (rank, address) = (shape.rank as u32, std::ptr::without_provenance_mut(shape.address as usize));
    let interleave = sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE;
    let swizzle = sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B;
    let promotion = match shape.fetch {
        L2Fetch::Wide => sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        L2Fetch::Lines => sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    };
    let outside = sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    let [channels, pixels, ..] = shape.tile;
    // SAFETY: the arrays have at least as many entries as the rank, those of corners two less; the address is only written into the map.
    let (call, result) = unsafe {
        match shape.walk {
            None => {
                let (tile, steps) = (shape.tile.as_ptr(), [1u32; MAX_RANK]);
                let (sizes, strides) = (shape.shape.as_ptr(), shape.strides.as_ptr());
                let result = sys::cuTensorMapEncodeTiled(
                    &mut map,
                    dtype,
                    rank,
                    address,
                    sizes,
                    strides,
                    tile,
                    steps.as_ptr(),
                    interleave,
                    swizzle,
                    promotion,
                    outside,
                );
                ("cuTensorMapEncodeTiled", result)
            }
            Some(Walk { lower, upper, steps: [width, height, depth], .. }) => {
                let steps = [1, width, height, depth, 1];
                let (sizes, strides) = (shape.shape.as_ptr(), shape.strides.as_ptr());
                let result = sys::cuTensorMapEncodeIm2col(
                    &mut map,
                    dtype,
                    rank,
                    address,
                    sizes,
                    strides,
                    lower.as_ptr(),
                    upper.as_ptr(),
                    channels,
                    pixels,
                    steps.as_ptr(),
                    interleave,
                    swizzle,
                    promotion,
                    outside,
                );
                ("cuTensorMapEncodeIm2col", result)
            }
        }
    };
    if !shape.is_nested() && result == sys::CUresult::CUDA_ERROR_INVALID_VALUE {
        return Ok(None);
    }
    driver::check(call, result)?;
    Ok(Some(TensorMap(map.opaque)))
}
