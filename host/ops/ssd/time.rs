//! Steps of time as they are given, and the heads' parameters.

use tilewright_device::abi::GlobalAbi;

use super::sequences::{column, expect};
use crate::ops::frame::{Named, Places};
use crate::tensor::Untyped;
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

impl<'a> Time<'a> {
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

    /// At the places that a plan gives the tensors of these numbers.
    pub(super) fn planned(&self, bias: usize, skip: usize) -> Self {
        let at = |of: &Option<TensorView<'a, f32>>, number| of.as_ref().map(|of| of.planned(number));
        Time { bias: at(&self.bias, bias), skip: at(&self.skip, skip), ..*self }
    }

    /// What kernels are told of it.
    pub(super) fn told(&self) -> Told {
        let of = |vector: &Option<TensorView<'_, f32>>| vector.as_ref().map(TensorView::untyped);
        let (bias, skip) = (of(&self.bias), of(&self.skip));
        Told { bias, softplus: self.softplus, limits: self.limits, skip }
    }
}

/// What kernels are told of steps of time and the heads' parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    bias: Option<Untyped>,
    pub(super) softplus: bool,
    pub(super) limits: [f32; 2],
    skip: Option<Untyped>,
}

impl Told {
    /// The same with the tensors of a run.
    pub(super) fn placed(self, places: &Places) -> Self {
        let at = |of: Option<Untyped>| of.map(|of| places.of(&of));
        Told { bias: at(self.bias), skip: at(self.skip), ..self }
    }

    /// The arguments for bias and D, as columns.
    pub(super) fn columns(&self, device: &Device) -> Result<[GlobalAbi<(), 2>; 2]> {
        Ok([column(device, self.bias)?, column(device, self.skip)?])
    }
}
