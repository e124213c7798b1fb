//! Narrow weights: formats, packed blocks, and decoding into registers.

pub mod bytes;
pub mod format;
pub mod int8;
pub mod unscaled;
pub mod weights;
pub mod widened;
pub mod zeros;
