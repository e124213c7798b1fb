//! Tensors of any shape as batches of matrices of pieces, which lie alike in all tensors of a call.

use std::cmp::Reverse;

use tilewright_pointwise::{PieceOrder, Strided};

use crate::ops::runs::{Run, launches, offsets, product, runs};
use crate::tensor::Untyped;
use crate::{Error, Result};

/// A tensor of a call, by the name of its argument.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Operand {
    pub(in crate::ops) name: &'static str,
    pub(in crate::ops) tensor: Untyped,
}

/// How a tensor lies, as far as kernels are chosen by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops) struct Lies {
    pub(in crate::ops) name: &'static str,
    /// Whether rows can be read in vectors of 16 bytes, as far as address and strides go.
    pub(in crate::ops) in_vectors: bool,
    /// Whether columns are neighbours at least.
    pub(in crate::ops) in_rows: bool,
}

impl Operand {
    /// How it lies for kernels whose pieces are of its last dimension.
    pub(in crate::ops) fn lies(&self) -> Lies {
        let mut dims: Vec<_> = self.tensor.layout.dims().collect();
        let columns = dims.pop();
        self.lies_so(dims, columns.map_or(1, |(_, stride)| stride))
    }

    /// How it lies with these dimensions, sizes and strides, of rows whose columns are so far apart.
    fn lies_so(&self, rows: impl IntoIterator<Item = (usize, usize)>, columns: usize) -> Lies {
        let Untyped { address, dtype, .. } = self.tensor;
        let aligned = |(size, stride): (usize, usize)| {
            size <= 1 || stride.wrapping_mul(dtype.bytes()).is_multiple_of(16)
        };
        let in_vectors = address.is_multiple_of(16) && columns == 1 && rows.into_iter().all(aligned);
        Lies { name: self.name, in_vectors, in_rows: columns == 1 }
    }

    /// The tensor as kernels take it, with dimensions of size 1 before its own.
    pub(in crate::ops) fn strided<const RANK: usize>(&self) -> Strided<RANK> {
        let Untyped { address, layout, .. } = self.tensor;
        let own = layout.strides();
        let first = RANK - own.len();
        Strided {
            address,
            strides: std::array::from_fn(|i| if i < first { 0 } else { own[i - first] as u64 }),
        }
    }
}

/// The elements of `N` tensors of one shape, as one launch or several take them.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Pieces<const N: usize> {
    pub(in crate::ops) operands: [Operand; N],
    /// From the outermost to that of the columns: three at least.
    runs: Vec<Run<N>>,
}

impl<const N: usize> Pieces<N> {
    /// Of tensors that have the same shape, whose elements may be taken in any order: in that of the last one's memory.
    pub(in crate::ops) fn flat(operands: [Operand; N]) -> Self {
        let mut dims: Vec<_> = (0..operands[0].tensor.layout.rank()).collect();
        dims.sort_by_key(|&dim| Reverse(operands[N - 1].tensor.layout.strides()[dim]));
        Self::of(operands, runs(&operands.map(|operand| operand.tensor.layout), dims))
    }

    /// Of tensors that have the same shape, of one dimension at least, with the last one's elements as columns.
    pub(in crate::ops) fn of_rows(operands: [Operand; N]) -> Self {
        let layouts = operands.map(|operand| operand.tensor.layout);
        let last = layouts[0].rank() - 1;
        let mut all = runs(&layouts, 0..last);
        all.push(Run::of(&layouts, last));
        Self::of(operands, all)
    }

    fn of(operands: [Operand; N], mut runs: Vec<Run<N>>) -> Self {
        while runs.len() < 3 {
            runs.insert(0, Run::ONE);
        }
        Pieces { operands, runs }
    }

    /// How the tensors lie.
    pub(in crate::ops) fn lies(&self) -> [Lies; N] {
        let (columns, rows) = (&self.runs[self.runs.len() - 1], &self.runs[..self.runs.len() - 1]);
        std::array::from_fn(|i| {
            self.operands[i].lies_so(rows.iter().map(|run| (run.size, run.strides[i])), columns.strides[i])
        })
    }

    /// Whether all columns of a row are one element, by tensor.
    pub(in crate::ops) fn repeats(&self) -> [bool; N] {
        self.runs[self.runs.len() - 1].strides.map(|stride| stride == 0)
    }

    /// How many elements behind a multiple of `piece` a tensor's rows begin: the first one, and how many more the next one of each dimension.
    fn begins(&self, tensor: usize, piece: usize) -> impl Iterator<Item = usize> {
        let Untyped { address, dtype, .. } = self.operands[tensor].tensor;
        let rows = self.runs[..self.runs.len() - 1].iter().filter(|run| run.size > 1);
        let steps = rows.map(move |run| run.strides[tensor] % piece);
        [address as usize / dtype.bytes() % piece].into_iter().chain(steps)
    }

    /// Whether each row of a tensor begins as many elements behind a multiple of `piece` as that of the last one.
    pub(in crate::ops) fn begins_as_last(&self, tensor: usize, piece: usize) -> bool {
        self.begins(tensor, piece).eq(self.begins(N - 1, piece))
    }

