//! The gradients of the scan and of the convolution.

pub(crate) mod blocks;
pub(crate) mod conv;
mod factors;
pub(crate) mod gate;
pub(crate) mod lines;
mod list;
mod places;
pub(crate) mod splits;
pub(crate) mod states;
pub(crate) mod steps;

pub use blocks::{BlockGradientArgs, block_gradient};
pub use conv::{CausalConv1dGradientArgs, causal_conv1d_gradient};
pub use gate::{GateGradientArgs, gate_gradient};
pub use lines::{LineSumsArgs, line_sums};
pub use list::{
    BLOCK_GRADIENT, BLOCK_STATES, BlockKernel, CONV_GRADIENT, GATE, LINE_SUMS, SPLIT_SUMS, STEPS_GRADIENT,
    TileKernel,
};
pub use places::{Items, SUMS};
pub use splits::{SplitSumsArgs, split_sums};
pub use states::{BlockStatesArgs, block_states};
pub use steps::{StepsGradientArgs, steps_gradient};
