//! What becomes of an accumulator: activations, and stores through staging buffers.

pub mod activation;
pub mod output;
pub mod staged;
