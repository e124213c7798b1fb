//! What is measured.

use std::fmt;

use tilewright::DType;
use tilewright_support::attention::Scores;

use crate::shapes::unlisted;

/// An attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub kind: Kind,
    /// Element type of Q, K, V and O.
    pub dtype: DType,
    pub batch: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub queries: usize,
    pub keys: usize,
    /// Columns of Q and K, and of V and O.
    pub columns: [usize; 2],
    pub causal: bool,
}

/// What an attention is for, and so what bounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole sequences: tensor cores bound it.
    Prefill,
    /// One query of each sequence, which sees all keys: memory bounds it.
    Decode,
}

const TYPES: [DType; 2] = [DType::F16, DType::BF16];

/// Sequences, their length, heads, heads of keys and values, head dimension.
const PREFILL: [[usize; 5]; 12] = [
    [32, 512, 16, 16, 128],
    [16, 1024, 16, 16, 128],
    [4, 4096, 16, 16, 128],
    [1, 16384, 16, 16, 128],
    [16, 1024, 32, 32, 64],
    [4, 4096, 32, 32, 64],
    [1, 16384, 32, 32, 64],
    [16, 1024, 8, 8, 256],
    [4, 4096, 8, 8, 256],
    [1, 16384, 8, 8, 256],
    [4, 4096, 32, 8, 128],
    [2, 8192, 32, 8, 128],
];

/// Sequences, and keys of each, in the order of the table.
const DECODE: [[usize; 2]; 6] = [[1, 8192], [16, 8192], [64, 8192], [1, 32768], [16, 32768], [64, 32768]];

/// Every case, in the order of the tables.
pub fn all() -> Vec<Case> {
    let (mut prefill, mut decode) = (Vec::new(), Vec::new());
    for dtype in TYPES {
        for [batch, length, heads, kv_heads, d] in PREFILL {
            for causal in [false, true] {
                let (kind, queries, keys, columns) = (Kind::Prefill, length, length, [d, d]);
                prefill.push(Case { kind, dtype, batch, heads, kv_heads, queries, keys, columns, causal });
            }
        }
        for [batch, keys] in DECODE {
            let (kind, heads, kv_heads, queries, columns) = (Kind::Decode, 32, 8, 1, [128, 128]);
            let causal = false;
            decode.push(Case { kind, dtype, batch, heads, kv_heads, queries, keys, columns, causal });
        }
    }
    prefill.into_iter().chain(decode).collect()
}

/// Sequences, queries, keys, heads, heads of keys and values, columns of Q and K, and of V: prompts and steps of models whose heads have 512.
const WIDE: [[usize; 7]; 9] = [
    [1, 4096, 4096, 32, 4, 512, 512],
    [1, 16384, 16384, 32, 4, 512, 512],
    [4, 2048, 2048, 16, 2, 512, 512],
    [16, 1024, 1024, 8, 2, 512, 512],
    [4, 4096, 4096, 8, 8, 512, 512],
    [1, 1, 8192, 32, 4, 512, 512],
    [1, 1, 32768, 32, 4, 512, 512],
    [16, 1, 8192, 32, 4, 512, 512],
    [64, 1, 8192, 16, 2, 512, 512],
];

/// Heads of more than 256 columns, of bf16: the shapes that are named, such as `1x777x777x8x2x512x512`, or those of the table.
pub fn wide(words: &[String]) -> Vec<Case> {
    let named = unlisted(words, &[]);
    let shapes = if named.is_empty() { WIDE.to_vec() } else { named };
    let of = |[batch, queries, keys, heads, kv_heads, d, dv]: [usize; 7]| {
        let kind = if queries == 1 { Kind::Decode } else { Kind::Prefill };
        // PyTorch aligns the first query of unequal lengths with the first key.
        let masks = if queries == keys { &[false, true][..] } else { &[false] };
        let dtype = DType::BF16;
        masks.iter().map(move |&causal| Case {
            kind,
            dtype,
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            columns: [d, dv],
            causal,
        })
    };
    shapes.into_iter().flat_map(of).collect()
}

impl Case {
    /// The shapes of Q, K, V and O: [batch, heads, length, columns].
    pub fn shapes(&self) -> [[usize; 4]; 4] {
        let Case { batch, heads, kv_heads, queries, keys, columns: [d, dv], .. } = *self;
        [
            [batch, heads, queries, d],
            [batch, kv_heads, keys, d],
            [batch, kv_heads, keys, dv],
            [batch, heads, queries, dv],
        ]
    }

    /// Elements of Q, K, V and O.
    pub fn elements(&self) -> [usize; 4] {
        self.shapes().map(|shape| shape.iter().product())
    }

    /// The least that moves between memory and the SMs.
    pub fn bytes(&self) -> usize {
        self.elements().iter().sum::<usize>() * self.dtype.bytes()
    }

    /// Bytes of K and V.
    pub fn cache_bytes(&self) -> usize {
        let [_, k, v, _] = self.elements();
        (k + v) * self.dtype.bytes()
    }

    /// Multiplications and additions; a causal mask halves them.
    pub fn flops(&self) -> f64 {
        let Case { batch, heads, queries, keys, columns: [d, dv], .. } = *self;
        let all = 2.0 * (batch * heads * queries) as f64 * (keys * (d + dv)) as f64;
        if self.causal { all / 2.0 } else { all }
    }

    /// Its rate, if it takes so long: TFLOP/s, or GB/s of K and V where memory bounds it.
    pub fn rate(&self, ms: f64) -> f64 {
        match self.kind {
            Kind::Prefill => self.flops() / ms / 1e9,
            Kind::Decode => self.cache_bytes() as f64 / ms / 1e6,
        }
    }

    pub fn scores(&self) -> Scores {
        Scores { causal: self.causal, ..Scores::new(self.columns[0]) }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { kind, dtype, batch, heads, kv_heads, keys, columns: [d, dv], .. } = self;
        match kind {
            Kind::Prefill => write!(f, "{dtype} b{batch} s{keys} h{heads}")?,
            Kind::Decode => write!(f, "{dtype} decode b{batch} kv{keys} h{heads}")?,
        }
        if kv_heads != heads {
            write!(f, "/{kv_heads}")?;
        }
        write!(f, " d{d}")?;
        if dv != d {
            write!(f, "/{dv}")?;
        }
        match (kind, self.causal) {
            (Kind::Decode, _) => Ok(()),
            (Kind::Prefill, true) => f.write_str(" causal"),
            (Kind::Prefill, false) => f.write_str(" full"),
        }
    }
}
