//! Which CTA computes which tile, or which part of its depth.

pub mod groups;
pub mod queue;
pub mod raster;
pub mod split_k;
pub mod stream_k;
