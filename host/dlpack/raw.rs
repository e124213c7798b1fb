//! DLPack's structs, as `dlpack.h` of version 1.1 has them.

use std::ffi::c_void;

/// The version that is exported. Others of the same major number have the same layout.
pub(super) const VERSION: Version = Version { major: 1, minor: 1 };

/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
pub(super) const READ_ONLY: u64 = 1;

/// `kDLCPU`, which messages name; what others are is said by their numbers.
pub(super) const CPU: i32 = 1;
/// `kDLCUDA`.
pub(super) const CUDA: i32 = 2;
/// `kDLExtDev`: what it is two libraries agree on. Here the emulator, whose memory no other library can read.
pub(super) const EXTENSION: i32 = 12;

/// `DLPackVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
}

/// `DLDevice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Place {
    pub(super) kind: i32,
    pub(super) ordinal: i32,
}

/// `DLDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Type {
    pub(super) code: u8,
    pub(super) bits: u8,
    pub(super) lanes: u16,
}

/// `DLTensor`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Tensor {
    pub(super) data: *mut c_void,
    pub(super) place: Place,
    pub(super) ndim: i32,
    pub(super) dtype: Type,
    pub(super) shape: *mut i64,
    /// In elements. Null before version 1.2 may be row-major.
    pub(super) strides: *mut i64,
    pub(super) byte_offset: u64,
}

/// Gives the memory back.
pub type Deleter<M> = Option<unsafe extern "C" fn(*mut M)>;

/// `DLManagedTensor`, the struct of versions before 1.0, which PyTorch calls `dltensor`.
#[derive(Debug)]
#[repr(C)]
pub struct ManagedTensor {
    pub(super) tensor: Tensor,
    pub(super) context: *mut c_void,
    pub(super) deleter: Deleter<Self>,
}

/// `DLManagedTensorVersioned`, the struct since version 1.0, which PyTorch calls `dltensor_versioned`.
#[derive(Debug)]
#[repr(C)]
pub struct ManagedTensorVersioned {
    pub(super) version: Version,
    pub(super) context: *mut c_void,
    pub(super) deleter: Deleter<Self>,
    pub(super) flags: u64,
    pub(super) tensor: Tensor,
}

/// The offsets of C on the platforms that CUDA runs on.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Tensor>() == 48 && offset_of!(Tensor, shape) == 24);
    assert!(size_of::<ManagedTensor>() == 64 && offset_of!(ManagedTensor, deleter) == 56);
    assert!(size_of::<ManagedTensorVersioned>() == 80 && offset_of!(ManagedTensorVersioned, tensor) == 32);
};

/// One of the two structs: [`ManagedTensorVersioned`] or [`ManagedTensor`].
pub trait Managed: sealed::Struct {}

impl Managed for ManagedTensor {}
impl Managed for ManagedTensorVersioned {}

pub(super) mod sealed {
    use super::{Deleter, Tensor, Version};
    use std::ffi::c_void;

    pub trait Struct: Sized + 'static {
        fn new(tensor: Tensor, context: *mut c_void, deleter: Deleter<Self>, flags: u64) -> Self;
        fn tensor(&self) -> &Tensor;
        fn context(&self) -> *mut c_void;
        fn deleter(&self) -> Deleter<Self>;
        /// None where the struct has no room for it.
        fn version(&self) -> Option<Version>;
        fn flags(&self) -> u64;
    }
}

impl sealed::Struct for ManagedTensor {
    fn new(tensor: Tensor, context: *mut c_void, deleter: Deleter<Self>, _: u64) -> Self {
        Self { tensor, context, deleter }
    }
    fn tensor(&self) -> &Tensor {
        &self.tensor
    }
    fn context(&self) -> *mut c_void {
        self.context
    }
    fn deleter(&self) -> Deleter<Self> {
        self.deleter
    }
    fn version(&self) -> Option<Version> {
        None
    }
    fn flags(&self) -> u64 {
        0
    }
}

impl sealed::Struct for ManagedTensorVersioned {
    fn new(tensor: Tensor, context: *mut c_void, deleter: Deleter<Self>, flags: u64) -> Self {
        Self { version: VERSION, context, deleter, flags, tensor }
    }
    fn tensor(&self) -> &Tensor {
        &self.tensor
    }
    fn context(&self) -> *mut c_void {
        self.context
    }
    fn deleter(&self) -> Deleter<Self> {
        self.deleter
    }
    fn version(&self) -> Option<Version> {
        Some(self.version)
    }
    fn flags(&self) -> u64 {
        self.flags
    }
}
