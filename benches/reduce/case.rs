//! What is measured.

use std::fmt;

use tilewright::DType;
use tilewright::ops::Reduction;

use crate::shapes::unlisted;

/// What is done to a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Over its columns: a result for each row.
    Rows(Reduction),
    /// Over its rows: a result for each column.
    Columns(Reduction),
    /// Over both.
    All(Reduction),
    /// The place of the largest element of each row.
    Argmax,
    /// So many largest elements of each row.
    TopK(usize),
}

/// An operator on a matrix of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub op: Op,
    pub dtype: DType,
    pub rows: usize,
    pub cols: usize,
}

const TYPES: [DType; 3] = [DType::F16, DType::BF16, DType::F32];
/// Large ones, short rows, rows that nothing divides, few results of many elements, small ones.
const ROWS: [[usize; 2]; 11] = [
    [8192, 8192],
    [65536, 1024],
    [262144, 128],
    [4096, 32000],
    [1024, 131072],
    [8191, 8191],
    [1, 4096],
    [32, 4096],
    [128, 4096],
    [1, 131072],
    [16, 131072],
];
const COLUMNS: [[usize; 2]; 5] = [[8192, 8192], [131072, 1024], [1048576, 64], [8191, 8191], [128, 4096]];
const ALL: [[usize; 2]; 2] = [[16384, 16384], [1024, 1024]];
const TOP_K: [([usize; 2], usize); 14] = [
    ([65536, 8], 2),
    ([4096, 128], 8),
    ([16384, 128], 8),
    ([65536, 256], 8),
    ([1, 256], 8),
    ([16384, 512], 10),
    ([4096, 1024], 8),
    ([4096, 4096], 64),
    ([1024, 32000], 50),
    ([1024, 131072], 50),
    ([1024, 131072], 2048),
    ([256, 262144], 2048),
    ([1, 131072], 50),
    ([32, 131072], 50),
];

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in TYPES {
        let mut add = |op, [rows, cols]: [usize; 2]| all.push(Case { op, dtype, rows, cols });
        ROWS.iter().for_each(|&shape| add(Op::Rows(Reduction::Sum), shape));
        [Reduction::Max, Reduction::Norm].iter().for_each(|&reduction| add(Op::Rows(reduction), ROWS[0]));
        COLUMNS.iter().for_each(|&shape| add(Op::Columns(Reduction::Sum), shape));
        ALL.iter().for_each(|&shape| add(Op::All(Reduction::Sum), shape));
        ROWS.iter().for_each(|&shape| add(Op::Argmax, shape));
        TOP_K.iter().for_each(|&(shape, found)| add(Op::TopK(found), shape));
    }
    all
}

/// The same, and sums over the rows and the columns of matrices that these words name, such as `777x1001`, and as many of the largest elements
/// of their rows as words say.
pub fn named(words: &[String]) -> Vec<Case> {
    let mut cases = all();
    let found = || words.iter().flat_map(|word| word.split(',')).filter_map(|word| word.parse().ok());
    for [rows, cols] in unlisted(words, &[]) {
        let ops = found().filter(|found| *found <= cols).map(Op::TopK);
        cases.extend(ops.flat_map(|op| TYPES.map(|dtype| Case { op, dtype, rows, cols })));
    }
    for [rows, cols] in unlisted(words, &ROWS) {
        let ops = [Op::Rows(Reduction::Sum), Op::Columns(Reduction::Sum)];
        cases.extend(TYPES.iter().flat_map(|&dtype| ops.map(|op| Case { op, dtype, rows, cols })));
    }
    cases
}

impl Case {
    /// Elements of the matrix.
    pub fn elements(&self) -> usize {
        self.rows * self.cols
    }
    /// The least that moves between memory and the SMs: results are few.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.bytes()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.op {
            Op::Rows(reduction) => write!(f, "{reduction:?} rows")?,
            Op::Columns(reduction) => write!(f, "{reduction:?} columns")?,
            Op::All(reduction) => write!(f, "{reduction:?} all")?,
            Op::Argmax => write!(f, "argmax rows")?,
            Op::TopK(found) => write!(f, "top_k {found}")?,
        }
        write!(f, " {} {}x{}", self.dtype, self.rows, self.cols)
    }
}
