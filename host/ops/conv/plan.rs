//! What computes a convolution, and why.

use std::fmt;

use super::table::Compiled;
use crate::ops::frame::Plan;
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
