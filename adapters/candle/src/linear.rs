//! Linear layers of wide weights.

use candle_core::{Module, Result, Tensor};

use crate::Activation;
use crate::matmul::Matmul;

/// y = act(x Wᵀ + bias): a linear layer, with bias and activation in the product's epilogue.
///
/// W is (out features, in features) and the bias (out features), of f16, bf16 or f32, as candle_nn's `Linear` has them; x is (.., in features) with up to
/// four dimensions in front, or a vector.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
    activation: Activation,
    constant: bool,
}

impl Linear {
    /// Of a weight and possibly a bias, without an activation.
    pub fn new(weight: Tensor, bias: Option<Tensor>) -> Self {
        Linear { weight, bias, activation: Activation::Identity, constant: false }
    }
    /// With this activation.
    pub fn activation(self, activation: Activation) -> Self {
        Linear { activation, ..self }
    }
    /// Lets kernels for few rows, as when decoding, read W while the kernels before them end.
    ///
    /// # Safety
    /// As for [`Matmul::constant_b`]: W was there before the device was last waited for, as what was loaded is.
    pub unsafe fn constant(self) -> Self {
        Linear { constant: true, ..self }
    }
    /// W.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }
    /// The bias.
    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let product = Matmul::new().activation(self.activation);
        let product = match &self.bias {
            Some(bias) => product.bias(bias),
            None => product,
        };
        let product = match self.constant {
            // SAFETY: who made the layer vouches for it.
            true => unsafe { product.constant_b() },
            false => product,
        };
        product.named("Linear", ("x", x), ("weight", &self.weight.t()?))
    }
}
