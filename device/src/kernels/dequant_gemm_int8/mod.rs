//! C = A Wᵀ of int8 activations and narrow integer weights, summed up in i32; one source for every architecture.

mod groups;
mod instances;
mod rows;

pub use groups::dequant_gemm_int8_groups;
pub use instances::{Arguments, DequantGemmInt8Kernel, Visitor, visit};
pub use rows::dequant_gemm_int8_rows;

pub use super::dequant_gemm::{GELU, RELU, SILU};

use crate::tile::{Activation as _, Fragment, FragmentLayout, Gelu, Relu, Silu};

/// The activation of this number.
#[inline(always)]
fn activate<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
    x: Fragment<f32, M, N, L>,
    activation: u32,
) -> Fragment<f32, M, N, L> {
    match activation {
        RELU => x.map(Relu::apply),
        GELU => x.map(Gelu::apply),
        SILU => x.map(Silu::apply),
        _ => x,
    }
}
