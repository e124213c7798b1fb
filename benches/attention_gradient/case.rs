//! What is measured.

use std::fmt;

use tilewright_support::Result;

use crate::{common, shapes};

/// The gradients of an attention of bf16, of as many queries as keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub batch: usize,
    pub length: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub columns: usize,
    pub causal: bool,
}

/// Sequences, their length, heads, heads of keys and values, head dimension.
const SHAPES: [[usize; 5]; 9] = [
    [4, 4096, 16, 16, 128],
    [1, 16384, 16, 16, 128],
    [16, 1024, 16, 16, 128],
    [4, 4096, 32, 8, 128],
    [2, 3000, 16, 16, 128],
    [4, 4096, 32, 32, 64],
    [16, 1024, 32, 32, 64],
    [4, 4096, 8, 8, 256],
    [32, 197, 12, 12, 64],
];

/// The cases that these words select; a shape in no table is named by its five numbers: `2x777x24x8x96 causal`.
pub fn selected(words: &[String]) -> Result<Vec<Case>> {
    let unlisted = shapes::unlisted(words, &SHAPES);
    if unlisted.is_empty() {
        return common::selected(all(), words);
    }
    let others: Vec<_> = words.iter().filter(|word| !word.contains('x')).cloned().collect();
    common::selected(of(&unlisted), &others)
}

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    of(&SHAPES)
}

fn of(shapes: &[[usize; 5]]) -> Vec<Case> {
    let both = |&[batch, length, heads, kv_heads, columns]: &[usize; 5]| {
        [false, true].map(|causal| Case { batch, length, heads, kv_heads, columns, causal })
    };
    shapes.iter().flat_map(both).collect()
}

impl Case {
    /// The shapes of Q and of K.
    pub fn shapes(&self) -> [[usize; 4]; 2] {
        let Case { batch, length, heads, kv_heads, columns, .. } = *self;
        [[batch, heads, length, columns], [batch, kv_heads, length, columns]]
    }
    /// Multiplications and additions of five products, of a causal mask half of them.
    pub fn flops(&self) -> usize {
        let Case { batch, length, heads, columns, causal, .. } = *self;
        let all = 10 * batch * heads * length * length * columns;
        if causal { all / 2 } else { all }
    }
    /// The least that moves between memory and the SMs.
    pub fn bytes(&self) -> usize {
        let [q, k] = self.shapes().map(|shape| 2 * shape.iter().product::<usize>());
        4 * q + 4 * k
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { batch, length, heads, kv_heads, columns, causal } = self;
        let mask = if *causal { "causal" } else { "full" };
        write!(f, "b{batch} s{length} h{heads}/{kv_heads} d{columns} {mask}")
    }
}
