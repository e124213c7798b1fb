//! Tensors from and for other libraries by [DLPack](https://dmlc.github.io/dlpack/latest/), without a copy: the feature `dlpack`.
//!
//! A [`Capsule`] is a tensor with the function that gives its memory back. It goes out by [`Tensor::into_dlpack`](crate::Tensor::into_dlpack), [`shared`] or from a view, and
//! comes in by [`Capsule::from_raw`]; [`Capsule::view`] borrows from it.
//!
//! DLPack says nothing of work that is queued. Whoever hands a capsule on sees to it that what wrote the memory is done, or ordered before
//! what uses it: Python's `__dlpack__(stream=…)` is for that; in between are [`Event`](crate::Event)s or [`Stream::synchronize`](crate::Stream::synchronize).
//!
//! ```no_run
//! use tilewright::dlpack::{Capsule, ManagedTensorVersioned};
//! use tilewright::{Device, Result, Stream, Tensor};
//!
//! /// Sets all elements of an f32 tensor of PyTorch's, whose capsule's pointer this is, and gives one of our own.
//! ///
//! /// # Safety
//! /// The pointer is that of a capsule whose name is `dltensor_versioned`; what PyTorch has queued with the tensor is done.
//! unsafe fn exchange(theirs: *mut ManagedTensorVersioned) -> Result<*mut ManagedTensorVersioned> {
//!     let device = Device::cuda(0)?;
//!     let stream = Stream::new(&device)?;
//!     // SAFETY: the caller's.
//!     let mut capsule = unsafe { Capsule::from_raw(theirs)? };
//!     // SAFETY: the capsule outlives the work, for which the stream is waited for.
//!     unsafe { capsule.view_mut::<f32>(&device)? }.fill(&stream, 1.0)?;
//!     stream.synchronize()?;
//!     Ok(Tensor::<f32>::zeros(&device, &[8, 64])?.into_dlpack().into_raw())
//! }
//! ```
//!
//! A view cannot outlive its capsule:
//!
//! ```compile_fail,E0597
//! # use tilewright::{Device, Tensor, dlpack::Capsule};
//! # let device = Device::default().unwrap();
//! let view = {
//!     let capsule: Capsule = Tensor::<f32>::zeros(&device, &[8]).unwrap().into_dlpack();
//!     unsafe { capsule.view::<f32>(&device).unwrap() }
//! };
//! println!("{view:?}");
//! ```

mod export;
mod import;
mod raw;
#[cfg(test)]
mod tests;

pub use export::shared;
pub use import::Capsule;
pub use raw::{Managed, ManagedTensor, ManagedTensorVersioned};

use crate::{DType, Device};
use raw::{CUDA, EXTENSION, Place, Type};

/// Where DLPack says that a device's memory is.
fn place(device: &Device) -> Place {
    match device.backend().properties().ordinal {
        Some(ordinal) => Place { kind: CUDA, ordinal },
        None => Place { kind: EXTENSION, ordinal: 0 },
    }
}

/// DLPack's name for an element type.
fn type_of(dtype: DType) -> Type {
    // `DLDataTypeCode`: signed and unsigned integers, IEEE floating point, bfloat16, float8_e4m3fn, float8_e5m2.
    let code = match dtype {
        DType::I8 | DType::I32 | DType::I64 => 0,
        DType::U8 | DType::U32 => 1,
        DType::F16 | DType::F32 => 2,
        DType::BF16 => 4,
        DType::E4M3 => 10,
        DType::E5M2 => 12,
    };
    Type { code, bits: 8 * dtype.bytes() as u8, lanes: 1 }
}

/// All element types.
const TYPES: [DType; 10] = [
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::U8,
    DType::I8,
    DType::U32,
    DType::I32,
    DType::I64,
    DType::E4M3,
    DType::E5M2,
];
