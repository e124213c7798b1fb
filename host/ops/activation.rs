//! Activations: what an epilogue applies to every element.

use std::fmt;

use tilewright_device::tile::AnyActivation;

/// A function of every element of a result, applied in f32. NaN gives NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// x.
    #[default]
    Identity,
    /// max(x, 0).
    Relu,
    /// x Φ(x) with the normal distribution's Φ (Hendrycks & Gimpel 2016), not its tanh approximation.
    Gelu,
    /// x / (1 + e^-x), also called swish.
    Silu,
}

impl Activation {
    /// All of them.
    pub const ALL: [Activation; 4] =
        [Activation::Identity, Activation::Relu, Activation::Gelu, Activation::Silu];

    /// The name that kernels have it by.
    pub const fn name(self) -> &'static str {
        match self {
            Activation::Identity => "none",
            Activation::Relu => "relu",
            Activation::Gelu => "gelu",
            Activation::Silu => "silu",
        }
    }

    /// As kernels are told it.
    pub(super) const fn told(self) -> AnyActivation {
        match self {
            Activation::Identity => AnyActivation::IDENTITY,
            Activation::Relu => AnyActivation::RELU,
            Activation::Gelu => AnyActivation::GELU,
            Activation::Silu => AnyActivation::SILU,
        }
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
