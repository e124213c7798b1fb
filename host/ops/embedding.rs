//! Rows of a table, by index.

use tilewright_pointwise::{EmbeddingArgs, Operator, Strided};

use super::frame::{Choice, Named, check, of_shape};
use super::pointwise::{Call, Lies, Operand, Options, Pieces, PointwiseCandidate, PointwisePlan, launch};
use super::{FloatElement, IndexElement};
use crate::tensor::Untyped;
use crate::{DType, Error, Result, Stream, TensorView, TensorViewMut};

/// y = table\[indices\], row by row: see [`Embedding`].
pub fn embedding<T: FloatElement, I: IndexElement>(
    stream: &Stream,
    table: &TensorView<'_, T>,
    indices: &TensorView<'_, I>,
    y: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    Embedding::new().run(stream, table, indices, y)
}

/// y = table\[indices\], row by row.
///
/// - table is \[rows, columns\]; indices, i32, u32 or i64, have 0 to 4 dimensions; y has theirs and the table's columns. Each has any strides.
/// - f16, bf16 and f32, copied bit by bit.
/// - An index that is negative or not below the table's rows gives a row of NaN: nothing is read out of bounds.
/// - No indices, or no columns: nothing is done. A launch takes up to 2³¹ - 2¹⁶ pieces of y: 16 bytes each, or single elements where rows
///   do not lie so. A table has fewer than 2³¹ rows with i32 indices, and than 2³² with others.
/// - Rows of the table and of y that are aligned to 16 bytes and multiples of that long are copied in vectors; all others are correct but
///   slower.
///
/// A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph).
///
/// ```
/// use tilewright::ops::embedding;
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let table = Tensor::<f32>::from_slice(&device, &[1.0, 2.0, 3.0, 4.0], &[2, 2])?;
/// let indices = Tensor::<i32>::from_slice(&device, &[1, 0, -1], &[3])?;
/// let mut y = Tensor::<f32>::zeros(&device, &[3, 2])?;
/// embedding(&device.default_stream(), &table.view(), &indices.view(), &mut y.view_mut())?;
/// let y = y.to_vec()?;
/// assert_eq!(y[..4], [3.0, 4.0, 1.0, 2.0]);
/// assert!(y[4].is_nan() && y[5].is_nan());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Embedding<'a> {
    options: Options<'a>,
}

impl Default for Embedding<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// y and the indices, which repeat along its columns; and the table.
struct Problem {
    pieces: Pieces<2>,
    table: Operand,
}

impl<'a> Embedding<'a> {
    /// y = table\[indices\].
    pub fn new() -> Self {
        Embedding { options: Options::DEFAULT }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Embedding { options: Options { kernel: Some(name), ..self.options } }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Embedding { options: Options { overlap, ..self.options } }
    }

