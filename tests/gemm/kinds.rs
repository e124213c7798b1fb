//! Every combination of element types and activation.

use tilewright::ops::{Gelu, Identity, Relu, Silu};
use tilewright::{bf16, f16};
use tilewright_support::suite::Outcome;

use crate::case::{Input, Output};
use crate::exact::Exact;

/// Something to do with each combination.
pub trait Visitor {
    /// Called once for each.
    fn visit<T: Input, U: Output, E: Exact>(&mut self) -> Outcome;
}

/// Shows `visitor` every combination.
pub fn each(visitor: &mut impl Visitor) -> Outcome {
    of::<f16, f16>(visitor)?;
    of::<f16, bf16>(visitor)?;
    of::<f16, f32>(visitor)?;
    of::<bf16, f16>(visitor)?;
    of::<bf16, bf16>(visitor)?;
    of::<bf16, f32>(visitor)
}

fn of<T: Input, U: Output>(visitor: &mut impl Visitor) -> Outcome {
    visitor.visit::<T, U, Identity>()?;
    visitor.visit::<T, U, Relu>()?;
    visitor.visit::<T, U, Gelu>()?;
    visitor.visit::<T, U, Silu>()
}
