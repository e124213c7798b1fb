//! A library that Python calls with PyTorch's tensors, and that gives it tensors, by DLPack: `exchange.py` beside this file says how.
//!
//!     cargo build --release --no-default-features --features dlpack --example dlpack
//!     python3 examples/dlpack/exchange.py target/release/examples/libdlpack.so

use std::ffi::{CString, c_char, c_void};
use std::ptr::null;
use std::sync::Arc;

use tilewright::dlpack::{Capsule, Managed, ManagedTensor, ManagedTensorVersioned, shared};
use tilewright::{DType, Device, Element, F8E4M3, F8E5M2, Result, Stream, Tensor, bf16, f16};

/// Null, or what went wrong, for the caller to keep.
fn outcome(done: Result<()>) -> *const c_char {
    done.map_or_else(
        |error| CString::new(error.to_string()).map_or(null(), |text| text.into_raw().cast_const()),
        |()| null(),
    )
}

/// Takes a tensor of f32, and sets its elements by work on the stream, which is not waited for.
///
/// # Safety
/// `tensor` is the caller's to give away, and its memory stays until the work on `stream`, one of device 0, is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fill(
    tensor: *mut ManagedTensorVersioned,
    value: f32,
    stream: *mut c_void,
) -> *const c_char {
    outcome((|| {
        let device = Device::cuda(0)?;
        // SAFETY: the caller's.
        let (mut capsule, stream) =
            unsafe { (Capsule::from_raw(tensor)?, Stream::from_raw(&device, stream)?) };
        // SAFETY: the caller's.
        unsafe { capsule.view_mut::<f32>(&device)? }.fill(&stream, value)
    })())
}

/// Σ (i + 1) x[i] over the elements of any type in row-major order, whatever the strides are.
fn weigh<M: Managed>(capsule: &Capsule<M>, stream: *mut c_void) -> Result<f64> {
    fn of<T: Element, M: Managed>(
        capsule: &Capsule<M>,
        stream: *mut c_void,
        wide: fn(T) -> f64,
    ) -> Result<f64> {
        let device = Device::cuda(0)?;
        // SAFETY: the caller of `weight` vouches for the stream, which is waited for.
        let elements = unsafe {
            let stream = Stream::from_raw(&device, stream)?;
            capsule.view::<T>(&device)?.to_vec_on(&stream)?
        };
        Ok(elements.into_iter().zip(1..).map(|(x, i)| wide(x) * f64::from(i)).sum())
    }
    match capsule.dtype()? {
        DType::F16 => of(capsule, stream, f16::to_f64),
        DType::BF16 => of(capsule, stream, bf16::to_f64),
        DType::F32 => of::<f32, M>(capsule, stream, f64::from),
        DType::U8 => of::<u8, M>(capsule, stream, f64::from),
        DType::I8 => of::<i8, M>(capsule, stream, f64::from),
        DType::U32 => of::<u32, M>(capsule, stream, f64::from),
        DType::I32 => of::<i32, M>(capsule, stream, f64::from),
        DType::I64 => of::<i64, M>(capsule, stream, |x| x as f64),
        DType::E4M3 => of::<F8E4M3, M>(capsule, stream, |x| f64::from(x.to_f32())),
        DType::E5M2 => of::<F8E5M2, M>(capsule, stream, |x| f64::from(x.to_f32())),
        _ => of::<f32, M>(capsule, stream, f64::from),
    }
}

/// Takes a tensor, and weighs its elements when the work on `stream` is done.
///
/// # Safety
/// `tensor` is the caller's to give away, `stream` is one of device 0, and `weight` has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weight(
    tensor: *mut ManagedTensorVersioned,
    stream: *mut c_void,
    weight: *mut f64,
) -> *const c_char {
    // SAFETY: the caller's.
    let weighed = unsafe { Capsule::from_raw(tensor) }.and_then(|capsule| weigh(&capsule, stream));
    // SAFETY: the caller's.
    outcome(weighed.map(|weighed| unsafe { *weight = weighed }))
}

/// The same of the struct without a version.
///
/// # Safety
/// As of [`weight`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weight_old(
    tensor: *mut ManagedTensor,
    stream: *mut c_void,
    weight: *mut f64,
) -> *const c_char {
    // SAFETY: the caller's.
    let weighed = unsafe { Capsule::from_raw(tensor) }.and_then(|capsule| weigh(&capsule, stream));
    // SAFETY: the caller's.
    outcome(weighed.map(|weighed| unsafe { *weight = weighed }))
}

/// A tensor of `rows` x `columns` with the elements 0, 1, 2, …; it is written when this returns.
fn counted(rows: usize, columns: usize) -> Result<Tensor<f32>> {
    let numbers: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
    Tensor::from_slice(&Device::cuda(0)?, &numbers, &[rows, columns])
}

/// Gives a tensor that counts from 0.
///
/// # Safety
/// `tensor` has room for a pointer, whose deleter the caller has to call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn make(
    rows: usize,
    columns: usize,
    tensor: *mut *mut ManagedTensorVersioned,
) -> *const c_char {
    // SAFETY: the caller's.
    outcome(counted(rows, columns).map(|made| unsafe { *tensor = made.into_dlpack().into_raw() }))
}

/// The same in the struct without a version.
///
/// # Safety
/// As of [`make`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn make_old(
    rows: usize,
    columns: usize,
    tensor: *mut *mut ManagedTensor,
) -> *const c_char {
    // SAFETY: the caller's.
    outcome(counted(rows, columns).map(|made| unsafe { *tensor = made.into_dlpack().into_raw() }))
}

/// Gives such a tensor to be read, and a view of its columns in reverse roles: `[columns, rows]`, by strides.
///
/// # Safety
/// As of [`make`], for both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn make_shared(
    rows: usize,
    columns: usize,
    all: *mut *mut ManagedTensorVersioned,
    transposed: *mut *mut ManagedTensorVersioned,
) -> *const c_char {
    outcome((|| {
        let tensor = Arc::new(counted(rows, columns)?);
        // SAFETY: what is kept is the tensor, which nothing writes.
        let view = unsafe { tensor.view().transpose(0, 1)?.to_dlpack(Arc::clone(&tensor))? };
        // SAFETY: the caller's.
        unsafe {
            *all = shared(&tensor).into_raw();
            *transposed = view.into_raw();
        }
        Ok(())
    })())
}
