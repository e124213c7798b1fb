//! A and B: random matrices anywhere in memory, with NaN in every element that is not theirs.

use tilewright::{Device, Result, Tensor, TensorView};
use tilewright_support::Real;
use tilewright_support::guarded::Place;
use tilewright_support::random::normal;
use tilewright_support::reference::Matrix;

/// A batch of input matrices on the host.
pub struct Values {
    shape: [usize; 3],
    matrices: Vec<Matrix>,
    /// Euclidean lengths of the rows of each matrix, and of its columns.
    lengths: Vec<[Vec<f64>; 2]>,
}

impl Values {
    /// These elements, in row-major order.
    pub fn new<T: Real>(shape: [usize; 3], elements: &[T]) -> Self {
        let [batch, rows, cols] = shape;
        let values = T::widen(elements);
        let parts: Vec<_> = (0..batch).map(|b| &values[b * rows * cols..(b + 1) * rows * cols]).collect();
        Self {
            shape,
            matrices: parts.iter().map(|part| Matrix::new(part, rows, cols)).collect(),
            lengths: parts.iter().map(|part| lengths(part, rows, cols)).collect(),
        }
    }

    /// Matrices, rows and columns.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// The matrix of this number, or the only one.
    pub fn matrix(&self, number: usize) -> &Matrix {
        &self.matrices[number.min(self.matrices.len() - 1)]
    }

    /// Lengths of the rows and of the columns of that matrix.
    pub fn lengths(&self, number: usize) -> &[Vec<f64>; 2] {
        &self.lengths[number.min(self.lengths.len() - 1)]
    }
}

/// The same on the device too.
pub struct Operand<T> {
    memory: Tensor<T>,
    place: Place,
    batched: bool,
    values: Values,
}

impl<T: Real> Operand<T> {
    /// Normal values, the same for the same seed and shape, wherever they lie; elements that share memory are equal.
    pub fn random(device: &Device, seed: u64, place: Place) -> Result<Self> {
        Self::new(device, place, &normal(seed, place.count()))
    }

    /// These elements, in row-major order.
    pub fn new(device: &Device, place: Place, elements: &[T]) -> Result<Self> {
        let block = place.scatter(elements);
        let memory = Tensor::from_slice(device, &block, &[block.len()])?;
        let values = Values::new(place.shape, &place.gather(&block));
        Ok(Self { memory, place, batched: place.shape[0] != 1, values })
    }

    /// With a batch dimension even if there is but one matrix.
    pub fn batched(self) -> Self {
        Self { batched: true, ..self }
    }

    /// Where the elements lie.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The elements.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The matrices, of 2 dimensions if there is one, else of 3.
    pub fn view(&self) -> Result<TensorView<'_, T>> {
        let Place { shape, strides, offset } = self.place;
        let address = self.memory.address() + (offset * size_of::<T>()) as u64;
        // SAFETY: the memory is this value's, which stays borrowed.
        let view = unsafe { TensorView::from_raw_parts(self.memory.device(), address, &shape, &strides) }?;
        if self.batched { Ok(view) } else { view.select(0, 0) }
    }
}

fn lengths(values: &[f32], rows: usize, cols: usize) -> [Vec<f64>; 2] {
    let mut squares = [vec![0.0; rows], vec![0.0; cols]];
    for (row, line) in values.chunks(cols.max(1)).enumerate() {
        for (col, &x) in line.iter().enumerate() {
            let square = f64::from(x) * f64::from(x);
            squares[0][row] += square;
            squares[1][col] += square;
        }
    }
    squares.map(|sums| sums.into_iter().map(f64::sqrt).collect())
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By rows.
    N,
    /// By columns.
    T,
}

/// The orders of A and B.
pub const LAYOUTS: [[Order; 2]; 4] =
    [[Order::N, Order::N], [Order::N, Order::T], [Order::T, Order::N], [Order::T, Order::T]];

impl Order {
    /// A place in this order, with `pitch(length)` elements from line to line.
    pub fn place(self, shape: [usize; 3], pitch: impl Fn(usize) -> usize) -> Place {
        match self {
            Order::N => Place::by_rows(shape, pitch(shape[2])),
            Order::T => Place::by_columns(shape, pitch(shape[1])),
        }
    }
}

/// A pitch that TMA can address, with room for poison behind every line.
pub fn padded(length: usize) -> usize {
    (length + 1).next_multiple_of(8)
}

/// No gap between lines.
pub fn packed(length: usize) -> usize {
    length
}
