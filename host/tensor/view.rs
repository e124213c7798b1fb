//! Borrowed tensors: a part of some device memory with a shape and strides.

use std::fmt;
use std::marker::PhantomData;

use tilewright_device::abi::{GlobalAbi, GlobalArg};

use super::Untyped;
use super::layout::Layout;
use super::planned::{NO_MEMORY, expect_memory, place};
use super::region::Region;
use crate::backend::Residence;
use crate::{DType, Device, Element, Error, Result, Stream, graph};

/// A tensor that is read: device memory with a shape and strides.
///
/// It costs nothing but its size; making one of another ([`transpose`](Self::transpose), [`narrow`](Self::narrow), …)
/// moves no data. Strides are in elements and not negative.
pub struct TensorView<'a, T> {
    device: Device,
    address: u64,
    layout: Layout,
    memory: PhantomData<&'a T>,
}

/// A tensor that is written: device memory that nothing else uses meanwhile, with a shape and strides.
///
/// No two indices mean the same element.
pub struct TensorViewMut<'a, T> {
    device: Device,
    address: u64,
    layout: Layout,
    memory: PhantomData<&'a mut T>,
}

macro_rules! common {
    ($View:ident, $unique:literal) => {
        impl<'a, T: Element> $View<'a, T> {
            /// A view of memory that something else owns: cudarc, candle, PyTorch, ….
            ///
            /// `address` is that of the first element, `strides` are in elements. Fails unless the address is aligned to
            /// the element and lies in memory of `device` that holds all of the view; the driver is asked for that.
            ///
            /// # Safety
            /// The memory stays allocated until the work queued with the view is done, and nothing uses it meanwhile in a
            /// way that conflicts with that work, unless streams or events put the two in order.
            pub unsafe fn from_raw_parts(
                device: &Device,
                address: u64,
                shape: &[usize],
                strides: &[usize],
            ) -> Result<Self> {
                let view = Self::foreign(device, address, shape, strides)?;
                view.check_residence()?;
                Ok(view)
            }

            /// As [`from_raw_parts`](Self::from_raw_parts), without asking the driver where the memory is.
            ///
            /// The driver does not know memory that is allocated on a stream while the stream is captured (`cuMemAllocAsync`, PyTorch's and
            /// candle's pools): it exists when the graph runs. Address, shape and strides are checked as there.
            ///
            /// # Safety
            /// As [`from_raw_parts`](Self::from_raw_parts); and when the work queued with the view runs, the address is one of memory of
            /// `device` that holds all of the view.
            pub unsafe fn from_raw_parts_unchecked(
                device: &Device,
                address: u64,
                shape: &[usize],
                strides: &[usize],
            ) -> Result<Self> {
                Self::foreign(device, address, shape, strides)
            }

            /// A view that has a shape, strides and an alignment, but no memory: what plans are made of ahead of the tensors.
            ///
            /// `strides` are in elements, `align` is in bytes, a power of two: that of the addresses that runs of the plan will be given, or
            /// less. Nothing runs with such a view, which is an error that names the argument.
            pub fn without_memory(
                device: &Device,
                shape: &[usize],
                strides: &[usize],
                align: u64,
            ) -> Result<Self> {
                let width = size_of::<T>() as u64;
                if !align.is_power_of_two() || !(width..NO_MEMORY).contains(&align) {
                    let allowed = format!("a power of two from {width}, the size of {}, to {}", T::DTYPE, NO_MEMORY / 2);
                    return Err(Error::argument("align", align.to_string(), allowed));
                }
                Self::foreign(device, align, shape, strides)
            }

            /// The same shape, strides and alignment at a place that a plan gives it.
            pub(crate) fn planned(&self, number: usize) -> Self {
                Self::of_tensor(&self.device, place(number, self.address), self.layout)
            }

            fn foreign(device: &Device, address: u64, shape: &[usize], strides: &[usize]) -> Result<Self> {
                let layout = Layout::strided(shape, strides)?;
                if $unique && !layout.is_injective() {
                    let was = format!("{strides:?} with shape {shape:?}");
                    let allowed = "such that each dimension steps over all that lies inside it, so that no two \
                                   indices mean the same element";
                    return Err(Error::argument("strides", was, allowed));
                }
                let width = size_of::<T>() as u64;
                let bytes = layout.extent() as u64 * width;
                let aligned = address != 0 && address.is_multiple_of(width);
                if bytes > 0 && !(aligned && address.checked_add(bytes).is_some()) {
                    let allowed = format!(
                        "a device address that is a multiple of {width}, the size of {}, with {bytes} bytes behind it",
                        T::DTYPE
                    );
                    return Err(Error::argument("address", format!("{address:#x}"), allowed));
                }
                Ok(Self::of_tensor(device, address, layout))
            }

            pub(crate) fn of_tensor(device: &Device, address: u64, layout: Layout) -> Self {
                Self { device: device.clone(), address, layout, memory: PhantomData }
            }

            /// The device that it lies on.
            pub fn device(&self) -> &Device {
                &self.device
            }
            /// The address of the first element.
            pub fn address(&self) -> u64 {
                self.address
            }
            /// Size of each dimension.
            pub fn shape(&self) -> &[usize] {
                self.layout.shape()
            }
            /// Elements between neighbours in each dimension.
            pub fn strides(&self) -> &[usize] {
                self.layout.strides()
            }
            /// Number of dimensions.
            pub fn rank(&self) -> usize {
                self.layout.rank()
            }
            /// Number of elements.
            pub fn len(&self) -> usize {
                self.layout.len()
            }
            /// Whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
            /// The element type.
            pub fn dtype(&self) -> DType {
                T::DTYPE
            }
            /// Whether the elements lie in memory in row-major order without gaps.
            pub fn is_contiguous(&self) -> bool {
                self.layout.is_contiguous()
            }

            fn with(mut self, (layout, offset): (Layout, usize)) -> Self {
                self.address += (offset * size_of::<T>()) as u64;
                self.layout = layout;
                self
            }

            /// With two dimensions exchanged.
            pub fn transpose(self, i: usize, j: usize) -> Result<Self> {
                let layout = self.layout.transpose(i, j)?;
                Ok(self.with((layout, 0)))
            }
            /// `len` indices of a dimension, from `start` on.
            pub fn narrow(self, dim: usize, start: usize, len: usize) -> Result<Self> {
                let part = self.layout.narrow(dim, start, len)?;
                Ok(self.with(part))
            }
            /// One index of a dimension; the dimension goes away.
            pub fn select(self, dim: usize, index: usize) -> Result<Self> {
                let part = self.layout.select(dim, index)?;
                Ok(self.with(part))
            }
            /// With a dimension of size 1 put in front of `dim`.
            pub fn insert_dim(self, dim: usize) -> Result<Self> {
                let layout = self.layout.insert(dim)?;
                Ok(self.with((layout, 0)))
            }
            /// The same elements in the same order under another shape; fails where that would take a copy.
            pub fn reshape(self, shape: &[usize]) -> Result<Self> {
                let layout = self.layout.reshape(shape)?;
                Ok(self.with((layout, 0)))
            }

            /// Whether this view and another may share memory.
            ///
            /// Exact for views that are apart and for windows of one matrix; otherwise interleaved views are taken to
            /// overlap.
            pub fn overlaps<U: Element>(&self, other: &TensorView<'_, U>) -> bool {
                self.region().overlaps(&other.region())
            }

            pub(crate) fn untyped(&self) -> Untyped {
                Untyped { address: self.address, dtype: T::DTYPE, layout: self.layout }
            }

            pub(crate) fn region(&self) -> Region<'_> {
                Region { address: self.address, width: size_of::<T>(), layout: &self.layout }
            }

            /// The argument for a kernel's parameter of type `G`: `Global<T, RANK, …>` or `GlobalMut<T, RANK, …>`.
            ///
            /// A view of fewer dimensions gets leading ones. Where the device has a TMA unit that can address the tensor,
            /// the argument has its tensor map. Its L2 policy is the normal one; set `policy` for another.
            pub fn arg<const RANK: usize, G: GlobalArg<RANK, Element = T>>(
                &self,
            ) -> Result<GlobalAbi<T, RANK>> {
                const {
                    assert!(RANK >= 1 && RANK <= crate::MAX_RANK, "kernels take tensors of 1 to 5 dimensions")
                };
                self.untyped().boxes(self.device.backend(), G::ROW_MAJOR, [G::BOX_ROWS, G::BOX_PLANES])
            }

            /// Copies the elements to the host in row-major order.
            ///
            /// Waits for all work queued on the device so far, which is an error while one of its streams is captured.
            pub fn to_vec(&self) -> Result<Vec<T>> {
                graph::refuse("to_vec")?;
                self.device.synchronize()?;
                self.to_vec_on(&self.device.default_stream())
            }

            /// Copies the elements to the host in row-major order, after the work queued on `stream` so far.
            ///
            /// Waits for the copy, which is an error while the stream is captured. Fails where the host has no room for the
            /// elements, or for what lies between the first and the last of them.
            pub fn to_vec_on(&self, stream: &Stream) -> Result<Vec<T>> {
                stream.expect_on(&self.device)?;
                stream.refuse_capture("to_vec_on")?;
                expect_memory(&self.region(), "self")?;
                let count = self.layout.extent();
                let mut span = self.room(count, "from the first element to the last")?;
                if count > 0 {
                    let bytes = count * size_of::<T>();
                    // SAFETY: the view's memory is valid, there is room for as much, and the copy is done when the stream is:
                    // then the elements have values, whatever their bits are.
                    unsafe {
                        let to = span.as_mut_ptr().cast();
                        self.device.backend().download(stream.id(), self.address, to, bytes)?;
                        stream.synchronize()?;
                        span.set_len(count);
                    }
                }
                if self.is_contiguous() {
                    return Ok(span);
                }
                let mut out = self.room(self.len(), "in row-major order")?;
                self.layout.for_each_offset(|offset| out.extend(span.get(offset)));
                Ok(out)
            }

            /// Room for some elements on the host; `how` says which ones.
            fn room(&self, count: usize, how: &str) -> Result<Vec<T>> {
                let mut room = Vec::new();
                match room.try_reserve_exact(count) {
                    Ok(()) => Ok(room),
                    Err(_) => {
                        let (shape, strides, bytes) = (self.shape(), self.strides(), count * size_of::<T>());
                        let was = format!("of shape {shape:?} and strides {strides:?}: {bytes} bytes {how}");
                        Err(Error::argument("self", was, "of as many bytes as the host has room for"))
                    }
                }
            }

            /// Checks that the device has memory there that holds all of the view.
            pub(crate) fn check_residence(&self) -> Result<()> {
                if self.is_empty() {
                    return Ok(());
                }
                let wrong = |was: String, allowed: String| Err(Error::argument("address", was, allowed));
                let bytes = (self.layout.extent() * size_of::<T>()) as u64;
                let label = self.device.label();
                match self.device.backend().residence(self.address)? {
                    Residence::Here { end } if self.address + bytes <= end => Ok(()),
                    Residence::Here { end } => wrong(
                        format!(
                            "{:#x}, {} bytes before its allocation's end",
                            self.address,
                            end - self.address
                        ),
                        format!("in an allocation with room for the view's {bytes} bytes"),
                    ),
                    Residence::Elsewhere(was) => {
                        Err(Error::WrongDevice { argument: "address".into(), was, expected: label.into() })
                    }
                    Residence::Unknown => wrong(
                        format!("{:#x}, which the device does not know", self.address),
                        format!("memory of {label}"),
                    ),
                }
            }
        }

        impl<T: Element> fmt::Debug for $View<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($View))
                    .field("dtype", &T::DTYPE)
                    .field("shape", &self.shape())
                    .field("strides", &self.strides())
                    .field("address", &format_args!("{:#x}", self.address))
                    .field("device", &self.device.label())
                    .finish()
            }
        }
    };
}
common!(TensorView, false);
common!(TensorViewMut, true);

