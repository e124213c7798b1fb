//! A and C of products whose rows are those of groups.

use super::{GroupRows, Tiled, in_three};
use crate::ops::frame::{Places, of_shape};
use crate::tensor::Untyped;
use crate::{Device, Element, Error, Result, TensorViewMut};

/// A \[matrices, rows, K\] and C \[matrices, rows, N\], and which rows are whose.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Sides {
    pub(in crate::ops) device: Device,
    pub(in crate::ops) a: Untyped,
    pub(in crate::ops) c: Untyped,
    /// Where groups begin, or how many rows they have.
    pub(in crate::ops) numbers: Untyped,
    /// Whether each group has a matrix of A.
    pub(in crate::ops) apart: bool,
    pub(in crate::ops) size: Size,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops) struct Size {
    pub(in crate::ops) groups: usize,
    /// Of each matrix of A.
    pub(in crate::ops) rows: usize,
    pub(in crate::ops) n: usize,
    /// In elements, as A's shape has it.
    pub(in crate::ops) k: usize,
}

impl Sides {
    /// Checks that A, of shape `a`, and C fit to so many groups of \[N, K\] and their rows. `why` A and C have as many columns goes to the errors. `units` are
    /// A as kernels read it.
    pub(in crate::ops) fn new<U: Element>(
        (a, units): (&[usize], Untyped),
        [groups, n, k]: [usize; 3],
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, U>,
        why: [&str; 2],
    ) -> Result<Self> {
        let lines = rows.lines(a, [groups, k], why[0])?;
        let of_c: Vec<_> = lines.iter().copied().chain([n]).collect();
        if c.shape() != of_c {
            let allowed = format!("{}: rows as `a`, {}", of_shape(&of_c), why[1]);
            return Err(Error::argument("c", of_shape(c.shape()), allowed));
        }
        Ok(Sides {
            device: c.device().clone(),
            a: in_three(units)?,
            c: in_three(c.untyped())?,
            numbers: rows.of_groups(groups)?,
            apart: rows.are_apart(),
            size: Size { groups, rows: lines[lines.len() - 1], n, k },
        })
    }

    /// Of a tensor with something for each row: its shape, \[rows\] or \[groups, rows\], and `of_each` behind.
    pub(in crate::ops) fn by_rows(&self, of_each: &[usize]) -> Vec<usize> {
        let Size { groups, rows, .. } = self.size;
        let lines = [groups, rows];
        lines[usize::from(!self.apart)..].iter().chain(of_each).copied().collect()
    }

    /// Nothing to store.
    pub(in crate::ops) fn is_empty(&self) -> bool {
        let Size { groups, rows, n, .. } = self.size;
        [groups, rows, n].contains(&0)
    }

    /// Those of a run, of a plan's.
    pub(in crate::ops) fn placed(&self, places: &Places) -> Self {
        let of = |tensor: &Untyped| places.of(tensor);
        Sides {
            device: self.device.clone(),
            a: of(&self.a),
            c: of(&self.c),
            numbers: of(&self.numbers),
            ..*self
        }
    }

    /// The tiles of so many rows and columns.
    pub(in crate::ops) fn tiled(&self, [high, wide]: [u32; 2]) -> Result<Tiled> {
        let Size { groups, rows, n, .. } = self.size;
        Tiled::by_rows(&self.numbers, &self.c, self.apart, [groups, rows, n], [high.into(), wide.into()])
    }
}
