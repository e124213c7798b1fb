//! Tensors of this library for others.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use super::raw::{self, Managed, ManagedTensorVersioned, READ_ONLY};
use super::{Capsule, place, type_of};
use crate::tensor::{Layout, expect_memory};
use crate::{Device, Element, MAX_RANK, Result, Tensor, TensorView, TensorViewMut};

/// What a capsule's pointer leads to, and what it keeps.
struct Exported<M, K> {
    managed: M,
    shape: [i64; MAX_RANK],
    strides: [i64; MAX_RANK],
    _keeps: K,
}

/// Makes a capsule of memory that stays as long as `keeps` does.
fn export<T: Element, M: Managed, K: Send + 'static>(
    device: &Device,
    address: u64,
    layout: &Layout,
    keeps: K,
    flags: u64,
) -> Capsule<M> {
    // Shapes and strides of memory that exists are below 2^63.
    let dims = |of: &[usize]| {
        let mut dims = [0; MAX_RANK];
        dims.iter_mut().zip(of).for_each(|(to, &from)| *to = from as i64);
        dims
    };
    let tensor = raw::Tensor {
        data: std::ptr::without_provenance_mut(address as usize),
        place: place(device),
        ndim: layout.rank() as i32,
        dtype: type_of(T::DTYPE),
        shape: null_mut(),
        strides: null_mut(),
        byte_offset: 0,
    };
    let deleter: raw::Deleter<M> = Some(release::<M, K>);
    let exported = Box::into_raw(Box::new(Exported {
        managed: M::new(tensor, null_mut(), deleter, flags),
        shape: dims(layout.shape()),
        strides: dims(layout.strides()),
        _keeps: keeps,
    }));
    // SAFETY: the box is alive, and nothing else knows of it yet.
    unsafe {
        let places = raw::Tensor {
            shape: (&raw mut (*exported).shape).cast(),
            strides: (&raw mut (*exported).strides).cast(),
            ..tensor
        };
        (*exported).managed = M::new(places, exported.cast::<c_void>(), deleter, flags);
        Capsule::of(&raw mut (*exported).managed)
    }
}

/// Gives back what `export` made.
///
/// # Safety
/// `managed` is of `export` with the same types, and was not given back.
unsafe extern "C" fn release<M: Managed, K>(managed: *mut M) {
    // SAFETY: the caller's; the context is the box, which is not borrowed while it is dropped.
    drop(unsafe { Box::from_raw((*managed).context().cast::<Exported<M, K>>()) });
}

impl<T: Element> Tensor<T> {
    /// The tensor as a capsule for another library, which may write it: the memory is given back when that library calls the deleter,
    /// on whatever thread that is, as when a tensor is dropped.
    ///
    /// Nothing is waited for. The emulator's memory is of DLPack's type for extensions, which other libraries refuse.
    pub fn into_dlpack<M: Managed>(self) -> Capsule<M> {
        let (device, address, layout) = (self.device().clone(), self.address(), *self.layout());
        export::<T, M, _>(&device, address, &layout, self, 0)
    }
}

/// A tensor as a capsule for another library, which may only read it; it stays at least as long as the capsule.
///
/// The versioned struct alone can say that memory is read-only. Not every library heeds it.
pub fn shared<T: Element>(tensor: &Arc<Tensor<T>>) -> Capsule<ManagedTensorVersioned> {
    export::<T, _, _>(tensor.device(), tensor.address(), tensor.layout(), Arc::clone(tensor), READ_ONLY)
}

impl<T: Element> TensorView<'_, T> {
    /// The view as a capsule for another library, which may only read it; `keeps` is dropped when that library calls the deleter.
    ///
    /// Fails for a view [without memory](Self::without_memory).
    ///
    /// # Safety
    /// The memory stays allocated as long as `keeps` is not dropped, which may be on any thread, and nothing writes it meanwhile but work that streams or
    /// events put in order with the other library's.
    pub unsafe fn to_dlpack<K: Send + 'static>(&self, keeps: K) -> Result<Capsule<ManagedTensorVersioned>> {
        expect_memory(&self.region(), "self")?;
        Ok(export::<T, _, _>(self.device(), self.address(), &self.untyped().layout, keeps, READ_ONLY))
    }
}

impl<T: Element> TensorViewMut<'_, T> {
    /// The view as a capsule for another library, which may write it; `keeps` is dropped when that library calls the deleter.
    ///
    /// Fails for a view [without memory](Self::without_memory).
    ///
    /// # Safety
    /// As of [`TensorView::to_dlpack`]; and nothing else uses the memory meanwhile, but in that order.
    pub unsafe fn into_dlpack<M: Managed, K: Send + 'static>(self, keeps: K) -> Result<Capsule<M>> {
        expect_memory(&self.region(), "self")?;
        Ok(export::<T, M, _>(self.device(), self.address(), &self.untyped().layout, keeps, 0))
    }
}
