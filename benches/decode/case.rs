//! What is decoded.

use std::fmt;

/// Layers of the model.
pub const LAYERS: usize = 32;
/// Columns of a token between layers, of a head, and of a gated unit.
pub const HIDDEN: usize = 4096;
pub const HEAD: usize = 128;
pub const INTERMEDIATE: usize = 14336;
/// Heads of queries and of keys.
pub const HEADS: usize = 32;
pub const KV_HEADS: usize = 8;
pub const VOCABULARY: usize = 128_256;
/// Tokens that each sequence has, and rows of a page.
pub const CONTEXT: usize = 1024;
pub const PAGE: usize = 64;

/// What the layers' weights are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    Bf16,
    /// Groups of 128, with zeros.
    U4,
}

/// So many sequences, each a token further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub weights: Weights,
    pub batch: usize,
    /// Rotation and append, and product and gated unit, each in one kernel.
    pub fused: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weights = match self.weights {
            Weights::Bf16 => "bf16",
            Weights::U4 => "u4",
        };
        write!(f, "{weights} b{}{}", self.batch, if self.fused { "" } else { " apart" })
    }
}

pub fn all() -> Vec<Case> {
    let of =
        |weights| [(1, true), (1, false), (16, false)].map(|(batch, fused)| Case { weights, batch, fused });
    [of(Weights::Bf16), of(Weights::U4)].concat()
}
