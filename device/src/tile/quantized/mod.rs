//! Narrow weights: formats, packed blocks, and decoding into registers.

pub mod bytes;
pub mod format;
pub mod int8;
pub mod stream;
pub mod unscaled;
pub mod warp_depths;
pub mod warp_sums;
pub mod weights;
pub mod zeros;
