//! What is measured.

use std::fmt;

use tilewright_support::Result;

use crate::{common, shapes};

/// A product, C = A Bᵀ with A \[M, K\] and B \[N, K\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub kind: Kind,
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

/// Types and scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// e4m3 to bf16 with one scale each.
    Tensors,
    /// The same with sums in the tensor cores.
    Fast,
    /// e4m3 to e4m3 with one scale each, C's too.
    Narrow,
    /// The same with sums in the tensor cores.
    NarrowFast,
    /// As `Narrow`, with the largest magnitude of C.
    Amax,
    /// e4m3 to bf16 with scales of rows.
    Rows,
    /// e4m3 to bf16 with scales of blocks.
    Blocks,
    /// e5m2 and e4m3 to bf16, as gradients and weights.
    Gradients,
    /// int8 to i32.
    Sums,
    /// int8 to bf16 with scales of rows.
    Integers,
    /// f32 as tf32.
    Tf32,
    /// f32 in parts of tf32, beside products of f32.
    Precise,
}

const KINDS: [Kind; 12] = [
    Kind::Tensors,
    Kind::Fast,
    Kind::Narrow,
    Kind::NarrowFast,
    Kind::Amax,
    Kind::Rows,
    Kind::Blocks,
    Kind::Gradients,
    Kind::Sums,
    Kind::Integers,
    Kind::Tf32,
    Kind::Precise,
];

const SHAPES: [[usize; 3]; 6] = [
    [8192, 8192, 8192],
    [4096, 4096, 4096],
    [4096, 7168, 2048],
    [2048, 5120, 5120],
    [128, 7168, 2048],
    [16, 4096, 4096],
];

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    of(&SHAPES)
}

/// The cases that these words select, and those of shapes among them that stand in no table: `e4m3 blocks 333x7168x2048`.
pub fn selected(words: &[String]) -> Result<Vec<Case>> {
    common::selected([all(), of(&shapes::unlisted(words, &SHAPES))].concat(), words)
}

/// Every kind of these shapes.
fn of(shapes: &[[usize; 3]]) -> Vec<Case> {
    KINDS.iter().flat_map(|&kind| shapes.iter().map(move |&[m, n, k]| Case { kind, m, n, k })).collect()
}

impl Case {
    /// Multiplications and additions.
    pub fn flops(&self) -> f64 {
        2.0 * (self.m * self.n) as f64 * self.k as f64
    }

    /// The least that moves between memory and the SMs.
    pub fn bytes(&self) -> usize {
        let [element, out] = match self.kind {
            Kind::Sums => [1, 4],
            Kind::Tf32 | Kind::Precise => [4, 4],
            Kind::Narrow | Kind::NarrowFast | Kind::Amax => [1, 1],
            _ => [1, 2],
        };
        (self.m + self.n) * self.k * element + self.m * self.n * out
    }

    /// The words that name it to `scaled_mm.py`, of so many sets of inputs.
    pub fn words(&self, sets: usize) -> String {
        let Case { kind, m, n, k } = self;
        let kind = match kind {
            Kind::Tensors => "e4m3",
            Kind::Fast => "e4m3_fast",
            Kind::Narrow => "e4m3_narrow",
            Kind::NarrowFast => "e4m3_narrow_fast",
            Kind::Amax => "e4m3_amax",
            Kind::Rows => "e4m3_rows",
            Kind::Blocks => "e4m3_blocks",
            Kind::Gradients => "e5m2_e4m3",
            Kind::Sums => "i8",
            Kind::Integers => "i8_rows",
            Kind::Tf32 => "tf32",
            Kind::Precise => "f32",
        };
        format!("{kind} {m} {n} {k} {sets}")
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { kind, m, n, k } = self;
        let kind = match kind {
            Kind::Tensors => "e4m3 tensors",
            Kind::Fast => "e4m3 fast",
            Kind::Narrow => "e4m3 narrow",
            Kind::NarrowFast => "e4m3 narrow_fast",
            Kind::Amax => "e4m3 amax",
            Kind::Rows => "e4m3 rows",
            Kind::Blocks => "e4m3 blocks",
            Kind::Gradients => "e5m2 e4m3",
            Kind::Sums => "i8 i32",
            Kind::Integers => "i8 bf16",
            Kind::Tf32 => "tf32 f32",
            Kind::Precise => "precise f32",
        };
        write!(f, "{kind} {m}x{n}x{k}")
    }
}
