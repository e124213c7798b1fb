//! The tensors of a rotation, by their places in a plan.

use crate::Element;
use crate::ops::frame::Named;
use crate::ops::{FloatElement, Indices};
use crate::{TensorView, TensorViewMut};

pub(super) const Q: usize = 0;
pub(super) const K: usize = 1;
pub(super) const Q_TO: usize = 2;
pub(super) const K_TO: usize = 3;
pub(super) const V: usize = 4;
pub(super) const K_CACHE: usize = 5;
pub(super) const V_CACHE: usize = 6;
pub(super) const SLOTS: usize = 7;
pub(super) const POSITIONS: usize = 8;
pub(super) const COS: usize = 9;
pub(super) const SIN: usize = 10;
pub(super) const K_SCALE: usize = 11;
pub(super) const V_SCALE: usize = 12;

/// Those that the call has. What is rotated in place is written and has no other to go to.
pub(super) type Tensors<'v> = [Option<Named<'v>>; TENSORS];

const TENSORS: usize = 13;

/// What a [`RopePlan`](crate::ops::RopePlan) runs on beside its heads: given where the plan was made with it.
#[derive(Clone, Debug, Default)]
pub struct RopeViews<'a> {
    /// See [`Rope::positions`](crate::ops::Rope::positions).
    pub positions: Option<Indices<'a>>,
    /// See [`Rope::table`](crate::ops::Rope::table).
    pub table: Option<[&'a TensorView<'a, f32>; 2]>,
    /// See [`Rope::cache_scales`](crate::ops::Rope::cache_scales).
    pub cache_scales: Option<[&'a TensorView<'a, f32>; 2]>,
}

impl RopeViews<'_> {
    /// These beside the heads of a call. Scales are for codes that are appended.
    pub(super) fn beside<'v>(&'v self, mut heads: Tensors<'v>) -> Tensors<'v> {
        heads[POSITIONS] = self.positions.as_ref().map(|positions| positions.named("positions"));
        for (i, (name, view)) in
            self.table.iter().flat_map(|[cos, sin]| [("cos", cos), ("sin", sin)]).enumerate()
        {
            heads[COS + i] = Some(Named::read(name, view));
        }
        let appends = heads[K_CACHE].is_some();
        let scales = self.cache_scales.iter().filter(|_| appends);
        for (i, (name, view)) in scales.flat_map(|[k, v]| [("k_scale", k), ("v_scale", v)]).enumerate() {
            heads[K_SCALE + i] = Some(Named::read(name, view));
        }
        heads
    }
}

/// Heads that are read, and others that they become.
pub(super) fn apart<'v, T: FloatElement, const N: usize>(
    read: [(&'static str, &'v TensorView<'_, T>); N],
    written: [(&'static str, &'v TensorViewMut<'_, T>); N],
) -> Tensors<'v> {
    let mut all = [None; TENSORS];
    for (i, ((name, from), (other, to))) in read.into_iter().zip(written).enumerate() {
        (all[Q + i], all[Q_TO + i]) = (Some(Named::read(name, from)), Some(Named::written(other, to)));
    }
    all
}

/// Heads that are read and written.
pub(super) fn in_place<'v, T: FloatElement, const N: usize>(
    tensors: [(&'static str, &'v TensorViewMut<'_, T>); N],
) -> Tensors<'v> {
    let mut all = [None; TENSORS];
    for (i, (name, view)) in tensors.into_iter().enumerate() {
        all[Q + i] = Some(Named::written(name, view));
    }
    all
}

/// Queries, keys and values of the same tokens, what the queries become, and the caches that the others go to.
pub(super) fn appending<'v, T: FloatElement, C: Element>(
    [q, k, v]: [&'v TensorView<'_, T>; 3],
    q_to: &'v TensorViewMut<'_, T>,
    [k_cache, v_cache]: [&'v TensorViewMut<'_, C>; 2],
    slots: &'v Indices<'_>,
) -> Tensors<'v> {
    let mut all = apart([("q", q)], [("q_to", q_to)]);
    (all[K], all[V]) = (Some(Named::read("k", k)), Some(Named::read("v", v)));
    all[K_CACHE] = Some(Named::written("k_cache", k_cache));
    all[V_CACHE] = Some(Named::written("v_cache", v_cache));
    all[SLOTS] = Some(slots.named("slots"));
    all
}
