//! Where the parts of the gradients' workspace lie.

use tilewright_ssd::SUMS;

use super::choose::{Compiled, Shares};
use super::problem::Problem;
use crate::ops::ssd::problem::BLOCK;
use crate::ops::ssd::steps::Steps;
use crate::tensor::Layout;
use crate::{Error, Result};

/// Elements of f32 before each part, and all. Steps come first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// dy silu(z), of the element type.
    pub(super) gated: usize,
    /// States before each block, of the element type.
    pub(super) before: usize,
    /// Gradients by the states behind each block, of the element type.
    pub(super) behind: usize,
    /// Sums of each token.
    pub(super) sums: usize,
    /// Parts of the gradients by A, D and the bias.
    pub(super) lines: usize,
    /// Parts of the gradients by B and C, one after the other in time.
    pub(super) splits: usize,
    /// States of chunks, in one direction and then the other.
    pub(super) chunks: usize,
    /// What chunks leave of states.
    pub(super) decays: usize,
    pub(super) all: usize,
}

impl Room {
    pub(super) fn new(problem: &Problem, kernel: &Compiled, shares: &Shares) -> Result<Self> {
        let (size, extent) = (&problem.size, &problem.extent);
        let mut all = Steps::len(size, extent)?;
        // Each part begins at a multiple of 16 bytes.
        let mut part = |wanted: bool, shape: &[usize], halves: bool| {
            let begin = all;
            let len = if wanted { Layout::contiguous(shape)?.len() } else { 0 };
            all += if halves { len.div_ceil(2) } else { len }.next_multiple_of(4);
            Ok::<_, Error>(begin)
        };
        let tokens = extent.blocks_of_steps() * BLOCK;
        let states = [size.matrices, size.heads, tokens, size.parts() * kernel.columns as usize];
        let [queries, keys] = problem.sides();
        let chunks = [extent.count, shares.chunks, size.heads];
        let gated = [size.matrices, size.heads, size.rows, size.p.next_multiple_of(8)];
        let chunk_states = [chunks[0] * chunks[1], chunks[2], size.p, size.n];
        Ok(Room {
            gated: part(problem.z.is_some(), &gated, true)?,
            before: part(queries, &states, true)?,
            behind: part(keys || problem.d_initial.is_some(), &states, true)?,
            sums: part(
                queries || keys,
                &[size.matrices, size.parts() * SUMS as usize, size.heads, tokens],
                false,
            )?,
            lines: part(problem.of_time(), &[3, extent.count, extent.blocks(), size.heads], false)?,
            splits: part(
                problem.d_bc.iter().any(Option::is_some),
                &[shares.splits, size.matrices, size.groups, size.rows, size.n],
                false,
            )?,
            chunks: part(shares.chunks > 1, &chunk_states, false)?,
            decays: part(shares.chunks > 1, &chunks, false)?,
            all,
        })
    }
}
