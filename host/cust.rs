//! Buffers and streams of the crate `cust`, of version 0.3: the feature `cust`.
//!
//! That crate looks for CUDA's toolkit when it is built, and links the driver.
//!
//! ```no_run
//! use cust::memory::DeviceBuffer;
//! use cust::stream::{Stream as CustStream, StreamFlags};
//! use tilewright::{Device, Stream, ops};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let _context = cust::quick_init()?;
//! let x = DeviceBuffer::from_slice(&[1.0f32; 8 * 64])?;
//! let mut y = DeviceBuffer::from_slice(&[0.0f32; 8 * 64])?;
//! let theirs = CustStream::new(StreamFlags::NON_BLOCKING, None)?;
//! let device = Device::cuda(0)?;
//! let stream = Stream::of_cust(&device, &theirs)?;
//! // SAFETY: the buffers are used on `stream` alone, which is waited for before anything else takes them.
//! let x = unsafe { tilewright::cust::view::<f32, _>(&device, &x, &[8, 64], &[64, 1])? };
//! // SAFETY: as above.
//! let mut y = unsafe { tilewright::cust::view_mut::<f32, _>(&device, &mut y, &[8, 64], &[64, 1])? };
//! ops::softmax(&stream, &x, &mut y)?;
//! theirs.synchronize()?;
//! # Ok(())
//! # }
//! ```

use std::marker::PhantomData;
use std::ops::Deref;

use ::cust::memory::{DeviceCopy, DeviceSlice};

use crate::foreign::expect;
use crate::{Device, Element, F8E4M3, F8E5M2, Result, Stream, TensorView, TensorViewMut, bf16, f16};

/// A stream of cust's, for as long as that one is borrowed. It is a [`Stream`] by reference.
pub struct Borrowed<'a> {
    stream: Stream,
    theirs: PhantomData<&'a ::cust::stream::Stream>,
}

impl Deref for Borrowed<'_> {
    type Target = Stream;
    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl Stream {
    /// A stream of cust's.
    ///
    /// Fails with [`WrongDevice`](crate::Error::WrongDevice) if it belongs to another context than `device`, which has the GPU's primary one;
    /// `cust::quick_init` and `cust::context::Context::new` take that too, `cust::context::legacy` does not.
    pub fn of_cust<'a>(device: &Device, stream: &'a ::cust::stream::Stream) -> Result<Borrowed<'a>> {
        // SAFETY: the stream is alive while it is borrowed, and `Borrowed` lends ours no longer than that.
        let ours = unsafe { Self::from_raw(device, stream.as_inner().cast())? };
        Ok(Borrowed { stream: ours, theirs: PhantomData })
    }
}

/// An element of a buffer of cust's that may hold a `T`: that type itself, or unsigned integers of its bits, since cust knows neither the
/// 16-bit floats of the crate `half` 2 nor 8-bit ones.
pub trait Holds<T: Element>: DeviceCopy + sealed::Holds<T> {}

mod sealed {
    pub trait Holds<T> {}
}

macro_rules! holds {
    ($($theirs:ident holds $($t:ident)*;)*) => { $($(
        impl sealed::Holds<$t> for $theirs {}
        impl Holds<$t> for $theirs {}
        const _: () = assert!(size_of::<$theirs>() == size_of::<$t>());
    )*)* };
}
holds! {
    f32 holds f32;
    u8 holds u8 F8E4M3 F8E5M2;
    i8 holds i8;
    u16 holds f16 bf16;
    u32 holds u32;
    i32 holds i32;
    i64 holds i64;
}

/// A view of a buffer of cust's, or of a part of one, to be read: with a shape, and strides in elements.
///
/// Fails unless the buffer has all of the view, and as [`TensorView::from_raw_parts`] does.
///
/// # Safety
/// The buffer stays until the work that is queued with the view is done, and nothing writes it meanwhile, unless streams or events put the two in order. A
/// slice of a part, which cust copies freely, does not borrow the buffer: that is the caller's to see to.
pub unsafe fn view<'a, T: Element, S: Holds<T>>(
    device: &Device,
    slice: &'a DeviceSlice<S>,
    shape: &[usize],
    strides: &[usize],
) -> Result<TensorView<'a, T>> {
    let address = slice.as_device_ptr().as_raw();
    // SAFETY: the slice is borrowed, and has as many elements as are checked below; the rest is the caller's.
    let view = unsafe { TensorView::from_raw_parts_unchecked(device, address, shape, strides)? };
    expect(view.untyped().layout.extent(), slice.len())?;
    view.check_residence()?;
    Ok(view)
}

/// As [`view`], to be written.
///
/// # Safety
/// As for [`view`], and nothing reads the buffer meanwhile.
pub unsafe fn view_mut<'a, T: Element, S: Holds<T>>(
    device: &Device,
    slice: &'a mut DeviceSlice<S>,
    shape: &[usize],
    strides: &[usize],
) -> Result<TensorViewMut<'a, T>> {
    let address = slice.as_device_ptr().as_raw();
    // SAFETY: as in `view`; the slice is borrowed exclusively.
    let view = unsafe { TensorViewMut::from_raw_parts_unchecked(device, address, shape, strides)? };
    expect(view.untyped().layout.extent(), slice.len())?;
    view.check_residence()?;
    Ok(view)
}