    /// Every compiled kernel, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<T: FloatElement, I: IndexElement>(
        &self,
        table: &TensorView<'_, T>,
        indices: &TensorView<'_, I>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Vec<PointwiseCandidate>> {
        let problem = problem(table, indices, y)?;
        Ok(problem.call(y, &problem.lies()).candidates())
    }

    /// The kernel that [`run`](Self::run) would launch, and why.
    pub fn plan<T: FloatElement, I: IndexElement>(
        &self,
        table: &TensorView<'_, T>,
        indices: &TensorView<'_, I>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<PointwisePlan> {
        let problem = problem(table, indices, y)?;
        problem.call(y, &problem.lies()).choose(self.options.kernel)
    }

    /// Queues it on `stream`.
    ///
    /// Fails when shapes do not fit, a view lies on another device, or y overlaps the table or the indices.
    pub fn run<T: FloatElement, I: IndexElement>(
        &self,
        stream: &Stream,
        table: &TensorView<'_, T>,
        indices: &TensorView<'_, I>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let problem = problem(table, indices, y)?;
        stream.expect_on(y.device())?;
        if problem.pieces.elements() == 0 {
            return Ok(());
        }
        let kernel = problem.call(y, &problem.lies()).choose(self.options.kernel)?.descriptor();
        let width = T::DTYPE.bytes();
        let order = problem.pieces.order(kernel.bytes / width as u32, 0)?;
        let work = (order.total(), kernel.each);
        let (function, grid) = launch(y.device(), kernel, work, self.options.overlap)?;
        // Vectors have elements of 4 bytes, whatever is copied.
        let unit = (kernel.bytes / kernel.piece) as usize;
        let strides = |strides: &mut [u64]| {
            if let Some((_, rows)) = strides.split_last_mut() {
                rows.iter_mut().for_each(|stride| *stride = stride.wrapping_mul(width as u64) / unit as u64);
            }
        };
        let mut rows: Strided<2> = problem.table.strided();
        strides(&mut rows.strides);
        for number in 0..problem.pieces.launches() {
            let [mut to, indices] = problem.pieces.arguments(number);
            strides(&mut to.strides);
            let [batch, row, _] = indices.strides;
            let indices = Strided { address: indices.address, strides: [batch, row] };
            let (count, outside) = (table.shape()[0] as u32, nan(T::DTYPE));
            let index_bytes = I::DTYPE.bytes() as u32;
            let args = EmbeddingArgs { table: rows, indices, y: to, order, count, outside, index_bytes };
            // SAFETY: the arguments are those of `embedding`. The views that they come from are borrowed by the caller, y exclusively; y has the
            // pieces that the order counts, the table `count` rows of as many columns, and both lie as the kernel was chosen by.
            // Programmatic launch only moves what precedes the wait for the preceding grid.
            unsafe { function.launch_block(stream, &grid, &args)? };
        }
        Ok(())
    }
}

impl Problem {
    /// How the table and y lie.
    fn lies(&self) -> [Lies; 2] {
        [self.table.lies(), self.pieces.lies()[0]]
    }

    fn call<'a, T: FloatElement>(&self, y: &'a TensorViewMut<'_, T>, tensors: &'a [Lies]) -> Call<'a> {
        Call {
            device: y.device(),
            operator: Operator::Embedding,
            element: T::DTYPE.name(),
            copies: true,
            width: T::DTYPE.bytes(),
            tensors,
            runs: vec![self.pieces.cols()],
            columns: self.pieces.cols(),
            elements: self.pieces.elements().saturating_mul(2),
        }
    }
}

/// The bits of a NaN, twice where it has 16.
fn nan(dtype: DType) -> u32 {
    match dtype {
        DType::F16 => 0x7e00_7e00,
        DType::BF16 => 0x7fc0_7fc0,
        _ => f32::NAN.to_bits(),
    }
}

/// Checks that the tensors fit together.
fn problem<T: FloatElement, I: IndexElement>(
    table: &TensorView<'_, T>,
    indices: &TensorView<'_, I>,
    y: &TensorViewMut<'_, T>,
) -> Result<Problem> {
    let &[count, cols] = table.shape() else {
        return Err(Error::argument("table", of_shape(table.shape()), "of 2 dimensions"));
    };
    let most = if I::DTYPE == DType::I32 { i32::MAX as u32 } else { u32::MAX };
    if count > most as usize {
        let allowed = format!("of at most {most} rows where indices are {}", I::DTYPE.name());
        return Err(Error::argument("table", of_shape(table.shape()), allowed));
    }
    let expected: Vec<usize> = indices.shape().iter().copied().chain([cols]).collect();
    if y.shape() != expected {
        let allowed = format!("{}: that of `indices`, and the columns of `table`", of_shape(&expected));
        return Err(Error::argument("y", of_shape(y.shape()), allowed));
    }
    let named = [Named::read("table", table), Named::read("indices", indices), Named::written("y", y)];
    check(y.device(), named)?;
    let tensor = indices.untyped();
    let layout = tensor.layout.insert(tensor.layout.rank())?.broadcast(&expected)?;
    let indices = Operand { name: "indices", tensor: Untyped { layout, ..tensor } };
    let pieces = Pieces::of_rows([Operand { name: "y", tensor: y.untyped() }, indices]);
    Ok(Problem { pieces, table: Operand { name: "table", tensor: table.untyped() } })
}
