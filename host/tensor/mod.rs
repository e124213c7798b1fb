//! Tensors in device memory, owned and borrowed.

use std::fmt;
use std::marker::PhantomData;

use crate::{DType, Device, Element, Error, Result, Stream, graph};

mod argument;
mod layout;
mod named;
mod planned;
mod region;
#[cfg(test)]
mod tests;
mod untyped;
mod view;

pub(crate) use argument::Reading;
pub(crate) use layout::Layout;
pub use layout::MAX_RANK;
pub use named::{Named, check, of_shape};
#[cfg(feature = "dlpack")]
pub(crate) use planned::expect_memory;
pub(crate) use planned::{Operands, PLANNED_ROOM, Places, alignment, of_address};
pub(crate) use region::Region;
pub(crate) use untyped::Untyped;
pub use view::{TensorView, TensorViewMut};

/// A row-major tensor that owns its device memory.
///
/// Dropping it waits for the work queued on the device, so memory in use is never given back.
pub struct Tensor<T> {
    memory: Memory,
    layout: Layout,
    element: PhantomData<T>,
}

/// An allocation, given back when dropped.
struct Memory {
    device: Device,
    /// 0 if there are no bytes.
    address: u64,
}

impl Memory {
    fn new(device: &Device, bytes: usize) -> Result<Self> {
        graph::refuse("allocating memory")?;
        let address = if bytes == 0 { 0 } else { device.backend().allocate(bytes)? };
        Ok(Self { device: device.clone(), address })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.address != 0 {
            self.device.backend().free(self.address);
        }
    }
}

impl<T: Element> Tensor<T> {
    /// A tensor whose elements have whatever values the memory holds.
    pub fn uninit(device: &Device, shape: &[usize]) -> Result<Self> {
        let layout = Layout::contiguous(shape)?;
        let memory = Memory::new(device, layout.len() * size_of::<T>())?;
        Ok(Self { memory, layout, element: PhantomData })
    }

    /// A tensor with every element set to `value`. Returns when the memory is written.
    pub fn filled(device: &Device, value: T, shape: &[usize]) -> Result<Self> {
        let mut tensor = Self::uninit(device, shape)?;
        let stream = device.default_stream();
        tensor.view_mut().fill(&stream, value)?;
        stream.synchronize()?;
        Ok(tensor)
    }

    /// A tensor of zeros. Returns when the memory is written.
    pub fn zeros(device: &Device, shape: &[usize]) -> Result<Self> {
        Self::filled(device, T::default(), shape)
    }

    /// A tensor with the elements of `data`, in row-major order. Returns when the copy is done.
    pub fn from_slice(device: &Device, data: &[T], shape: &[usize]) -> Result<Self> {
        let mut tensor = Self::uninit(device, shape)?;
        tensor.write(data)?;
        Ok(tensor)
    }

    /// Sets the elements to those of `data`, in row-major order.
    ///
    /// Waits for all work queued on the device so far, and for the copy.
    pub fn write(&mut self, data: &[T]) -> Result<()> {
        graph::refuse("write")?;
        self.device().synchronize()?;
        let stream = self.device().default_stream();
        self.write_on(&stream, data)
    }

    /// Sets the elements to those of `data`, after the work queued on `stream` so far. Waits for the copy, which is an error
    /// while the stream is captured.
    pub fn write_on(&mut self, stream: &Stream, data: &[T]) -> Result<()> {
        stream.expect_on(self.device())?;
        stream.refuse_capture("write_on")?;
        if data.len() != self.len() {
            let allowed = format!("of {} elements, for shape {:?}", self.len(), self.shape());
            return Err(Error::argument("data", format!("of {} elements", data.len()), allowed));
        }
        if data.is_empty() {
            return Ok(());
        }
        let (backend, bytes) = (self.device().backend(), size_of_val(data));
        // SAFETY: the tensor has memory for as many elements, and the copy is done when the stream is.
        unsafe { backend.upload(stream.id(), self.address(), data.as_ptr().cast(), bytes)? };
        stream.synchronize()
    }

    /// Copies the elements to the host. Waits for all work queued on the device so far.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.view().to_vec()
    }

    /// Copies the elements to the host, after the work queued on `stream` so far.
    pub fn to_vec_on(&self, stream: &Stream) -> Result<Vec<T>> {
        self.view().to_vec_on(stream)
    }

    /// The same elements under another shape.
    pub fn reshape(self, shape: &[usize]) -> Result<Self> {
        let layout = self.layout.reshape(shape)?;
        Ok(Self { layout, ..self })
    }

    /// All of the tensor, to be read.
    pub fn view(&self) -> TensorView<'_, T> {
        TensorView::of_tensor(self.device(), self.address(), self.layout)
    }

    /// All of the tensor, to be written.
    pub fn view_mut(&mut self) -> TensorViewMut<'_, T> {
        TensorViewMut::of_tensor(self.device(), self.address(), self.layout)
    }

    /// Queues the setting of every element to `value`.
    pub fn fill(&mut self, stream: &Stream, value: T) -> Result<()> {
        self.view_mut().fill(stream, value)
    }

    /// Queues a copy of another tensor's elements; it must have the same shape.
    pub fn copy_from(&mut self, stream: &Stream, from: &Tensor<T>) -> Result<()> {
        self.view_mut().copy_from(stream, &from.view())
    }

    /// The device that it lies on.
    pub fn device(&self) -> &Device {
        &self.memory.device
    }
    /// The address of the first element; 0 if there is none.
    pub fn address(&self) -> u64 {
        self.memory.address
    }
    /// Size of each dimension.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.layout.len()
    }
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    #[cfg(feature = "dlpack")]
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }
    /// The element type.
    pub fn dtype(&self) -> DType {
        T::DTYPE
    }
}

impl<'a, T: Element> From<&'a Tensor<T>> for TensorView<'a, T> {
    fn from(tensor: &'a Tensor<T>) -> Self {
        tensor.view()
    }
}

impl<'a, T: Element> From<&'a mut Tensor<T>> for TensorViewMut<'a, T> {
    fn from(tensor: &'a mut Tensor<T>) -> Self {
        tensor.view_mut()
    }
}

impl<T: Element> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("dtype", &T::DTYPE)
            .field("shape", &self.shape())
            .field("address", &format_args!("{:#x}", self.address()))
            .field("device", &self.device().label())
            .finish()
    }
}
