//! Tensors of other libraries for this one.

use std::fmt;
use std::ptr::NonNull;

use super::raw::{
    self, CPU, CUDA, EXTENSION, Managed, ManagedTensorVersioned, Place, READ_ONLY, Type, VERSION,
};
use super::{TYPES, place, type_of};
use crate::{DType, Device, Element, Error, MAX_RANK, Result, TensorView, TensorViewMut};

/// A tensor with the function that gives its memory back, which is called when the capsule is dropped.
///
/// `M` is the struct: that with a version or, where the other library is older, [`ManagedTensor`](super::ManagedTensor).
pub struct Capsule<M: Managed = ManagedTensorVersioned> {
    managed: NonNull<M>,
}

/// As many numbers as there are dimensions.
#[derive(Clone, Copy, Default)]
struct Dims {
    all: [usize; MAX_RANK],
    rank: usize,
}

impl Dims {
    fn get(&self) -> &[usize] {
        self.all.get(..self.rank).unwrap_or(&[])
    }
}

impl<M: Managed> Capsule<M> {
    /// Takes a tensor over from another library: in Python the pointer of a capsule `dltensor_versioned` (or `dltensor`), whose name is to be
    /// changed to `used_dltensor_versioned` (or `used_dltensor`) then.
    ///
    /// Fails for a null pointer, and for another major version than 1; that tensor is given back.
    ///
    /// # Safety
    /// `managed` is null or a struct of this kind that is the caller's to give away: valid until its deleter is called, which this value does when
    /// it is dropped, on its thread.
    pub unsafe fn from_raw(managed: *mut M) -> Result<Self> {
        let Some(managed) = NonNull::new(managed) else {
            return Err(Error::argument("managed", "null", "a tensor"));
        };
        let capsule = Self { managed };
        match capsule.managed().version() {
            Some(version) if version.major != VERSION.major => Err(Error::argument(
                "version",
                format!("{}.{}", version.major, version.minor),
                format!("of DLPack {}, whose layout this is", VERSION.major),
            )),
            _ => Ok(capsule),
        }
    }

    /// # Safety
    /// As of `from_raw`; not null, and of this version.
    pub(super) unsafe fn of(managed: *mut M) -> Self {
        // SAFETY: the caller's.
        Self { managed: unsafe { NonNull::new_unchecked(managed) } }
    }

    /// The struct, for another library, which has to call its deleter.
    pub fn into_raw(self) -> *mut M {
        std::mem::ManuallyDrop::new(self).managed.as_ptr()
    }

    fn managed(&self) -> &M {
        // SAFETY: it is valid as long as this value: see `from_raw`.
        unsafe { self.managed.as_ref() }
    }

    /// The type of the elements. Fails for one that tensors here do not have.
    pub fn dtype(&self) -> Result<DType> {
        let found = self.managed().tensor().dtype;
        TYPES.into_iter().find(|&dtype| type_of(dtype) == found).ok_or_else(|| {
            let names = TYPES.map(DType::name).join(", ");
            Error::argument("dtype", Named(found).to_string(), format!("one of {names}"))
        })
    }

    /// Whether the other library says that the memory is not to be written. The struct without a version cannot say so.
    pub fn is_read_only(&self) -> bool {
        self.managed().flags() & READ_ONLY != 0
    }

    /// All of the tensor, to be read.
    ///
    /// Fails unless its elements are of type `T`, its memory is that of `device`, its strides are not negative, the first element is aligned, and there are at most
    /// 5 dimensions; and as [`TensorView::from_raw_parts`] does.
    ///
    /// # Safety
    /// The capsule stays until the work queued with the view is done, and nothing uses the memory meanwhile in a way that conflicts with that work, unless
    /// streams or events put the two in order.
    pub unsafe fn view<T: Element>(&self, device: &Device) -> Result<TensorView<'_, T>> {
        let (address, shape, strides) = self.parts::<T>(device)?;
        // SAFETY: the caller's, and the producer's that the memory is there.
        unsafe { TensorView::from_raw_parts(device, address, shape.get(), strides.get()) }
    }

    /// All of the tensor, to be written. Fails as [`view`](Self::view) does, for memory that is read-only, and where two indices mean one element.
    ///
    /// # Safety
    /// As of [`view`](Self::view).
    pub unsafe fn view_mut<T: Element>(&mut self, device: &Device) -> Result<TensorViewMut<'_, T>> {
        if self.is_read_only() {
            let allowed = "without the flag of read-only memory, since the view is to be written";
            return Err(Error::argument("flags", "read-only", allowed));
        }
        let (address, shape, strides) = self.parts::<T>(device)?;
        // SAFETY: as in `view`; the capsule is borrowed exclusively.
        unsafe { TensorViewMut::from_raw_parts(device, address, shape.get(), strides.get()) }
    }

    /// The address of the first element, shape and strides, of a tensor of `T` on the device.
    fn parts<T: Element>(&self, device: &Device) -> Result<(u64, Dims, Dims)> {
        let tensor = self.managed().tensor();
        if tensor.dtype != type_of(T::DTYPE) {
            let allowed = format!("{}, the type of the view", T::DTYPE);
            return Err(Error::argument("dtype", Named(tensor.dtype).to_string(), allowed));
        }
        let expected = place(device);
        if tensor.place != expected {
            let allowed = format!("{}, the memory of {}", Named(expected), device.label());
            return Err(Error::argument("device", Named(tensor.place).to_string(), allowed));
        }
        let (shape, strides) = dims(tensor)?;
        let width = size_of::<T>() as u64;
        let address = (tensor.data.addr() as u64).checked_add(tensor.byte_offset);
        match address {
            Some(address) if address.is_multiple_of(width) || shape.get().contains(&0) => {
                Ok((address, shape, strides))
            }
            _ => {
                let was = format!("{} behind {:#x}", tensor.byte_offset, tensor.data.addr());
                let allowed = format!("such that the first element lies at a multiple of {width}, its size");
                Err(Error::argument("byte_offset", was, allowed))
            }
        }
    }
}

