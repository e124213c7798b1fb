//! What is measured.

use std::fmt;

use tilewright::DType;
use tilewright_support::Result;

use crate::{common, shapes};

/// What is done to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Softmax,
    LogSoftmax,
    /// With a mask as large as the scores.
    MaskedSoftmax,
    SoftmaxGradient,
    RmsNorm,
    LayerNorm,
    /// RMSNorm of a sum, which is a result too.
    AddRmsNorm,
    /// By x and the weight.
    RmsNormGradient,
    /// By x, weight and bias.
    LayerNormGradient,
    /// Loss and gradient.
    CrossEntropy,
}

/// An operator on rows of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub op: Op,
    pub dtype: DType,
    pub rows: usize,
    pub cols: usize,
}

const OPS: [Op; 10] = [
    Op::Softmax,
    Op::LogSoftmax,
    Op::MaskedSoftmax,
    Op::SoftmaxGradient,
    Op::RmsNorm,
    Op::LayerNorm,
    Op::AddRmsNorm,
    Op::RmsNormGradient,
    Op::LayerNormGradient,
    Op::CrossEntropy,
];
const TYPES: [DType; 3] = [DType::F16, DType::BF16, DType::F32];
/// Large ones, rows of vocabularies, rows that nothing divides, small ones.
const SHAPES: [[usize; 2]; 14] = [
    [8192, 8192],
    [4096, 16384],
    [65536, 1024],
    [262144, 128],
    [16384, 4096],
    [4096, 32000],
    [2048, 65536],
    [1024, 131072],
    [512, 262144],
    [8191, 8191],
    [1, 4096],
    [32, 4096],
    [128, 4096],
    [1, 131072],
];

/// Shapes of other models, and more rows that nothing divides: of f16.
const OTHERS: [[usize; 2]; 26] = [
    [512, 50257],
    [4096, 5120],
    [8192, 3072],
    [2048, 12288],
    [1024, 24576],
    [3000, 32064],
    [777, 128_256],
    [16, 65536],
    [64, 20480],
    [4096, 30522],
    [333, 7168],
    [30000, 1023],
    [131_072, 333],
    [20000, 2047],
    [10000, 3001],
    [8192, 5121],
    [12000, 2560],
    [5000, 6912],
    [2000, 11008],
    [1500, 29568],
    [700, 51200],
    [300, 152_064],
    [7001, 4097],
    [50000, 769],
    [3000, 12289],
    [900, 65537],
];

/// The cases that these words select, and those of shapes among them that stand in no table, of the types among them, or f16: `rms_norm 7x1000`.
pub fn selected(words: &[String]) -> Result<Vec<Case>> {
    let own = shapes::unlisted(words, &[&SHAPES[..], &OTHERS].concat());
    let named = |dtype: &DType| words.iter().any(|word| word.split(',').any(|word| word == dtype.name()));
    let types: Vec<_> = TYPES.into_iter().filter(named).collect();
    let types = if types.is_empty() { vec![DType::F16] } else { types };
    let mut cases = all();
    for (op, &dtype) in OPS.into_iter().flat_map(|op| types.iter().map(move |dtype| (op, dtype))) {
        cases.extend(own.iter().map(|&[rows, cols]| Case { op, dtype, rows, cols }));
    }
    common::selected(cases, words)
}

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    let shapes = |op, dtype| SHAPES.map(|[rows, cols]| Case { op, dtype, rows, cols });
    let table = OPS.into_iter().flat_map(|op| TYPES.into_iter().flat_map(move |dtype| shapes(op, dtype)));
    let others =
        OPS.into_iter().flat_map(|op| OTHERS.map(|[rows, cols]| Case { op, dtype: DType::F16, rows, cols }));
    table.chain(others).collect()
}

impl Case {
    /// Elements of one of its tensors.
    pub fn elements(&self) -> usize {
        self.rows * self.cols
    }
    /// Tensors of so many elements that it reads, and that it writes.
    pub fn tensors(&self) -> [usize; 2] {
        match self.op {
            Op::AddRmsNorm => [2, 2],
            Op::MaskedSoftmax | Op::SoftmaxGradient | Op::RmsNormGradient | Op::LayerNormGradient => [2, 1],
            _ => [1, 1],
        }
    }
    /// The least that moves between memory and the SMs.
    pub fn bytes(&self) -> usize {
        self.tensors().iter().sum::<usize>() * self.elements() * self.dtype.bytes()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = match self.op {
            Op::Softmax => "softmax",
            Op::LogSoftmax => "log_softmax",
            Op::MaskedSoftmax => "masked_softmax",
            Op::SoftmaxGradient => "softmax_gradient",
            Op::RmsNorm => "rms_norm",
            Op::LayerNorm => "layer_norm",
            Op::AddRmsNorm => "add_rms_norm",
            Op::RmsNormGradient => "rms_norm_gradient",
            Op::LayerNormGradient => "layer_norm_gradient",
            Op::CrossEntropy => "cross_entropy",
        };
        write!(f, "{op} {} {}x{}", self.dtype, self.rows, self.cols)
    }
}
