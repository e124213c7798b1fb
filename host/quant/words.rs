//! Checkpoints' tensors: codes in 32-bit words, tables with N as the last dimension.

use super::{Group, Halves, Scheme};
use crate::Result;

/// A matrix of codes in words, `[rows, columns]` in all.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    pub(super) words: &'a [i32],
    pub(super) columns: usize,
}

impl Words<'_> {
    /// The `bits` bits from bit `shift` of the word at (row, column).
    pub(super) fn get(self, row: usize, column: usize, shift: usize, bits: u32) -> u8 {
        let word = self.words[row * self.columns + column].cast_unsigned();
        (word >> shift) as u8 & (0xff >> (8 - bits))
    }
}

/// What checkpoints' tensors must be.
pub(super) struct Expected<'a> {
    pub(super) tensor: &'a str,
    pub(super) scheme: Scheme,
}

impl Expected<'_> {
    /// The tensor `argument` has `rows` times `columns` values.
    pub(super) fn size(&self, argument: &'static str, len: usize, rows: usize, columns: usize) -> Result<()> {
        if len == rows * columns {
            return Ok(());
        }
        let (was, allowed) = (format!("{len} values"), format!("of shape [{rows}, {columns}]"));
        Err(self.scheme.error(self.tensor, argument, was, allowed))
    }
}

/// A table \[groups, N\] as \[N, groups\].
pub(super) fn transposed(table: &Halves, n: usize, group: Group, k: usize) -> Halves {
    let groups = group.count(k);
    table.gather((0..n * groups).map(|i| Some(i % groups * n + i / groups)))
}
