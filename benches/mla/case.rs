//! What is measured.

use std::fmt;

use tilewright::DType;

/// A decoding step: one position of each sequence, over pages of 64 keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Element type of Q, the cache and O.
    pub dtype: DType,
    pub batch: usize,
    pub heads: usize,
    pub keys: Keys,
}

/// How many keys sequences have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// All as many.
    Each(usize),
    /// Spread evenly from the first to the second, in no order.
    Between(usize, usize),
}

/// Columns of keys, and of values.
pub const COLUMNS: [usize; 2] = [576, 512];
/// Keys of a page.
pub const PAGE: usize = 64;

const TYPES: [DType; 2] = [DType::F16, DType::BF16];

/// Sequences, heads, and keys of each sequence.
const EQUAL: [[usize; 3]; 11] = [
    [128, 128, 1024],
    [128, 128, 2048],
    [128, 128, 4096],
    [128, 128, 8192],
    [128, 128, 32768],
    [64, 128, 1024],
    [64, 128, 8192],
    [64, 128, 32768],
    [128, 64, 8192],
    [128, 16, 8192],
    [64, 16, 32768],
];

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    let of_type = |dtype| {
        let equal = EQUAL
            .map(|[batch, heads, keys]| Case { dtype, batch, heads, keys: Keys::Each(keys) })
            .into_iter();
        let unequal =
            [64, 128].map(|batch| Case { dtype, batch, heads: 128, keys: Keys::Between(512, 16384) });
        equal.chain(unequal)
    };
    TYPES.into_iter().flat_map(of_type).collect()
}

impl Case {
    /// The keys of each sequence.
    pub fn lengths(&self) -> Vec<u32> {
        let length = |i: usize| match self.keys {
            Keys::Each(keys) => keys,
            // A step that has no divisor in common with the batch, a power of two: all lengths, shuffled.
            Keys::Between(least, most) => least + (most - least) * (i * 37 % self.batch) / (self.batch - 1),
        };
        (0..self.batch).map(|i| length(i) as u32).collect()
    }

    /// Pages of each sequence in the table.
    pub fn entries(&self) -> usize {
        match self.keys {
            Keys::Each(most) | Keys::Between(_, most) => most.div_ceil(PAGE),
        }
    }

    /// Elements of Q, the cache and O.
    pub fn elements(&self) -> [usize; 3] {
        let [d, dv] = COLUMNS;
        let rows = self.batch * self.heads;
        [rows * d, self.batch * self.entries() * PAGE * d, rows * dv]
    }

    /// All sequences' keys.
    fn all_keys(&self) -> f64 {
        self.lengths().into_iter().map(f64::from).sum()
    }

    /// The least that moves between memory and the SMs.
    pub fn bytes(&self) -> f64 {
        let ([d, _], [q, _, o]) = (COLUMNS, self.elements());
        (self.all_keys() * d as f64 + (q + o) as f64) * self.dtype.bytes() as f64
    }

    /// Multiplications and additions.
    pub fn flops(&self) -> f64 {
        let [d, dv] = COLUMNS;
        2.0 * self.all_keys() * (self.heads * (d + dv)) as f64
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { dtype, batch, heads, keys } = self;
        write!(f, "{dtype} b{batch} h{heads} ")?;
        match keys {
            Keys::Each(keys) => write!(f, "kv{keys}"),
            Keys::Between(least, most) => write!(f, "kv{least}-{most}"),
        }
    }
}
