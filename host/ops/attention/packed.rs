//! Sequences one after the other in the rows of one matrix.

use tilewright_attention::Packed;

use super::cache::{expect, int, limits};
use super::problem::{Options, Size};
use crate::ops::indices::log2_bytes;
use crate::tensor::Untyped;
use crate::{Error, Result};

/// Where sequences begin.
#[derive(Clone, Debug)]
pub(super) struct Offsets {
    /// Of queries and of keys: one more than there are sequences.
    offsets: [Untyped; 2],
    /// The most queries of a sequence.
    longest: usize,
}

impl Offsets {
    /// Checks that they fit together.
    pub(super) fn new(offsets: [Untyped; 2], longest: usize) -> Result<Self> {
        let count = offsets[0].layout.len().max(1);
        for (name, of) in ["query_offsets", "key_offsets"].into_iter().zip(&offsets) {
            let because = "where each sequence begins and the last one ends, contiguous";
            expect(of, name, &[count], because)?;
        }
        if offsets[0].dtype != offsets[1].dtype {
            let (was, allowed) = (format!("of {}", offsets[1].dtype), format!("of {}", offsets[0].dtype));
            return Err(Error::argument("key_offsets", was, format!("{allowed}, as `query_offsets`")));
        }
        Ok(Offsets { offsets, longest })
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
        let log2_bytes = log2_bytes(&self.offsets[0]);
        Ok(Packed { query_offsets, key_offsets, all, left, right, log2_bytes, padding: 0 })
    }
}
