//! How wide weights become narrow ones: on the host and in kernels alike, to the bit.
//!
//! All arithmetic is of f64, rounded to nearest even after each operation, in an order that is the same everywhere. Where a product is exact (with
//! powers of two, of integers) the device may fuse it with the sum that follows.

mod codes;
mod fit;
mod half_type;

pub use codes::{Codes, Kind, round_even};
pub use fit::{Fitter, Group, Line, Rules, Shift};
pub use half_type::HalfKind;
