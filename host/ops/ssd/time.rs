//! Steps of time as they are given, and the heads' parameters.

use tilewright_device::abi::GlobalAbi;

use super::sequences::{column, expect};
use crate::ops::frame::Named;
use crate::{Device, Error, Result, TensorView};

/// How dt is made of what is given for it.
#[derive(Clone, Debug)]
pub(super) struct Time<'a> {
    pub(super) bias: Option<TensorView<'a, f32>>,
    pub(super) softplus: bool,
    pub(super) limits: [f32; 2],
    /// D.
    pub(super) skip: Option<TensorView<'a, f32>>,
}

impl Time<'_> {
    pub(super) const NEW: Self =
        Time { bias: None, softplus: false, limits: [0.0, f32::INFINITY], skip: None };

    /// As tensors of the call.
    pub(super) fn named(&self) -> impl Iterator<Item = Named<'_>> + Clone {
        let bias = self.bias.iter().map(|bias| Named::read("dt_bias", bias));
        bias.chain(self.skip.iter().map(|skip| Named::read("skip", skip)))
    }

    /// Checks the heads' parameters.
    pub(super) fn check(&self, heads: usize) -> Result<()> {
        let [least, most] = self.limits;
        if least.is_nan() || most.is_nan() || least < 0.0 || least > most {
            let was = format!("from {least} to {most}");
            return Err(Error::argument("dt_limits", was, "from 0 or more to as much or more"));
        }
        for (name, vector) in [("dt_bias", &self.bias), ("skip", &self.skip)] {
            if let Some(vector) = vector {
                expect(name, vector.shape(), &[heads], "the heads of `x`")?;
            }
        }
        Ok(())
    }

    /// The arguments for bias and D, as columns.
    pub(super) fn columns(&self, device: &Device) -> Result<[GlobalAbi<(), 2>; 2]> {
        let of =
            |vector: &Option<TensorView<'_, f32>>| column(device, vector.as_ref().map(TensorView::untyped));
        Ok([of(&self.bias)?, of(&self.skip)?])
    }
}
