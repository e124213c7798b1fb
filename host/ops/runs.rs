//! Dimensions that all tensors of a call step over evenly, joined: what row-wise and pointwise operators launch their kernels over.

use crate::tensor::Layout;

/// One dimension, or several joined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<const N: usize> {
    pub(super) size: usize,
    /// Elements from one index to the next, in each tensor.
    pub(super) strides: [usize; N],
}

impl<const N: usize> Run<N> {
    /// Of a single index.
    pub(super) const ONE: Self = Run { size: 1, strides: [0; N] };

    /// A dimension of tensors of one shape.
    pub(super) fn of(layouts: &[Layout; N], dim: usize) -> Self {
        Run { size: layouts[0].shape()[dim], strides: layouts.map(|layout| layout.strides()[dim]) }
    }

    /// This one around another as one run, if every tensor steps over the two evenly and their indices are below 2^32.
    pub(super) fn around(&self, inner: &Self) -> Option<Self> {
        let even = (0..N).all(|i| self.strides[i] == inner.strides[i].saturating_mul(inner.size));
        let size = self.size.checked_mul(inner.size).filter(|&size| u32::try_from(size).is_ok())?;
        even.then_some(Run { size, strides: inner.strides })
    }
}

/// The runs of these dimensions, from the outermost: none of size 1.
pub(super) fn runs<const N: usize>(
    layouts: &[Layout; N],
    dims: impl IntoIterator<Item = usize>,
) -> Vec<Run<N>> {
    let mut runs: Vec<Run<N>> = Vec::new();
    for next in dims.into_iter().map(|dim| Run::of(layouts, dim)).filter(|run| run.size != 1) {
        match runs.last_mut() {
            Some(last) => match last.around(&next) {
                Some(both) => *last = both,
                None => runs.push(next),
            },
            None => runs.push(next),
        }
    }
    runs
}

/// Elements that these dimensions have, or the most that are counted.
pub(super) fn product<const N: usize>(runs: &[Run<N>]) -> usize {
    runs.iter().fold(1, |all, run| all.saturating_mul(run.size))
}

/// How often a kernel is launched that takes what lies inside of these runs at a time.
pub(super) fn launches<const N: usize>(outer: &[Run<N>]) -> usize {
    outer.iter().map(|run| run.size).product()
}

/// Where the tensors of such a launch begin, in elements.
pub(super) fn offsets<const N: usize>(outer: &[Run<N>], launch: usize) -> [usize; N] {
    let (mut at, mut left) = ([0; N], launch);
    for run in outer.iter().rev() {
        let index = left % run.size;
        left /= run.size;
        for (at, stride) in at.iter_mut().zip(run.strides) {
            *at += index * stride;
        }
    }
    at
}
