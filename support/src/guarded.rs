//! Outputs that show whether a kernel stored outside of them.

use tilewright::{Device, Result, Tensor, TensorViewMut};

use crate::Real;

/// A batch of matrices inside a larger block of memory, all of it poisoned.
///
/// Every matrix has unused columns on its right, and unused rows in front of and behind it.
pub struct Guarded<T> {
    memory: Tensor<T>,
    shape: [usize; 3],
}

/// Unused rows on each side of a matrix.
const ROWS: usize = 2;

impl<T: Real> Guarded<T> {
    /// `batch` matrices of `rows` x `cols` with `pitch` elements from a row to the next.
    pub fn new(device: &Device, [batch, rows, cols]: [usize; 3], pitch: usize) -> Result<Self> {
        assert!(pitch >= cols, "rows of {cols} elements do not fit a pitch of {pitch}");
        let memory = Tensor::filled(device, T::POISON, &[batch, rows + 2 * ROWS, pitch])?;
        Ok(Self { memory, shape: [batch, rows, cols] })
    }

    /// The matrices, `[batch, rows, cols]`.
    pub fn view_mut(&mut self) -> Result<TensorViewMut<'_, T>> {
        let [_, rows, cols] = self.shape;
        self.memory.view_mut().narrow(1, ROWS, rows)?.narrow(2, 0, cols)
    }

    /// The matrices' elements, and how many elements outside of them were written.
    pub fn read(&self) -> Result<(Vec<T>, usize)> {
        let [_, rows, cols] = self.shape;
        let inside = self.memory.view().narrow(1, ROWS, rows)?.narrow(2, 0, cols)?.to_vec()?;
        let written = |data: &[T]| T::widen(data).iter().filter(|x| !x.is_nan()).count();
        Ok((inside.clone(), written(&self.memory.to_vec()?) - written(&inside)))
    }
}
