//! What tilewright's tests, benchmarks and examples share.
//!
//! - [`random`]: normal data, the same for the same seed.
//! - [`mod@reference`]: results computed in f64 on the CPU, and the error against them.
//! - [`activation`]: the activations' exact values.
//! - [`attention`]: the same for attention.
//! - [`convolution`]: the same for convolutions.
//! - [`recurrence`]: the same for linear attention.
//! - [`rows`]: the same for row-wise operators.
//! - [`example`]: what examples begin and end with.
//! - [`guarded`]: matrices with poison around them, which shows reads and stores outside.
//! - [`planned`]: what tests of plans make them of.
//! - [`suite`]: a test program that reports by name what it skipped for want of a GPU.
//! - [`timing`]: variants compared in one run, in shuffled order.
//! - [`watched`]: which kernels run under a sanitizer, and that sizes are to be small.
//! - [`cublas`]: the peer.
//! - [`foreign`]: memory as other libraries have it.

pub mod activation;
pub mod attention;
pub mod attention_gradient;
pub mod convolution;
pub mod cublas;
pub mod empty;
pub mod example;
pub mod foreign;
pub mod groups;
pub mod guarded;
pub mod pictures;
pub mod planned;
pub mod random;
pub mod real;
pub mod recurrence;
pub mod reference;
pub mod rows;
pub mod suite;
pub mod timing;
pub mod watched;

pub use real::Real;

/// An error of any kind.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// A result with an error of any kind.
pub type Result<T, E = Error> = std::result::Result<T, E>;
