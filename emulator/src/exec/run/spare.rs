//! What a cluster leaves behind for the next one on its core: memory, so that none is asked for again.

use crate::exec::cta::Cta;
use crate::exec::launch::Launch;
use crate::exec::warp::Warp;
use crate::exec::warp::first::First;
use crate::tensor::product::Product;

/// The parts of a cluster that has ended, if any.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) first: First,
    pub(super) warps: Vec<Warp>,
    pub(super) ctas: Vec<Cta>,
    pub(super) product: Product,
}

impl Spare {
    /// For clusters of this launch.
    pub(super) fn new(launch: &Launch<'_>) -> Self {
        let first = First::new(launch.program);
        Self { first, warps: Vec::new(), ctas: Vec::new(), product: Product::default() }
    }
}