impl<T> Clone for TensorView<'_, T> {
    fn clone(&self) -> Self {
        Self { device: self.device.clone(), address: self.address, layout: self.layout, memory: PhantomData }
    }
}

impl<T: Element> TensorView<'_, T> {
    /// Stretched to `shape`: dimensions of size 1, and missing leading ones, repeat.
    pub fn broadcast(self, shape: &[usize]) -> Result<Self> {
        let layout = self.layout.broadcast(shape)?;
        Ok(self.with((layout, 0)))
    }
}

impl<'a> TensorView<'a, u32> {
    /// The same numbers as `i32`, for operators that take offsets or positions of that type: those below 2^31, others become negative.
    pub fn as_i32(&self) -> TensorView<'a, i32> {
        TensorView::of_tensor(&self.device, self.address, self.layout)
    }
}

impl<'a, T: Element> TensorViewMut<'a, T> {
    /// The same, to be read.
    pub fn as_view(&self) -> TensorView<'_, T> {
        TensorView::of_tensor(&self.device, self.address, self.layout)
    }

    /// The same for a shorter time, to be given away.
    pub fn reborrow(&mut self) -> TensorViewMut<'_, T> {
        TensorViewMut::of_tensor(&self.device, self.address, self.layout)
    }

    /// Some rows, for plans, which write nothing.
    #[cfg(feature = "gemm")]
    pub(crate) fn part(&self, rows: std::ops::Range<usize>) -> Result<TensorViewMut<'_, T>> {
        TensorViewMut::of_tensor(&self.device, self.address, self.layout).narrow(0, rows.start, rows.len())
    }

    /// The same under another shape, for plans, which write nothing.
    #[cfg(feature = "conv")]
    pub(crate) fn reshaped(&self, shape: &[usize]) -> Result<TensorViewMut<'_, T>> {
        TensorViewMut::of_tensor(&self.device, self.address, self.layout).reshape(shape)
    }

    /// The indices of a dimension below `at`, and those from `at` on.
    pub fn split_at(self, dim: usize, at: usize) -> Result<(Self, Self)> {
        let size = self.shape().get(dim).copied().unwrap_or(0);
        let low = self.layout.narrow(dim, 0, at)?;
        let high = self.layout.narrow(dim, at, size - at)?;
        let part = || Self::of_tensor(&self.device, self.address, self.layout);
        Ok((part().with(low), part().with(high)))
    }

    /// Queues the setting of every element to `value`. The view must be contiguous.
    pub fn fill(&mut self, stream: &Stream, value: T) -> Result<()> {
        self.check_contiguous("self")?;
        expect_memory(&self.region(), "self")?;
        stream.expect_on(&self.device)?;
        if self.is_empty() {
            return Ok(());
        }
        // SAFETY: the view's memory is valid and its own.
        unsafe {
            self.device.backend().fill(stream.id(), self.address, value.bits(), size_of::<T>(), self.len())
        }
    }

    /// Queues a copy of `from`'s elements. Both views must be contiguous and of one shape.
    pub fn copy_from(&mut self, stream: &Stream, from: &TensorView<'_, T>) -> Result<()> {
        self.check_contiguous("self")?;
        stream.expect_on(&self.device)?;
        self.device.expect_same(&from.device, "from")?;
        expect_memory(&self.region(), "self")?;
        expect_memory(&from.region(), "from")?;
        if from.shape() != self.shape() || !from.is_contiguous() || self.overlaps(from) {
            let was = format!(
                "of shape {:?} with strides {:?} at {:#x}",
                from.shape(),
                from.strides(),
                from.address
            );
            let allowed = format!("contiguous, of shape {:?}, and apart from `self`", self.shape());
            return Err(Error::argument("from", was, allowed));
        }
        if self.is_empty() {
            return Ok(());
        }
        let bytes = self.len() * size_of::<T>();
        // SAFETY: both views' memory is valid, and they do not overlap.
        unsafe { self.device.backend().copy(stream.id(), self.address, from.address, bytes) }
    }

    fn check_contiguous(&self, name: &'static str) -> Result<()> {
        if self.is_contiguous() {
            return Ok(());
        }
        let was = format!("of shape {:?} with strides {:?}", self.shape(), self.strides());
        Err(Error::argument(name, was, "contiguous"))
    }
}
