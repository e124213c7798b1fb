//! A search for the largest elements, checked.

use tilewright_reduce::{MAX_COLUMNS, MAX_FOUND, Walk};

use crate::ops::frame::{Named, check, of_shape};
use crate::ops::reduce::walk;
use crate::ops::runs::runs;
use crate::ops::{FloatElement, IndexElement};
use crate::tensor::Untyped;
use crate::{Device, Error, Result, TensorView, TensorViewMut};

/// A call, checked.
pub(super) struct Problem {
    pub(super) device: Device,
    /// x, values and indices.
    pub(super) tensors: [Untyped; 3],
    pub(super) rows: Walk<3>,
    pub(super) columns: u32,
    pub(super) found: u32,
}

impl Problem {
    pub(super) fn new<T: FloatElement, I: IndexElement>(
        x: &TensorView<'_, T>,
        values: &TensorViewMut<'_, T>,
        indices: &TensorViewMut<'_, I>,
    ) -> Result<Self> {
        let shape = x.shape();
        let Some((&columns, outer)) = shape.split_last() else {
            return Err(Error::argument("x", of_shape(shape), "of 1 dimension or more"));
        };
        if columns > MAX_COLUMNS as usize {
            return Err(Error::argument(
                "x",
                of_shape(shape),
                format!("of rows of up to {MAX_COLUMNS} elements"),
            ));
        }
        let most = columns.min(MAX_FOUND as usize);
        let found = match values.shape().split_last() {
            Some((&found, rows)) if rows == outer && found <= most => found,
            _ => {
                let allowed =
                    format!("that of `x`, {shape:?}, but for the last dimension, which is up to {most}");
                return Err(Error::argument("values", of_shape(values.shape()), allowed));
            }
        };
        if indices.shape() != values.shape() {
            let allowed = format!("{}, the shape of `values`", of_shape(values.shape()));
            return Err(Error::argument("indices", of_shape(indices.shape()), allowed));
        }
        let named =
            [Named::read("x", x), Named::written("values", values), Named::written("indices", indices)];
        check(values.device(), named)?;
        let tensors = [x.untyped(), values.untyped(), indices.untyped()];
        let layouts = tensors.map(|tensor| tensor.layout);
        let rows = walk(runs(&layouts, 0..outer.len())).ok_or_else(|| {
            Error::argument("x", of_shape(shape), format!("of at most {} rows", Walk::<3>::MOST))
        })?;
        // Both are at most 2^18.
        let [columns, found] = [columns, found].map(|count| count as u32);
        Ok(Problem { device: values.device().clone(), tensors, rows, columns, found })
    }
}
