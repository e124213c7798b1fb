//! The tensors between the steps of a layer, in the caller's memory.

use std::marker::PhantomData;

use super::problem::Problem;
use crate::ops::frame;
use crate::{Device, Element, Result, TensorViewMut};

/// Bytes to which each of them is aligned: lines of the L2 cache.
pub(super) const ALIGNED: usize = 128;

/// Elements of f32 that all of them take, if those of the layer's type have so many bytes.
pub(super) fn len(problem: &Problem, width: usize) -> usize {
    let Problem { tokens, hidden, experts, inner, top, fused } = *problem;
    let entries = tokens.saturating_mul(top);
    let numbers = [
        // Weights, experts and places; the largest logits, or all weights.
        entries,
        entries,
        entries,
        entries.max(tokens.saturating_mul(experts)),
        experts + 1,
        entries,
    ];
    let wide = if fused { 0 } else { 2 * inner };
    let rows = [hidden, wide, inner].map(|columns| entries.saturating_mul(columns).saturating_mul(width));
    let bytes = numbers.into_iter().map(|count| count.saturating_mul(4)).chain(rows);
    let all = bytes.fold(0usize, |all, bytes| all.saturating_add(bytes.saturating_add(ALIGNED)));
    all.div_ceil(4)
}

/// What is left of the memory.
pub(super) struct Room<'w> {
    device: Device,
    at: u64,
    memory: PhantomData<&'w mut f32>,
}

impl<'w> Room<'w> {
    /// All of it.
    pub(super) fn of<T: Element>(
        problem: &Problem,
        workspace: &'w mut TensorViewMut<'_, f32>,
    ) -> Result<Self> {
        let at = frame::room(Some(workspace), len(problem, T::DTYPE.bytes()))?;
        Ok(Room { device: workspace.device().clone(), at, memory: PhantomData })
    }

    /// The next contiguous tensor. All that a layer takes have room: see [`len`].
    pub(super) fn take<T: Element>(&mut self, shape: &[usize]) -> Result<TensorViewMut<'w, T>> {
        let count: usize = shape.iter().product();
        let mut strides = vec![1; shape.len()];
        for dim in (1..shape.len()).rev() {
            strides[dim - 1] = strides[dim] * shape[dim];
        }
        let at = self.at.next_multiple_of(ALIGNED as u64);
        self.at = at + (count * T::DTYPE.bytes()) as u64;
        // SAFETY: the memory is borrowed exclusively for as long as the view lives, no other view is given the same part of it, and any bits are
        // elements of these types.
        // It is the workspace's, which may have been allocated in a capture: the driver is not asked.
        unsafe { TensorViewMut::from_raw_parts_unchecked(&self.device, at, shape, &strides) }
    }
}
