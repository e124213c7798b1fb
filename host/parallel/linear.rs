//! Linear layers whose weights are divided among ranks.

use super::communicator::expect_contiguous;
use super::estimate::Layer;
use super::transport::Share;
use super::{Chunks, Communicator};
use crate::ops::{Gemm, HalfElement};
use crate::{Error, Result, Stream, TensorView, TensorViewMut};

/// Y = act(X W + bias) of which each rank has some columns, its part of W's: without communication if X is on all ranks, which
/// [`Gemm`] alone computes; else X is gathered.
pub struct ColumnParallel<'a, T> {
    gemm: Gemm<'a, T>,
}

/// Y = X W + bias, of which each rank has some of the depth: rows of W and columns of X, such as those that a [`ColumnParallel`] layer gave. Sums over
/// ranks are rounded to Y's type before they are added and after.
pub struct RowParallel<'a, T> {
    gemm: Gemm<'a, T>,
}

impl<'a, T: HalfElement> ColumnParallel<'a, T> {
    /// With what `gemm` does beside the product.
    pub fn new(gemm: Gemm<'a, T>) -> Self {
        ColumnParallel { gemm }
    }

    /// Gathers X and multiplies, chunk by chunk: `part` is \[M / ranks, K\], this rank's rows of X by [`Chunks::of_rank`]; X is \[M, K\] and may hold
    /// anything; W is \[K, this rank's N\], Y \[M, this rank's N\]. While a chunk is multiplied the next one is gathered.
    ///
    /// # Errors
    /// If shapes do not fit, part and X are not contiguous, ranks do not agree, or NCCL fails.
    #[expect(clippy::too_many_arguments, reason = "a group, a stream, rows in chunks, and four tensors")]
    pub fn run_gathered(
        &self,
        communicator: &mut Communicator,
        stream: &Stream,
        chunks: &Chunks,
        part: &TensorView<'_, T>,
        x: &mut TensorViewMut<'_, T>,
        w: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let ranks = communicator.ranks();
        chunks.of_rank(communicator.rank(), ranks)?;
        expect_product(chunks.rows(), ("x", x.shape()), w.shape(), ("y", y.shape()))?;
        let [_, depth] = matrix("x", x.shape())?;
        expect_shape("part", part.shape(), [chunks.rows() / ranks, depth])?;
        expect_contiguous(part.is_contiguous(), "part", part.shape(), part.strides())?;
        expect_contiguous(x.is_contiguous(), "x", x.shape(), x.strides())?;
        let gemm = beside(&self.gemm, communicator, chunks);
        mark(communicator, stream)?;
        for (i, rows) in chunks.ranges().enumerate() {
            // Nothing runs beside the first.
            let share = if i == 0 { Share::Alone } else { Share::Beside };
            let len = rows.len() / ranks;
            let own = part.clone().narrow(0, rows.start / ranks, len)?;
            let mut all = x.reborrow().narrow(0, rows.start, rows.len())?;
            aside(communicator, |communicator, beside| {
                communicator.all_gather_in(share, beside, &own, &mut all)
            })?;
            communicator.beside.stream.record(&communicator.beside.done)?;
            stream.wait(&communicator.beside.done)?;
            let mut out = y.reborrow().narrow(0, rows.start, rows.len())?;
            gemm.run(stream, &all.as_view(), w, &mut out)?;
        }
        Ok(())
    }
}

impl<'a, T: HalfElement> RowParallel<'a, T> {
    /// With alpha and bias of `gemm`: rank 0 alone adds the bias. An activation is none of this layer's, since it would come before the sum.
    pub fn new(gemm: Gemm<'a, T>) -> Self {
        RowParallel { gemm }
    }

    /// The chunks by which [`run`](Self::run) of matrices like these takes the least time, by estimate: so many that a chunk's collective, on its few SMs, hides
    /// under the next one's product, and of rows that fill waves of tiles; one where that costs more than it hides.
    ///
    /// # Errors
    /// If the matrices do not fit together.
    pub fn chunks(
        &self,
        communicator: &Communicator,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Chunks> {
        Layer { gemm: self.gemm.without_bias(), x, w, y }.chunks(communicator)
    }

    /// The sums on all ranks: X is \[M, this rank's K\], W \[this rank's K, N\], Y \[M, N\], contiguous. While a chunk is multiplied the one before it
    /// is added up.
    ///
    /// # Errors
    /// If shapes do not fit, Y is not contiguous, the product has an activation or a beta, ranks do not agree, or NCCL fails.
    pub fn run(
        &self,
        communicator: &mut Communicator,
        stream: &Stream,
        chunks: &Chunks,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        expect_contiguous(y.is_contiguous(), "y", y.shape(), y.strides())?;
        let sum =
            |communicator: &mut Communicator, beside: &Stream, mut sums: TensorViewMut<'_, T>, _, share| {
                communicator.all_reduce_in(share, beside, &mut sums)
            };
        self.run_with(communicator, stream, chunks, (x, w, ("y", y)), sum)
    }

