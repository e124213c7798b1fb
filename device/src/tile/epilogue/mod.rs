//! What becomes of an accumulator: scales, residuals, biases, activations, and stores through staging buffers.

pub mod activation;
pub mod apply;
pub mod gated;
pub mod output;
pub mod staged;
pub mod term;
