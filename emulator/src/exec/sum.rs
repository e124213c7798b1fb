//! Sums of `atom.add` and `red.add`.
//!
//! PTX ISA, "atom": on global memory, sums of f32 flush subnormal numbers, on shared memory they do not. NaNs, of which the
//! manual says nothing, are as an H200 has them.

use crate::decode::add64;
use crate::tensor::approx::canonical;
use crate::tensor::reduce::{add_f32, add_f64};

/// Sum of two f32.
pub(super) fn sum32(old: u32, b: u32, global: bool) -> u32 {
    let (old, b) = (f32::from_bits(old), f32::from_bits(b));
    if global { add_f32(old, b) } else { canonical(old + b) }.to_bits()
}

/// Sum of two f64.
pub(super) fn sum64(old: u64, b: u64, global: bool) -> u64 {
    let (old, b) = (f64::from_bits(old), f64::from_bits(b));
    if global { add_f64(old, b) } else { add64(b, old) }.to_bits()
}
