//! Sequences one after the other in the rows of one matrix.

use tilewright_attention::Packed;

use super::cache::{Cached, expect, int, limits};
use super::problem::{Options, Size};
use crate::ops::indices::log2_bytes;
use crate::tensor::Untyped;
use crate::{Error, Result};

/// Where sequences begin: one more than there are sequences.
#[derive(Clone, Debug)]
pub(super) struct Offsets {
    queries: Untyped,
    /// None where they lie in a cache.
    keys: Option<Untyped>,
    /// The most queries of a sequence.
    longest: usize,
}

impl Offsets {
    /// Checks that they fit together.
    pub(super) fn new(queries: Untyped, keys: Option<Untyped>, longest: usize) -> Result<Self> {
        let count = queries.layout.len().max(1);
        let because = "where each sequence begins and the last one ends, contiguous";
        expect(&queries, "query_offsets", &[count], because)?;
        if let Some(keys) = &keys {
            expect(keys, "key_offsets", &[count], because)?;
            if queries.dtype != keys.dtype {
                let (was, allowed) = (format!("of {}", keys.dtype), format!("of {}", queries.dtype));
                return Err(Error::argument("key_offsets", was, format!("{allowed}, as `query_offsets`")));
            }
        }
        Ok(Offsets { queries, keys, longest })
    }

    /// Sequences.
    fn count(&self) -> usize {
        self.queries.layout.len() - 1
    }

    /// Sequences in a cache of keys; none where keys are packed too.
    pub(super) fn in_cache(&self) -> Option<usize> {
        if self.keys.is_some() { None } else { Some(self.count()) }
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
        Ok(Size { batch: self.count(), queries: self.longest.min(tensors.queries), ..tensors })
    }

    /// What kernels are told, given the sizes of the tensors.
    pub(super) fn argument(&self, tensors: &Size, options: &Options, cached: &Cached) -> Result<Packed> {
        let [left, right] = limits(options);
        let all = [int("q", tensors.queries)?, int("k", tensors.keys)?].map(i32::cast_unsigned);
        let at = |of: &Untyped| (of.address, log2_bytes(of));
        let (query_offsets, of_queries) = at(&self.queries);
        // Without lengths any numbers do: all are raised to the most.
        let ((keys, of_keys), offset_keys, fewest_keys) = match (&self.keys, &cached.lengths) {
            (Some(keys), _) => (at(keys), 1, 0),
            (None, Some(lengths)) => (at(lengths), 0, 0),
            (None, None) => (at(&self.queries), 0, all[1]),
        };
        let log2_bytes = [of_queries, of_keys];
        Ok(Packed { query_offsets, keys, all, left, right, log2_bytes, offset_keys, fewest_keys })
    }
}
