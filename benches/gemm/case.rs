//! What is measured.

use std::fmt;

use tilewright::{DType, bf16, f16};
use tilewright_support::{Real, Result};

use crate::{common, shapes};

/// A product, C = A B with A \[M, K\] and B \[K, N\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Element type of A, B and C.
    pub dtype: DType,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// B lies in memory as N x K.
    pub b_transposed: bool,
    /// Which kernel computes it.
    pub path: Path,
}

/// Which kernel computes a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The one that the operator chooses.
    Chosen,
    /// The best of those for Ampere, by the operator's estimate.
    Sm80,
}

const SHAPES: [[usize; 3]; 8] = [
    [8192, 8192, 8192],
    [4096, 4096, 4096],
    [2048, 2048, 2048],
    [1024, 1024, 1024],
    [16384, 16384, 4096],
    [4096, 11008, 4096],
    [128, 4096, 4096],
    [16, 4096, 4096],
];

/// The cases that these words select, and those of shapes among them that stand in no table: `f16 nt 33x5120x5120`.
pub fn selected(words: &[String]) -> Result<Vec<Case>> {
    common::selected([all(), of(&shapes::unlisted(words, &SHAPES))].concat(), words)
}

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    // Products of f32 are the same on both.
    let ampere = |case: &Case| Case { m: 4096, n: 4096, k: 4096, path: Path::Sm80, ..*case };
    let tables: Vec<_> = of(&SHAPES);
    tables
        .chunks(SHAPES.len())
        .flat_map(|cases| {
            cases.iter().copied().chain(cases.first().filter(|case| case.dtype != DType::F32).map(ampere))
        })
        .collect()
}

/// Every type and layout of these shapes.
fn of(shapes: &[[usize; 3]]) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        for b_transposed in [true, false] {
            let path = Path::Chosen;
            cases.extend(shapes.iter().map(|&[m, n, k]| Case { dtype, m, n, k, b_transposed, path }));
        }
    }
    cases
}

impl Case {
    /// Multiplications and additions.
    pub fn flops(&self) -> f64 {
        2.0 * (self.m * self.n) as f64 * self.k as f64
    }

    /// Elements of A, B and C.
    pub fn elements(&self) -> [usize; 3] {
        [self.m * self.k, self.k * self.n, self.m * self.n]
    }

    /// The least that moves between memory and the SMs.
    pub fn bytes(&self) -> usize {
        self.elements().iter().sum::<usize>() * self.dtype.bytes()
    }

    /// The relative error of rounding an element of C, and of f32 of each step of its sum.
    pub fn rounding(&self) -> f64 {
        match self.dtype {
            DType::F16 => f16::ROUNDING,
            DType::F32 => f32::ROUNDING * (self.k as f64).sqrt(),
            _ => bf16::ROUNDING,
        }
    }

    /// Whether memory, not the tensor cores, bounds it on current GPUs.
    pub fn skinny(&self) -> bool {
        self.m <= 128
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { dtype, m, n, k, .. } = self;
        let layout = if self.b_transposed { "NT" } else { "NN" };
        write!(f, "{dtype} {m}x{n}x{k} {layout}")?;
        match self.path {
            Path::Chosen => Ok(()),
            Path::Sm80 => f.write_str(" sm_80"),
        }
    }
}