    /// A part of the sums on each rank: `sums` is \[M, N\] and may hold anything, Y \[M / ranks, N\] this rank's rows by [`Chunks::of_rank`]; all else as
    /// of [`run`](Self::run).
    ///
    /// # Errors
    /// As of [`run`](Self::run), and if a chunk's rows are no multiple of the ranks.
    #[expect(clippy::too_many_arguments, reason = "a group, a stream, rows in chunks, and four tensors")]
    pub fn run_scattered(
        &self,
        communicator: &mut Communicator,
        stream: &Stream,
        chunks: &Chunks,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        sums: &mut TensorViewMut<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let ranks = communicator.ranks();
        chunks.of_rank(communicator.rank(), ranks)?;
        let [_, columns] = matrix("sums", sums.shape())?;
        expect_shape("y", y.shape(), [chunks.rows() / ranks, columns])?;
        expect_contiguous(sums.is_contiguous(), "sums", sums.shape(), sums.strides())?;
        expect_contiguous(y.is_contiguous(), "y", y.shape(), y.strides())?;
        let sum = |communicator: &mut Communicator,
                   beside: &Stream,
                   sums: TensorViewMut<'_, T>,
                   first: usize,
                   share| {
            let mut own = y.reborrow().narrow(0, first / ranks, sums.shape()[0] / ranks)?;
            communicator.reduce_scatter_in(share, beside, &sums.as_view(), &mut own)
        };
        self.run_with(communicator, stream, chunks, (x, w, ("sums", sums)), sum)
    }

    /// Multiplies chunk by chunk; `sum` adds up the one that begins at a row.
    fn run_with(
        &self,
        communicator: &mut Communicator,
        stream: &Stream,
        chunks: &Chunks,
        (x, w, (name, sums)): (
            &TensorView<'_, T>,
            &TensorView<'_, T>,
            (&'static str, &mut TensorViewMut<'_, T>),
        ),
        mut sum: impl FnMut(&mut Communicator, &Stream, TensorViewMut<'_, T>, usize, Share) -> Result<()>,
    ) -> Result<()> {
        self.gemm.expect_plain_sum()?;
        expect_product(chunks.rows(), ("x", x.shape()), w.shape(), (name, sums.shape()))?;
        let gemm = beside(&self.gemm, communicator, chunks);
        let gemm = if communicator.rank() == 0 { gemm } else { gemm.without_bias() };
        for (i, rows) in chunks.ranges().enumerate() {
            // Nothing runs beside the last.
            let share = if i + 1 == chunks.count() { Share::Alone } else { Share::Beside };
            let x = x.clone().narrow(0, rows.start, rows.len())?;
            let mut out = sums.reborrow().narrow(0, rows.start, rows.len())?;
            gemm.run(stream, &x, w, &mut out)?;
            mark(communicator, stream)?;
            aside(communicator, |communicator, beside| sum(communicator, beside, out, rows.start, share))?;
        }
        communicator.beside.stream.record(&communicator.beside.done)?;
        stream.wait(&communicator.beside.done)
    }
}

/// The product, on the SMs that collectives beside it leave.
fn beside<'a, T: HalfElement>(
    gemm: &Gemm<'a, T>,
    communicator: &Communicator,
    chunks: &Chunks,
) -> Gemm<'a, T> {
    match chunks.count() > 1 && communicator.ranks() > 1 {
        true => gemm.sms(communicator.sms_beside()[0]),
        false => *gemm,
    }
}

/// Lets what is put beside the stream from now on wait for what is on it.
fn mark(communicator: &Communicator, stream: &Stream) -> Result<()> {
    stream.record(&communicator.beside.ready)?;
    communicator.beside.stream.wait(&communicator.beside.ready)
}

/// A collective on the communicator's own stream.
fn aside(
    communicator: &mut Communicator,
    collective: impl FnOnce(&mut Communicator, &Stream) -> Result<()>,
) -> Result<()> {
    let stream = communicator.beside.stream.alias();
    collective(communicator, &stream)
}

/// Checks that X W is Y, with as many rows as the chunks have.
fn expect_product(
    rows: usize,
    (name_x, x): (&'static str, &[usize]),
    w: &[usize],
    (name_y, y): (&'static str, &[usize]),
) -> Result<()> {
    let ([_, depth], [_, columns]) = (matrix(name_x, x)?, matrix("w", w)?);
    expect_shape(name_x, x, [rows, depth])?;
    expect_shape("w", w, [depth, columns])?;
    expect_shape(name_y, y, [rows, columns])
}

fn matrix(name: &'static str, shape: &[usize]) -> Result<[usize; 2]> {
    shape.try_into().map_err(|_| Error::argument(name, format!("of shape {shape:?}"), "a matrix"))
}

fn expect_shape(name: &'static str, shape: &[usize], allowed: [usize; 2]) -> Result<()> {
    if shape == allowed {
        return Ok(());
    }
    let allowed = format!("of shape {allowed:?}, by the chunks and the other matrices");
    Err(Error::argument(name, format!("of shape {shape:?}"), allowed))
}
