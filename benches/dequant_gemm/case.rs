//! What is measured.

use std::fmt;

use tilewright::quant::{Format, Group};
use tilewright_support::Result;

use crate::{common, shapes};

/// A product C = A Wᵀ: A \[M, K\], W \[N, K\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub activations: Activations,
    pub format: Format,
    pub group: Group,
    /// M, N, K.
    pub size: [usize; 3],
}

/// The type of A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activations {
    F16,
    /// With a scale for each row.
    Int8,
}

/// N and K.
const SHAPES: [[usize; 2]; 3] = [[4096, 4096], [28672, 8192], [8192, 8192]];
const ROWS: [usize; 9] = [1, 8, 16, 32, 64, 128, 256, 1024, 4096];
/// Of other formats than the first fewer are measured, at the last shape.
const FEWER: [usize; 3] = [1, 64, 4096];

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    let (f16, int8) = (Activations::F16, Activations::Int8);
    let case = |activations, format, group, m, [n, k]: [usize; 2]| Case {
        activations,
        format,
        group,
        size: [m, n, k],
    };
    let mut cases = Vec::new();
    for (activations, group) in [(f16, Group::K128), (int8, Group::K128), (int8, Group::Row)] {
        for shape in SHAPES {
            cases.extend(ROWS.map(|m| case(activations, Format::U4, group, m, shape)));
        }
    }
    let last = SHAPES[SHAPES.len() - 1];
    for format in Format::ALL.into_iter().filter(|&format| format != Format::U4) {
        cases.extend(FEWER.map(|m| case(f16, format, Group::K128, m, last)));
    }
    for format in [Format::I4, Format::U2, Format::I2, Format::I8] {
        cases.extend(FEWER.map(|m| case(int8, format, Group::Row, m, last)));
    }
    cases
}

/// The cases that these words select; or where they name shapes of M, N and K, those with weights of the other words' formats: `nf4,i8 1000x5120x13824,300x8192x8192`.
pub fn selected(words: &[String]) -> Result<Vec<Case>> {
    let shapes = shapes::unlisted::<3>(words, &[]);
    if shapes.is_empty() {
        return common::selected(all(), words);
    }
    let of = |size| {
        Format::ALL.map(|format| Case { activations: Activations::F16, format, group: Group::K128, size })
    };
    let is_other = |word: &&String| shapes::unlisted::<3>(&[(*word).clone()], &[]).is_empty();
    let words: Vec<_> = words.iter().filter(is_other).cloned().collect();
    common::selected(shapes.into_iter().flat_map(of).collect(), &words)
}

impl Case {
    /// Multiplications and additions.
    pub fn flops(&self) -> f64 {
        2.0 * self.size.map(|n| n as f64).iter().product::<f64>()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { activations, format, group, size: [m, n, k] } = self;
        let activations = match activations {
            Activations::F16 => "f16",
            Activations::Int8 => "int8",
        };
        write!(f, "{activations} {format} g{} {n}x{k} m{m}", group.name())
    }
}