    /// Most elements that a row of the last tensor begins behind a multiple of `piece`.
    pub(in crate::ops) fn skew(&self, piece: usize) -> usize {
        let mut begins = self.begins(N - 1, piece);
        let first = begins.next().unwrap_or(0);
        if begins.all(|step| step == 0) { first } else { piece - 1 }
    }

    /// Elements of each tensor.
    pub(in crate::ops) fn elements(&self) -> usize {
        product(&self.runs)
    }

    /// Neighbouring columns.
    pub(in crate::ops) fn cols(&self) -> usize {
        self.runs[self.runs.len() - 1].size
    }

    fn outer(&self) -> &[Run<N>] {
        &self.runs[..self.runs.len() - 3]
    }

    /// Launches that it takes: one unless elements lie unevenly in more than three dimensions.
    pub(in crate::ops) fn launches(&self) -> usize {
        launches(self.outer())
    }

    /// The order of pieces of so many elements, of which the last one of a row has what is left, and the first one up to `skew` fewer.
    pub(in crate::ops) fn order(&self, piece: u32, skew: u32) -> Result<PieceOrder> {
        let sizes = &self.runs[self.runs.len() - 3..];
        let count = |size: usize| u32::try_from(size).ok();
        let [batch, rows, cols] = [sizes[0].size, sizes[1].size, sizes[2].size].map(count);
        let order = || {
            let order = PieceOrder::new([batch?, rows?, cols?.checked_add(skew)?.div_ceil(piece)])?;
            Some(order.ending(cols?, piece))
        };
        order().ok_or_else(|| {
            let was = format!("of {} elements", self.elements());
            let most = PieceOrder::<3>::MOST;
            Error::argument(self.operands[0].name, was, format!("of at most {most} pieces of {piece}"))
        })
    }

    /// The tensors of a launch.
    pub(in crate::ops) fn arguments(&self, launch: usize) -> [Strided<3>; N] {
        let at = offsets(self.outer(), launch);
        let inner = &self.runs[self.runs.len() - 3..];
        std::array::from_fn(|i| {
            let Untyped { address, dtype, .. } = self.operands[i].tensor;
            let strides = std::array::from_fn(|dim| inner[dim].strides[i] as u64);
            Strided { address: address + (at[i] * dtype.bytes()) as u64, strides }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::fake::{self, VAST};
    use crate::{TensorView, f16};

    fn operands(shape: &[usize], strides: [&[usize]; 2]) -> [Operand; 2] {
        let (device, _) = fake::h200();
        // SAFETY: nothing reads the memory of a fake device.
        let view = |strides| unsafe { TensorView::<f16>::from_raw_parts(&device, VAST, shape, strides) };
        strides.map(|strides| Operand { name: "x", tensor: view(strides).unwrap().untyped() })
    }

    #[test]
    fn what_lies_evenly_in_all_tensors_is_one_run() {
        let sizes = |shape: &[usize], strides| {
            let pieces = Pieces::flat(operands(shape, strides));
            (pieces.cols(), pieces.elements(), pieces.launches())
        };
        assert_eq!(sizes(&[2, 3, 4], [&[12, 4, 1]; 2]), (24, 24, 1));
        assert_eq!(sizes(&[2, 3, 4], [&[24, 8, 1], &[12, 4, 1]]), (4, 24, 1));
        assert_eq!(sizes(&[2, 3, 1], [&[3, 1, 1]; 2]), (6, 6, 1));
        assert_eq!(sizes(&[4, 5], [&[1, 4]; 2]), (20, 20, 1));
        assert_eq!(sizes(&[2, 3, 4, 5], [&[1, 200, 20, 3], &[60, 20, 5, 1]]), (5, 120, 2));
        assert_eq!(sizes(&[3, 0], [&[7, 1]; 2]).1, 0);
        assert_eq!(Pieces::of_rows(operands(&[2, 3, 1], [&[3, 1, 1]; 2])).cols(), 1);
    }

    #[test]
    fn launches_begin_where_their_elements_lie() {
        let pieces = Pieces::flat(operands(&[2, 3, 4, 5], [&[1, 200, 20, 3], &[60, 20, 5, 1]]));
        let [x, y] = pieces.arguments(1);
        assert_eq!((x.address - VAST, y.address - VAST), (2, 120));
        assert_eq!((x.strides, y.strides), ([200, 20, 3], [20, 5, 1]));
    }

    #[test]
    fn vectors_want_aligned_rows() {
        let lies = |shape: &[usize], strides: &[usize]| operands(shape, [strides; 2])[0].lies().in_vectors;
        assert!(lies(&[3, 16], &[16, 1]) && lies(&[1, 16], &[3, 1]));
        assert!(!lies(&[3, 16], &[17, 1]) && !lies(&[3, 16], &[16, 2]));
        // One behind the other: rows do not matter.
        assert!(Pieces::flat(operands(&[8, 17], [&[17, 1]; 2])).lies()[0].in_vectors);
    }
}
