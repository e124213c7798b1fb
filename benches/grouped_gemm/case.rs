//! What is measured.

use std::fmt;

use tilewright_support::Result;

use crate::{common, shapes};

/// Products of a layer's experts: x \[tokens · top, K\] times W \[experts, N, K\] transposed, or the gradient by W.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    pub model: &'static str,
    pub product: &'static str,
    pub tokens: usize,
    /// A power of two.
    pub experts: usize,
    /// Of a token.
    pub top: usize,
    pub n: usize,
    pub k: usize,
    pub of: Of,
}

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// y, in bf16.
    Products,
    /// silu(gates) · ups of y, whose columns are N / 2 gates, then their ups, in bf16.
    Gated,
    /// The gradient by W: that by y \[tokens · top, N\], transposed, times x, over each expert's rows.
    Gradient,
    /// y, of e4m3 with scales of blocks.
    Blocks,
    /// y, in bf16, with W of u4 with scales of groups of 128, without zeros.
    Narrow,
}

/// Experts, experts of a token, hidden and inner columns.
const MODELS: [(&str, [usize; 4]); 3] = [
    ("DeepSeek-V3", [256, 8, 7168, 2048]),
    ("Qwen3-235B-A22B", [128, 8, 4096, 1536]),
    ("Mixtral-8x7B", [8, 2, 4096, 14336]),
];
const TOKENS: [usize; 3] = [8192, 1024, 64];
/// Of a step of training.
const TRAINED: [usize; 2] = [8192, 1024];

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    let all = |of: Of, tokens: &'static [usize]| {
        let each = move |(model, [experts, top, hidden, inner]): (&'static str, [usize; 4])| {
            let case = move |tokens, product, n, k| Case { model, product, tokens, experts, top, n, k, of };
            tokens.iter().flat_map(move |&tokens| {
                [case(tokens, "up", 2 * inner, hidden), case(tokens, "down", hidden, inner)]
            })
        };
        MODELS.into_iter().flat_map(each)
    };
    let [products, gated, blocks, narrow] =
        [Of::Products, Of::Gated, Of::Blocks, Of::Narrow].map(|of| all(of, &TOKENS));
    let gated = gated.filter(|case| case.product == "up");
    products.chain(gated).chain(all(Of::Gradient, &TRAINED)).chain(blocks).chain(narrow).collect()
}

/// The cases that these words select; products in no table are named by tokens, experts, experts of a token, N and K: `4096x64x6x1408x2048 gradient`.
pub fn selected(words: &[String]) -> Result<Vec<Case>> {
    let unlisted = shapes::unlisted(words, &[]);
    if unlisted.is_empty() {
        return common::selected(all(), words);
    }
    let of = |&[tokens, experts, top, n, k]: &[usize; 5]| {
        [Of::Products, Of::Gated, Of::Gradient, Of::Blocks, Of::Narrow].map(|of| Case {
            model: "others",
            product: "y",
            tokens,
            experts,
            top,
            n,
            k,
            of,
        })
    };
    let others: Vec<_> = words.iter().filter(|word| !word.contains('x')).cloned().collect();
    common::selected(unlisted.iter().flat_map(of).collect(), &others)
}

impl Case {
    /// Rows of all groups.
    pub fn entries(&self) -> usize {
        self.tokens * self.top
    }

    /// Rows of each group. `grouped_mm.py` counts the same: each token goes to experts at equal distances, of its own.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.experts];
        for token in 0..self.tokens as u32 {
            let mut x = token.wrapping_mul(2_654_435_761).wrapping_add(12345);
            x = (x ^ x >> 15).wrapping_mul(2_246_822_519);
            x ^= x >> 13;
            for i in 0..self.top {
                counts[(x as usize + i * (x as usize >> 16 | 1)) % self.experts] += 1;
            }
        }
        counts
    }

    /// Multiplications and additions.
    pub fn flops(&self) -> f64 {
        2.0 * self.entries() as f64 * (self.n * self.k) as f64
    }

    /// The least that moves between memory and the SMs: matrices that somebody chose, or all where they are written, and rows of both sides.
    pub fn bytes(&self) -> usize {
        let touched = self.counts().iter().filter(|count| **count > 0 || self.of == Of::Gradient).count();
        let (matrices, rows) = (touched * self.n * self.k, self.entries() * self.k);
        let inputs = match self.of {
            Of::Products | Of::Gated | Of::Gradient => 2 * (matrices + rows),
            Of::Blocks => matrices + rows,
            Of::Narrow => matrices / 2 + touched * self.n * self.k.div_ceil(128) * 2 + 2 * rows,
        };
        inputs + 2 * self.entries() * if self.of == Of::Gated { self.n / 2 } else { self.n }
    }

    /// The words that name it to `grouped_mm.py`, of so many sets of inputs.
    pub fn words(&self, sets: usize) -> String {
        let Case { tokens, experts, top, n, k, of, .. } = self;
        format!("{tokens} {experts} {top} {n} {k} {of:?} {sets}")
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { model, product, tokens, experts, top, n, k, of } = self;
        let of = match of {
            Of::Products => "",
            Of::Gated => " gated",
            Of::Gradient => " gradient",
            Of::Blocks => " e4m3",
            Of::Narrow => " u4",
        };
        write!(f, "{model} {product}{of} {tokens} tokens, {top} of {experts}, {n}x{k}")
    }
}
