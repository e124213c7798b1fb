//! Every combination of element types and activation.

use tilewright::ops::Activation;
use tilewright::{bf16, f16};
use tilewright_support::suite::Outcome;

use crate::case::{Input, Output};

/// Something to do with each combination.
pub trait Visitor {
    /// Called once for each.
    fn visit<T: Input, U: Output>(&mut self, activation: Activation) -> Outcome;
}

/// Shows `visitor` every combination.
pub fn each(visitor: &mut impl Visitor) -> Outcome {
    of::<f16, f16>(visitor)?;
    of::<f16, bf16>(visitor)?;
    of::<f16, f32>(visitor)?;
    of::<bf16, f16>(visitor)?;
    of::<bf16, bf16>(visitor)?;
    of::<bf16, f32>(visitor)?;
    of::<f32, f32>(visitor)
}

fn of<T: Input, U: Output>(visitor: &mut impl Visitor) -> Outcome {
    Activation::ALL.into_iter().try_for_each(|activation| visitor.visit::<T, U>(activation))
}
