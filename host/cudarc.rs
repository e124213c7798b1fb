//! Tensors and streams of the crate `cudarc`, of version 0.19: the feature `cudarc`.
//!
//! ```no_run
//! use cudarc::driver::CudaContext;
//! use tilewright::{Stream, ops};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let theirs = CudaContext::new(0)?.default_stream();
//! let x = theirs.alloc_zeros::<f32>(8 * 64)?;
//! let mut y = theirs.alloc_zeros::<f32>(8 * 64)?;
//! let stream = Stream::of_cudarc(&theirs)?;
//! // SAFETY: the views are used on `stream` alone, which is theirs.
//! let x = unsafe { tilewright::cudarc::view(&x, &theirs, &[8, 64], &[64, 1])? };
//! // SAFETY: as above.
//! let mut y = unsafe { tilewright::cudarc::view_mut(&mut y, &theirs, &[8, 64], &[64, 1])? };
//! ops::softmax(&stream, &x, &mut y)?;
//! # Ok(())
//! # }
//! ```

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use ::cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, SyncOnDrop,
};

use crate::backend::StreamId;
use crate::foreign::expect;
use crate::{Device, Element, Result, Stream, TensorView, TensorViewMut};

/// A view of memory of cudarc's. While it lives, work may be queued with it on the stream that it was made for; when it is dropped, cudarc
/// knows of that work.
pub struct Ordered<'a, V> {
    view: V,
    /// Records, when it is dropped, that the stream has used the memory.
    _order: SyncOnDrop<'a>,
}

/// Memory of cudarc's that is read: [`CudaSlice`], [`CudaView`], [`CudaViewMut`].
pub trait Slice<T>: DevicePtr<T> + sealed::Slice {}
/// Memory of cudarc's that is written: [`CudaSlice`], [`CudaViewMut`].
pub trait SliceMut<T>: DevicePtrMut<T> + sealed::Slice {}

mod sealed {
    pub trait Slice {}
}

impl<T> sealed::Slice for CudaSlice<T> {}
impl<T> sealed::Slice for CudaView<'_, T> {}
impl<T> sealed::Slice for CudaViewMut<'_, T> {}
impl<T> Slice<T> for CudaSlice<T> {}
impl<T> Slice<T> for CudaView<'_, T> {}
impl<T> Slice<T> for CudaViewMut<'_, T> {}
impl<T> SliceMut<T> for CudaSlice<T> {}
impl<T> SliceMut<T> for CudaViewMut<'_, T> {}

impl<V> Deref for Ordered<'_, V> {
    type Target = V;
    fn deref(&self) -> &V {
        &self.view
    }
}

impl<V> DerefMut for Ordered<'_, V> {
    fn deref_mut(&mut self) -> &mut V {
        &mut self.view
    }
}

impl Device {
    /// The device of a context of cudarc's, which is the GPU's primary one as ours is.
    ///
    /// Fails as [`cuda`](Self::cuda) does.
    pub fn of_cudarc(context: &CudaContext) -> Result<Self> {
        Self::cuda(context.ordinal())
    }
}

impl Stream {
    /// A stream of cudarc's, which it keeps alive.
    ///
    /// Fails as [`Device::cuda`] does.
    pub fn of_cudarc(stream: &Arc<CudaStream>) -> Result<Self> {
        let device = Device::of_cudarc(stream.context())?;
        Ok(Self::kept(&device, StreamId(stream.cu_stream().addr()), stream.clone()))
    }
}

/// A slice or a view of cudarc's, to be read by work on `stream`: with a shape, and strides in elements.
///
/// `stream` waits for what has written the memory, on whatever stream of cudarc's that was. Memory that is allocated while the stream is
/// captured is fine.
///
/// Fails unless the slice has all of the view, and as [`Device::cuda`] does.
///
/// # Safety
/// Work with the view is queued on `stream` (see [`Stream::of_cudarc`]), or on a stream that events put in order with it on both sides, and before
/// what is returned is dropped: cudarc gives the memory back, or to other work, when `stream` is done with it.
pub unsafe fn view<'a, T: Element>(
    slice: &'a impl Slice<T>,
    stream: &'a CudaStream,
    shape: &[usize],
    strides: &[usize],
) -> Result<Ordered<'a, TensorView<'a, T>>> {
    let device = Device::of_cudarc(stream.context())?;
    let len = slice.len();
    let (address, order) = slice.device_ptr(stream);
    // SAFETY: the slice is borrowed, and has as many elements as are checked below; the caller keeps to the stream, on which cudarc orders
    // what uses it.
    let view = unsafe { TensorView::from_raw_parts_unchecked(&device, address, shape, strides)? };
    expect(view.untyped().layout.extent(), len)?;
    Ok(Ordered { view, _order: order })
}

/// As [`view`], to be written.
///
/// # Safety
/// As for [`view`].
pub unsafe fn view_mut<'a, T: Element>(
    slice: &'a mut impl SliceMut<T>,
    stream: &'a CudaStream,
    shape: &[usize],
    strides: &[usize],
) -> Result<Ordered<'a, TensorViewMut<'a, T>>> {
    let device = Device::of_cudarc(stream.context())?;
    let len = slice.len();
    let (address, order) = slice.device_ptr_mut(stream);
    // SAFETY: as in `view`; the slice is borrowed exclusively.
    let view = unsafe { TensorViewMut::from_raw_parts_unchecked(&device, address, shape, strides)? };
    expect(view.untyped().layout.extent(), len)?;
    Ok(Ordered { view, _order: order })
}
