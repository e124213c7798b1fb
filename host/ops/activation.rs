//! Activations: what an epilogue applies to every element.

use std::fmt;

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
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
