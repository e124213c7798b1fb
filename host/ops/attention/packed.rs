//! Sequences one after the other in the rows of one matrix.

use tilewright_attention::Packed;

use super::cache::{expect, int, limits};
use super::problem::{Options, Size};
use crate::ops::frame::Named;
use crate::tensor::Untyped;
use crate::{Error, Result, TensorView};

/// Where sequences begin.
#[derive(Clone, Debug)]
pub(super) struct Offsets {
    /// Of queries and of keys: one more than there are sequences.
    offsets: [Untyped; 2],
    /// The most queries of a sequence.
    longest: usize,
}

/// The views of a call's offsets.
pub(super) struct OffsetViews<'a> {
    pub(super) queries: TensorView<'a, i32>,
    pub(super) keys: TensorView<'a, i32>,
    pub(super) longest: usize,
}

impl OffsetViews<'_> {
    /// As tensors of the call.
    pub(super) fn named(&self) -> [Named<'_>; 2] {
        [Named::read("query_offsets", &self.queries), Named::read("key_offsets", &self.keys)]
    }
}

impl Offsets {
    /// Checks that they fit together.
    pub(super) fn new(views: &OffsetViews<'_>) -> Result<Self> {
        let offsets = [views.queries.untyped(), views.keys.untyped()];
        for (name, view) in [("query_offsets", &views.queries), ("key_offsets", &views.keys)] {
            let count = views.queries.len().max(1);
            let because = "where each sequence begins and the last one ends, contiguous";
            expect(&view.untyped(), name, &[count], because)?;
        }
        Ok(Offsets { offsets, longest: views.longest })
    }

    /// The sizes of the sequences, given those of the tensors, \[1, heads, rows, columns\].
    pub(super) fn size(&self, tensors: Size) -> Result<Size> {
        if tensors.batch != 1 {
            let was = format!("of a batch of {}", tensors.batch);
            return Err(Error::argument(
                "q",
                was,
                "of a batch of 1: packed sequences follow each other in its rows",
            ));
        }
        let batch = self.offsets[0].layout.len() - 1;
        Ok(Size { batch, queries: self.longest.min(tensors.queries), ..tensors })
    }

    /// What kernels are told, given the rows of Q and of K.
    pub(super) fn argument(&self, rows: [usize; 2], options: &Options) -> Result<Packed> {
        let [left, right] = limits(options);
        let [query_offsets, key_offsets] = self.offsets.each_ref().map(|of| of.address);
        let all = [int("q", rows[0])?, int("k", rows[1])?].map(i32::cast_unsigned);
        Ok(Packed { query_offsets, key_offsets, all, left, right })
    }
}
