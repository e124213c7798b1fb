//! Which rows a group has.

use crate::ops::Indices;
use crate::ops::frame::{Named, of_shape};
use crate::tensor::Untyped;
use crate::{Error, Result};

/// Which rows each group has: numbers of `i32`, `u32` or `i64` in the device's memory.
#[derive(Clone, Debug)]
pub struct GroupRows<'a> {
    numbers: Indices<'a>,
    apart: bool,
}

impl<'a> GroupRows<'a> {
    /// Groups follow each other in one matrix: \[groups + 1\], where each begins and the last one ends, contiguous.
    pub fn offsets(offsets: impl Into<Indices<'a>>) -> Self {
        GroupRows { numbers: offsets.into(), apart: false }
    }
    /// Each group has a matrix: \[groups\], how many of its first rows are the group's, contiguous.
    pub fn counts(counts: impl Into<Indices<'a>>) -> Self {
        GroupRows { numbers: counts.into(), apart: true }
    }

    /// Whether groups have matrices of their own.
    pub(in crate::ops) fn are_apart(&self) -> bool {
        self.apart
    }
    /// Groups. Fails where offsets do not even say where the first one begins.
    #[cfg(feature = "dequant_gemm")]
    pub(in crate::ops) fn count(&self) -> Result<usize> {
        let numbers = self.numbers.untyped();
        let shape = numbers.layout.shape();
        match (self.apart, shape) {
            (true, &[groups]) => Ok(groups),
            (false, &[len]) if len > 0 => Ok(len - 1),
            _ => {
                let allowed = if self.apart { "of shape [groups]" } else { "of shape [groups + 1]" };
                Err(Error::argument(self.name(), of_shape(shape), allowed))
            }
        }
    }
    /// The argument's name.
    pub(in crate::ops) fn name(&self) -> &'static str {
        if self.apart { "counts" } else { "offsets" }
    }
    pub(in crate::ops) fn named(&self) -> Named<'_> {
        self.numbers.named(self.name())
    }
    pub(in crate::ops) fn planned(&self, number: usize) -> Self {
        GroupRows { numbers: self.numbers.planned(number), apart: self.apart }
    }

    /// A's shape without its columns: \[total\], or \[groups, rows\] where groups have matrices of their own.
    ///
    /// Fails where `a` is no such shape of so many columns; `why` tells the caller where that number comes from.
    pub(in crate::ops) fn lines(
        &self,
        a: &[usize],
        [groups, columns]: [usize; 2],
        why: &str,
    ) -> Result<Vec<usize>> {
        let (expected, why) = match (self.apart, a) {
            (false, &[total, _]) => (vec![total, columns], why.to_owned()),
            (true, &[_, rows, _]) => (vec![groups, rows, columns], format!("a matrix for each group, {why}")),
            (apart, _) => {
                let allowed = if apart {
                    format!(
                        "of shape [{groups}, rows, {columns}]: a matrix for each group, where there are counts"
                    )
                } else {
                    format!("of shape [total, {columns}]: all groups' rows, where there are offsets")
                };
                return Err(Error::argument("a", of_shape(a), allowed));
            }
        };
        if a != expected {
            return Err(Error::argument("a", of_shape(a), format!("{}: {why}", of_shape(&expected))));
        }
        Ok(expected[..expected.len() - 1].to_vec())
    }

    /// The numbers, if they are those of so many groups.
    pub(in crate::ops) fn of_groups(&self, groups: usize) -> Result<Untyped> {
        let numbers = self.numbers.untyped();
        let (layout, len) = (numbers.layout, groups + usize::from(!self.apart));
        if layout.shape() != [len] {
            let what = if self.apart {
                "how many rows each group has"
            } else {
                "where each group begins and the last one ends"
            };
            let allowed = format!("of shape [{len}]: {what}");
            return Err(Error::argument(self.name(), of_shape(layout.shape()), allowed));
        }
        if len > 1 && layout.strides() != [1] {
            let was = format!("of strides {:?}", layout.strides());
            return Err(Error::argument(self.name(), was, "contiguous"));
        }
        Ok(numbers)
    }
}
