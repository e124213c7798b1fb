//! What computes a convolution, and why.

use std::fmt;

use tilewright_device::kernel::Copies;

use super::table::Compiled;
use crate::ops::frame::{Estimate, Plan};
use crate::ops::gemm::GemmPlan;

/// The kernel that computes a convolution, and why it was chosen.
#[derive(Clone, Debug)]
pub enum ConvPlan {
    /// A kernel of convolutions.
    Patches(Plan<Compiled>),
    /// A kernel of matrices: the filter is one pixel.
    Product(GemmPlan),
}

impl ConvPlan {
    /// The sooner of both by their estimates, of a filter of one pixel: convolutions have tiles that the GEMM has not. Only kernels that read by
    /// TMA are compared, whose estimates are of the same measurements.
    pub(super) fn sooner(product: GemmPlan, patches: Option<Plan<Compiled>>) -> Self {
        let least = product.estimate().cycles().unwrap_or(0);
        let boxes = patches.filter(|plan| plan.descriptor().copies == Copies::Boxes);
        match boxes.filter(|plan| plan.estimate.beside_products() < least) {
            Some(plan) => ConvPlan::Patches(plan),
            None => ConvPlan::Product(product),
        }
    }

    /// The kernel's name.
    pub fn name(&self) -> &'static str {
        match self {
            ConvPlan::Patches(plan) => plan.kernel().name(),
            ConvPlan::Product(plan) => plan.kernel().name(),
        }
    }
}

impl fmt::Display for ConvPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConvPlan::Patches(plan) => plan.fmt(f),
            ConvPlan::Product(plan) => plan.fmt(f),
        }
    }
}
