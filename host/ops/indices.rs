//! Lengths, offsets, page numbers and positions, of the types that frameworks have them in.

use crate::TensorView;
use crate::ops::frame::Named;
use crate::tensor::Untyped;
#[cfg(feature = "pointwise")]
use crate::{DType, Result, tensor::Layout};

/// Lengths, offsets, page numbers, positions, slots or lists of blocks in a device's memory: of `i32`, `u32` or `i64`. A view of one of these types is one, and so is a reference
/// to it.
///
/// Kernels read the low 32 bits of each, as an `i32`: numbers beyond its range are not told from others.
#[derive(Clone, Debug)]
pub struct Indices<'a>(Of<'a>);

#[derive(Clone, Debug)]
enum Of<'a> {
    I32(TensorView<'a, i32>),
    U32(TensorView<'a, u32>),
    I64(TensorView<'a, i64>),
}

macro_rules! of {
    ($($t:ty: $of:ident),*) => { $(
        impl<'a> From<TensorView<'a, $t>> for Indices<'a> {
            fn from(view: TensorView<'a, $t>) -> Self {
                Indices(Of::$of(view))
            }
        }
        impl<'a> From<&TensorView<'a, $t>> for Indices<'a> {
            fn from(view: &TensorView<'a, $t>) -> Self {
                view.clone().into()
            }
        }
    )* };
}
of!(i32: I32, u32: U32, i64: I64);

/// The same of all types.
macro_rules! each {
    ($self:ident, $view:ident => $of:expr) => {
        match &$self.0 {
            Of::I32($view) => $of,
            Of::U32($view) => $of,
            Of::I64($view) => $of,
        }
    };
}

impl Indices<'_> {
    /// As a tensor that a call reads.
    pub(super) fn named(&self, name: &'static str) -> Named<'_> {
        each!(self, view => Named::read(name, view))
    }

    /// At the place that a plan gives the tensor of this number.
    pub(super) fn planned(&self, number: usize) -> Self {
        each!(self, view => view.planned(number).into())
    }

    pub(super) fn untyped(&self) -> Untyped {
        each!(self, view => view.untyped())
    }
}

/// The low 32 bits of indices as a tensor of `i32`, which lie first in memory: kernels of elements of any strides read that.
#[cfg(feature = "pointwise")]
pub(super) fn words(indices: Untyped) -> Result<Untyped> {
    let Untyped { address, dtype, layout } = indices;
    let words = dtype.bytes() / DType::I32.bytes();
    let strides: Vec<_> = layout.strides().iter().map(|stride| stride.saturating_mul(words)).collect();
    Ok(Untyped { address, dtype: DType::I32, layout: Layout::strided(layout.shape(), &strides)? })
}

/// The logarithm to base 2 of the bytes from one number to the next, as kernels take it.
pub(super) fn log2_bytes(indices: &Untyped) -> u32 {
    indices.dtype.bytes().ilog2()
}
