//! Batches of products as few launches of as large matrices as strides allow.

use super::problem::{Matrices, Size};
use crate::ops::runs::{Run, launches, offsets, runs};
use crate::tensor::{Layout, Untyped};
use crate::{Device, Result};

/// Where A, B, C and the bias stand in a run of four.
const A: usize = 0;
const B: usize = 1;

/// The products of a GEMM: those of the first launch, and where the others' matrices lie.
///
/// Dimensions of the batch that all matrices step over evenly are one. Where one B serves a whole dimension, as a layer's weight does, and the rows of A and C
/// go on from one matrix to the next, the dimension belongs to M; so it is with A and N. The largest of what is left is a launch's batch.
#[derive(Clone, Debug)]
pub(super) struct Batches {
    first: Matrices,
    /// Dimensions of which each index takes a launch, from the outermost.
    outer: Vec<Run<4>>,
}

impl Batches {
    /// Of A, B, C and the bias, with as many dimensions each: those of the batch, rows and columns.
    pub(super) fn of(
        device: &Device,
        [a, b, c]: [Untyped; 3],
        bias: Option<Untyped>,
        [m, n, k]: [usize; 3],
    ) -> Result<Self> {
        // What is not there is no hindrance: it lies as C does.
        let tensors = [a, b, c, bias.unwrap_or(c)];
        let layouts = tensors.map(|tensor| tensor.layout);
        let batch = layouts[A].rank() - 2;
        let of = |dim, size| Run { size, ..Run::of(&layouts, dim) };
        let (mut rows, mut cols) = (of(batch, m), of(batch + 1, n));
        // A's columns and B's rows are the depth.
        let depth = [cols.strides[A], rows.strides[B]];
        (cols.strides[A], rows.strides[B]) = (0, 0);
        let mut outer = runs(&layouts, 0..batch);
        join(&mut outer, &mut rows, B);
        join(&mut outer, &mut cols, A);
        let largest = (0..outer.len()).max_by_key(|&i| outer[i].size);
        let inner = largest.map_or(Run::ONE, |i| outer.remove(i));
        let size = Size { batch: inner.size, m: rows.size, n: cols.size, k };
        let matrix = |i: usize| {
            let (sizes, strides) = match i {
                A => ([rows.size, k], [rows.strides[i], depth[A]]),
                B => ([k, cols.size], [depth[B], cols.strides[i]]),
                _ => ([rows.size, cols.size], [rows.strides[i], cols.strides[i]]),
            };
            let shape = [inner.size, sizes[0], sizes[1]];
            let layout = Layout::strided(&shape, &[inner.strides[i], strides[0], strides[1]])?;
            Ok::<_, crate::Error>(Untyped { layout, ..tensors[i] })
        };
        let bias = bias.map(|_| matrix(3)).transpose()?;
        let first =
            Matrices { device: device.clone(), a: matrix(A)?, b: matrix(B)?, c: matrix(2)?, bias, size };
        Ok(Batches { first, outer })
    }

    /// One launch.
    pub(super) fn of_one(matrices: Matrices) -> Self {
        Batches { first: matrices, outer: Vec::new() }
    }

    /// Nothing to store.
    pub(super) fn is_empty(&self) -> bool {
        let Size { batch, m, n, .. } = self.first.size;
        [batch, m, n, launches(&self.outer)].contains(&0)
    }

    /// Those of the first launch. What differs in others is where their matrices begin.
    pub(super) fn first(&self) -> &Matrices {
        &self.first
    }

    /// Those of each launch.
    pub(super) fn launches(&self) -> impl Iterator<Item = Matrices> {
        (0..launches(&self.outer)).map(|launch| {
            let [a, b, c, bias] = offsets(&self.outer, launch);
            let at = |tensor: Untyped, elements: usize| {
                let address = tensor.address + (elements * tensor.dtype.bytes()) as u64;
                Untyped { address, ..tensor }
            };
            let first = self.first.clone();
            Matrices {
                a: at(first.a, a),
                b: at(first.b, b),
                c: at(first.c, c),
                bias: first.bias.map(|tensor| at(tensor, bias)),
                ..first
            }
        })
    }
}

/// Makes dimensions of the batch that the matrix `shared` serves as a whole part of `lines`, which are rows or columns that this matrix does not have,
/// where those of the others go on evenly.
fn join(batch: &mut Vec<Run<4>>, lines: &mut Run<4>, shared: usize) {
    let joined = |run: &Run<4>, lines: &Run<4>| {
        // The stride of a single line is nowhere taken.
        let lines = if lines.size == 1 { Run { size: 1, strides: run.strides } } else { *lines };
        run.around(&lines).filter(|_| run.size > 1 && run.strides[shared] == 0)
    };
    while let Some((i, all)) = batch.iter().enumerate().find_map(|(i, run)| Some(i).zip(joined(run, lines))) {
        *lines = all;
        batch.remove(i);
    }
}