/// The shape and the strides of a tensor.
fn dims(tensor: &raw::Tensor) -> Result<(Dims, Dims)> {
    let Some(rank) = usize::try_from(tensor.ndim).ok().filter(|&rank| rank <= MAX_RANK) else {
        return Err(Error::argument("ndim", tensor.ndim.to_string(), format!("from 0 to {MAX_RANK}")));
    };
    if rank > 0 && tensor.shape.is_null() {
        return Err(Error::argument("shape", "null", format!("{rank} numbers, one a dimension")));
    }
    // SAFETY: the producer has as many numbers there as dimensions.
    let shape = unsafe { read("shape", tensor.shape, rank, &Dims::default())? };
    if !tensor.strides.is_null() {
        // SAFETY: as above.
        let strides = unsafe { read("strides", tensor.strides, rank, &shape)? };
        return Ok((shape, strides));
    }
    let (mut strides, mut step) = (Dims { rank, ..Dims::default() }, 1usize);
    for (stride, &size) in strides.all.iter_mut().zip(shape.get()).rev() {
        *stride = step;
        step = step.saturating_mul(size.max(1));
    }
    Ok((shape, strides))
}

/// So many numbers, which are not negative: of dimensions with one index nobody asks what their stride is.
///
/// # Safety
/// `from` has as many, or there are none.
unsafe fn read(name: &'static str, from: *const i64, rank: usize, shape: &Dims) -> Result<Dims> {
    if rank == 0 {
        return Ok(Dims::default());
    }
    // SAFETY: the caller's.
    let numbers = unsafe { std::slice::from_raw_parts(from, rank) };
    let mut dims = Dims { rank, ..Dims::default() };
    for (at, (to, &number)) in dims.all.iter_mut().zip(numbers).enumerate() {
        let number = if shape.get().get(at) == Some(&1) { number.max(0) } else { number };
        *to = usize::try_from(number)
            .map_err(|_| Error::argument(name, format!("{numbers:?}"), "of numbers that are not negative"))?;
    }
    Ok(dims)
}

impl<M: Managed> Drop for Capsule<M> {
    fn drop(&mut self) {
        if let Some(deleter) = self.managed().deleter() {
            // SAFETY: the struct is this value's, and is given back once.
            unsafe { deleter(self.managed.as_ptr()) };
        }
    }
}

impl<M: Managed> fmt::Debug for Capsule<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tensor = self.managed().tensor();
        f.debug_struct("Capsule")
            .field("dtype", &format_args!("{}", Named(tensor.dtype)))
            .field("device", &format_args!("{}", Named(tensor.place)))
            .field("ndim", &tensor.ndim)
            .field("read_only", &self.is_read_only())
            .finish()
    }
}

/// What messages call it.
struct Named<T>(T);

impl fmt::Display for Named<Place> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { kind, ordinal } = self.0;
        match kind {
            CPU => f.write_str("the CPU"),
            CUDA => write!(f, "CUDA device {ordinal}"),
            EXTENSION => write!(f, "an extension's device {ordinal}"),
            _ => write!(f, "device {ordinal} of DLPack's type {kind}"),
        }
    }
}

impl fmt::Display for Named<Type> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Type { code, bits, lanes } = self.0;
        match TYPES.into_iter().find(|&dtype| type_of(dtype) == self.0) {
            Some(dtype) => dtype.fmt(f),
            None => write!(f, "of DLPack's code {code} with {bits} bits and {lanes} lanes"),
        }
    }
}
