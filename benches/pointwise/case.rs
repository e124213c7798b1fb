//! What is measured.

use std::fmt;

use tilewright::DType;

/// What is computed of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// e^x.
    Exp,
    /// A sum of two tensors.
    Add,
    /// A tensor's product with a row.
    Scale,
    /// f32 to f16, f16 and bf16 to f32.
    Cast,
    /// A matrix transposed.
    Transpose,
    /// SwiGLU of two tensors.
    Gated,
    /// SwiGLU of one tensor of twice the columns.
    GatedPacked,
    /// The gradients of SwiGLU.
    GatedGradient,
    /// Rows of a table.
    Embedding,
    /// Rotary embedding of 32 heads of q and 8 of k, of 128 columns in halves, from theta.
    Rope,
    /// The same, interleaved, from a table.
    RopeTable,
}

/// Columns of a head.
pub const HEAD: usize = 128;

/// An operator on rows of a shape: those of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub op: Op,
    pub dtype: DType,
    pub rows: usize,
    pub cols: usize,
}

const TYPES: [DType; 3] = [DType::F16, DType::BF16, DType::F32];
const ELEMENTWISE: &[[usize; 2]] = &[[8192, 8192], [65536, 1024], [8191, 8191], [32, 4096], [1, 4096]];
const TRANSPOSE: &[[usize; 2]] = &[[8192, 8192], [32768, 1024], [8191, 8191], [1000, 1000], [64, 4096]];
const GATED: &[[usize; 2]] =
    &[[8192, 8192], [8192, 14336], [65536, 1024], [8191, 8191], [32, 4096], [1, 14336]];
const EMBEDDING: &[[usize; 2]] = &[[65536, 4096], [16384, 8192], [8192, 1000], [32, 4096]];
const ROPE: &[[usize; 2]] = &[[32768, 5120], [4096, 5120], [32, 5120], [1, 5120]];

const OPS: [(Op, &[[usize; 2]]); 11] = [
    (Op::Exp, ELEMENTWISE),
    (Op::Add, ELEMENTWISE),
    (Op::Scale, ELEMENTWISE),
    (Op::Cast, ELEMENTWISE),
    (Op::Transpose, TRANSPOSE),
    (Op::Gated, GATED),
    (Op::GatedPacked, GATED),
    (Op::GatedGradient, GATED),
    (Op::Embedding, EMBEDDING),
    (Op::Rope, ROPE),
    (Op::RopeTable, ROPE),
];

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    let of = |(op, shapes): (Op, &'static [[usize; 2]])| {
        let with = move |dtype| shapes.iter().map(move |&[rows, cols]| Case { op, dtype, rows, cols });
        TYPES.into_iter().flat_map(with)
    };
    OPS.into_iter().flat_map(of).collect()
}

impl Case {
    /// Elements of one of its tensors.
    pub fn elements(&self) -> usize {
        self.rows * self.cols
    }
    /// Tensors of so many elements that it reads, and that it writes.
    pub fn tensors(&self) -> [usize; 2] {
        match self.op {
            Op::Gated | Op::GatedPacked | Op::Add => [2, 1],
            // Twice as wide.
            Op::Cast if self.dtype.bytes() == 2 => [1, 2],
            Op::Exp | Op::Scale | Op::Cast | Op::Transpose => [1, 1],
            Op::GatedGradient => [3, 2],
            Op::Embedding | Op::Rope | Op::RopeTable => [1, 1],
        }
    }
    /// The least that moves between memory and the SMs, but for indices, angles and a row that repeats.
    pub fn bytes(&self) -> usize {
        if self.op == Op::Cast {
            // One of the types has two bytes, one four.
            return 6 * self.elements();
        }
        self.tensors().iter().sum::<usize>() * self.elements() * self.dtype.bytes()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = match self.op {
            Op::Exp => "exp",
            Op::Add => "add",
            Op::Scale => "scale",
            Op::Cast => "cast",
            Op::Transpose => "transpose",
            Op::Gated => "gated",
            Op::GatedPacked => "gated_packed",
            Op::GatedGradient => "gated_gradient",
            Op::Embedding => "embedding",
            Op::Rope => "rope",
            Op::RopeTable => "rope_table",
        };
        write!(f, "{op} {} {}x{}", self.dtype, self.rows, self.cols)
    }
}
