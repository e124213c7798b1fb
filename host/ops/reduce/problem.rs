//! What is reduced to what: dimensions that tensors step over evenly are one.

use std::cmp::Reverse;

use tilewright_reduce::{How, Walk};

use crate::ops::runs::{Run, product, runs};
use crate::tensor::{Layout, Untyped};
use crate::{DType, Device, Result};

/// A reduction, checked.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Problem {
    pub(in crate::ops) device: Device,
    pub(super) x: u64,
    pub(super) dtype: DType,
    pub(super) y: u64,
    /// The dimensions that stay, of x and of y, from the outermost in x: none of size 1.
    pub(super) kept: Vec<Run<2>>,
    /// Those that go, in the same order.
    pub(super) reduced: Vec<Run<1>>,
    pub(super) how: How,
    /// Whether there may be memory for results of parts.
    pub(super) room: bool,
}

impl Problem {
    /// Of x over `dims` of it, to y, whose dimensions are the others.
    pub(in crate::ops) fn new(
        device: &Device,
        [x, y]: [Untyped; 2],
        dims: &[usize],
        how: How,
        room: bool,
    ) -> Result<Self> {
        let mut to = y.layout;
        for dim in (0..x.layout.rank()).filter(|dim| dims.contains(dim)) {
            to = to.insert(dim)?;
        }
        let layouts = [x.layout, to.broadcast(x.layout.shape())?];
        let strides = x.layout.strides();
        // Elements that repeat come again after all others.
        let order = |&dim: &usize| Reverse(if strides[dim] == 0 { usize::MAX } else { strides[dim] });
        let mut sorted: Vec<_> = (0..x.layout.rank()).collect();
        sorted.sort_by_key(order);
        let (gone, kept): (Vec<_>, Vec<_>) = sorted.into_iter().partition(|dim| dims.contains(dim));
        let own: [Layout; 1] = [x.layout];
        let (kept, reduced) = (runs(&layouts, kept), runs(&own, gone));
        let (x, dtype, y) = (x.address, x.dtype, y.address);
        Ok(Problem { device: device.clone(), x, dtype, y, kept, reduced, how, room })
    }

    /// Results in all.
    pub(super) fn results(&self) -> usize {
        product(&self.kept)
    }

    /// Elements of a result.
    pub(super) fn elements(&self) -> usize {
        product(&self.reduced)
    }

    /// No results.
    pub(in crate::ops) fn is_empty(&self) -> bool {
        self.results() == 0
    }

    /// The innermost dimension that goes, of size 1 where there is none, and those around it.
    pub(super) fn lines(&self) -> (Run<1>, &[Run<1>]) {
        match self.reduced.split_last() {
            Some((line, lines)) => (*line, lines),
            None => (Run { size: 1, strides: [1] }, &[]),
        }
    }

    /// The innermost dimension that stays, and those around it.
    pub(super) fn columns(&self) -> (Run<2>, &[Run<2>]) {
        match self.kept.split_last() {
            Some((columns, outer)) => (*columns, outer),
            None => (Run { size: 1, strides: [1, 1] }, &[]),
        }
    }

    /// The same with the results of `parts` each in memory at `address`: of a result one behind the other if `beside`, or else those of
    /// all results. And what reduces these parts to y.
    pub(super) fn parts(&self, parts: usize, address: u64, beside: bool) -> [Problem; 2] {
        let mut next = if beside { parts } else { 1 };
        let (mut first, mut second) = (self.clone(), self.clone());
        for (write, read) in first.kept.iter_mut().zip(&mut second.kept).rev() {
            (write.strides[1], read.strides[0]) = (next, next);
            next *= write.size;
        }
        let apart = if beside { 1 } else { next };
        second.reduced = vec![Run { size: parts, strides: [apart] }];
        (first.y, second.x, second.dtype, second.room) = (address, address, DType::F32, false);
        (first.how, second.how) = (self.how.of_parts(), self.how.over_parts());
        [first, second]
    }
}

/// The walk over these dimensions, from the outermost.
pub(in crate::ops) fn walk<const N: usize>(runs: impl IntoIterator<Item = Run<N>>) -> Option<Walk<N>> {
    let dims = runs
        .into_iter()
        .map(|Run { size, strides }| Some((u32::try_from(size).ok()?, strides.map(|stride| stride as u64))));
    Walk::new(&dims.collect::<Option<Vec<_>>>()?)
}
