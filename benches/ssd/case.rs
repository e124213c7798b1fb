//! What is measured.

use std::fmt;

use tilewright_support::Result;

use crate::{common, shapes};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The scan, in as many chunks as it chooses.
    Scan,
    /// In chunks of so many tokens.
    Chunks(usize),
    /// The gradients of the scan, by x, dt, A, B and C.
    Gradient,
    /// The convolution's, by x, w and the bias.
    ConvGradient,
    /// One token, with a state of f32.
    Step,
    /// The convolution of width 4 in front of a scan, with bias and SiLU.
    Conv,
}

/// A layer of bf16 with heads of 64 columns, and states of 128 for one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub op: Op,
    pub batch: usize,
    pub length: usize,
    pub heads: usize,
}

/// Columns of a head.
pub const P: usize = 64;
/// Columns of B and C.
pub const N: usize = 128;
/// Taps of the convolution.
pub const WIDTH: usize = 4;

/// Batches, tokens and heads.
const LAYERS: [[usize; 3]; 5] = [[8, 4096, 80], [1, 4096, 80], [1, 32768, 80], [4, 2048, 24], [1, 16384, 24]];
const STEPS: [[usize; 3]; 4] = [[1, 1, 80], [16, 1, 80], [128, 1, 80], [256, 1, 80]];

/// The cases that these words select. Any shape is named by its three numbers, a step by one token: `3x777x48 gradient`.
pub fn selected(words: &[String]) -> Result<Vec<Case>> {
    let named = shapes::unlisted(words, &[]);
    if named.is_empty() {
        return common::selected(all(), words);
    }
    let others: Vec<_> = words.iter().filter(|word| !word.contains('x')).cloned().collect();
    let (steps, long): (Vec<_>, Vec<_>) = named.into_iter().partition(|shape| shape[1] == 1);
    common::selected(of(&long, &steps), &others)
}

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    of(&LAYERS, &STEPS)
}

fn of(layers: &[[usize; 3]], steps: &[[usize; 3]]) -> Vec<Case> {
    let case = |op| move |&[batch, length, heads]: &[usize; 3]| Case { op, batch, length, heads };
    [Op::Scan, Op::Chunks(256), Op::Conv, Op::Gradient, Op::ConvGradient]
        .into_iter()
        .flat_map(|op| layers.iter().map(case(op)))
        .chain(steps.iter().map(case(Op::Step)))
        .collect()
}

impl Case {
    fn tokens(&self) -> usize {
        self.batch * self.length
    }
    /// Channels of the convolution: x, B and C.
    pub fn channels(&self) -> usize {
        self.heads * P + 2 * N
    }
    /// Multiplications and additions, of a scan as in chunks of 256.
    pub fn flops(&self) -> usize {
        match self.op {
            // Within a chunk C Bᵀ, once for all heads, and weights times x; into the state and out of it.
            Op::Scan | Op::Chunks(_) => self.tokens() * (256 * N + self.heads * (256 * P + 4 * N * P)),
            // dy xᵀ and what the weights of C Bᵀ do to dy, once for each head; what both do to B and C; both states, and what comes of them.
            Op::Gradient => self.tokens() * (256 * N + self.heads * (2 * 256 * P + 2 * 256 * N + 10 * N * P)),
            Op::Step => self.tokens() * self.heads * 5 * N * P,
            Op::Conv => self.tokens() * self.channels() * 2 * WIDTH,
            Op::ConvGradient => self.tokens() * self.channels() * 6 * WIDTH,
        }
    }
    /// The least that moves between memory and the SMs.
    pub fn bytes(&self) -> usize {
        let x = self.tokens() * self.heads * P * 2;
        let rest = self.tokens() * (2 * N + self.heads) * 2;
        match self.op {
            Op::Scan | Op::Chunks(_) => 2 * x + rest,
            Op::Step => 2 * x + rest + self.batch * self.heads * P * N * 8,
            Op::Gradient => 3 * x + 2 * rest,
            Op::Conv => self.tokens() * self.channels() * 4,
            Op::ConvGradient => self.tokens() * self.channels() * 6,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.op {
            Op::Scan => f.write_str("scan")?,
            Op::Chunks(tokens) => write!(f, "scan chunk{tokens}")?,
            Op::Step => f.write_str("step")?,
            Op::Conv => f.write_str("conv")?,
            Op::Gradient => f.write_str("gradient")?,
            Op::ConvGradient => f.write_str("conv-gradient")?,
        }
        write!(f, " bf16 b{} s{} h{}", self.batch, self.length, self.heads)
    }
}
