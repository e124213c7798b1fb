//! Matrices in device memory with poison around and between their elements: reads and stores outside of them show.

use tilewright::{Device, Result, Tensor, TensorView, TensorViewMut};

use crate::Real;

/// Where the elements of a batch of matrices lie in a block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Matrices, rows and columns.
    pub shape: [usize; 3],
    /// Elements between neighbours in each of these dimensions.
    pub strides: [usize; 3],
    /// Unused elements in front of the first.
    pub offset: usize,
}

/// Unused lines in front of a matrix and behind it.
const LINES: usize = 2;
/// Elements whose size is a multiple of every alignment that kernels care for.
const ALIGNED: usize = 64;

impl Place {
    /// Rows of `pitch` elements; the first begins where every kernel can read it.
    pub fn by_rows([batch, rows, cols]: [usize; 3], pitch: usize) -> Self {
        assert!(pitch >= cols, "rows of {cols} elements do not fit a pitch of {pitch}");
        let strides = [(rows + LINES) * pitch, pitch, 1];
        Self { shape: [batch, rows, cols], strides, offset: (LINES * pitch).next_multiple_of(ALIGNED) }
    }

    /// Columns of `pitch` elements.
    pub fn by_columns([batch, rows, cols]: [usize; 3], pitch: usize) -> Self {
        let Self { strides: [matrix, col, row], offset, .. } = Self::by_rows([batch, cols, rows], pitch);
        Self { shape: [batch, rows, cols], strides: [matrix, row, col], offset }
    }

    /// So many elements further on.
    pub fn shifted(self, elements: usize) -> Self {
        Self { offset: self.offset + elements, ..self }
    }

    /// With other strides.
    pub fn strided(self, strides: [usize; 3]) -> Self {
        Self { strides, ..self }
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Elements of the whole block, with unused ones behind the last.
    pub fn block(&self) -> usize {
        let extent =
            self.shape.iter().zip(self.strides).map(|(&n, s)| n.saturating_sub(1) * s).sum::<usize>();
        let line = self.strides.iter().copied().filter(|&s| s <= extent).max().unwrap_or(0);
        self.offset + extent + 1 + (LINES * line).clamp(ALIGNED, 1 << 16)
    }

    fn rows(&self) -> impl Iterator<Item = usize> {
        let Self { shape: [batch, rows, _], strides: [matrix, row, _], offset } = *self;
        (0..batch).flat_map(move |b| (0..rows).map(move |r| offset + b * matrix + r * row))
    }

    /// The elements of a block, in row-major order.
    pub fn gather<T: Copy>(&self, block: &[T]) -> Vec<T> {
        let mut out = Vec::with_capacity(self.count());
        let (cols, step) = (self.shape[2], self.strides[2]);
        for start in self.rows() {
            match step {
                1 => out.extend_from_slice(&block[start..start + cols]),
                _ => out.extend((0..cols).map(|c| block[start + c * step])),
            }
        }
        out
    }

    /// A block with these elements, and poison everywhere else.
    pub fn scatter<T: Real>(&self, elements: &[T]) -> Vec<T> {
        assert_eq!(elements.len(), self.count(), "as many elements as the place has");
        let mut block = vec![T::POISON; self.block()];
        let (cols, step) = (self.shape[2], self.strides[2]);
        for (start, row) in self.rows().zip(elements.chunks(cols.max(1))) {
            match step {
                1 => block[start..start + cols].copy_from_slice(row),
                _ => row.iter().enumerate().for_each(|(c, &x)| block[start + c * step] = x),
            }
        }
        block
    }
}

/// A batch of matrices inside a larger block of memory, which is poisoned everywhere else.
pub struct Guarded<T> {
    memory: Tensor<T>,
    place: Place,
}

impl<T: Real> Guarded<T> {
    /// `batch` matrices of `rows` x `cols` with `pitch` elements from a row to the next, poisoned too.
    pub fn new(device: &Device, shape: [usize; 3], pitch: usize) -> Result<Self> {
        Self::at(device, Place::by_rows(shape, pitch))
    }

    /// Matrices at this place, poisoned too.
    pub fn at(device: &Device, place: Place) -> Result<Self> {
        Ok(Self { memory: Tensor::filled(device, T::POISON, &[place.block()])?, place })
    }

    /// Matrices with these elements, in row-major order.
    pub fn with(device: &Device, place: Place, elements: &[T]) -> Result<Self> {
        let memory = Tensor::from_slice(device, &place.scatter(elements), &[place.block()])?;
        Ok(Self { memory, place })
    }

    /// Gives the matrices other elements. Waits for all work on the device.
    pub fn write(&mut self, elements: &[T]) -> Result<()> {
        self.memory.write(&self.place.scatter(elements))
    }

    fn address(&self) -> u64 {
        self.memory.address() + (self.place.offset * size_of::<T>()) as u64
    }

    /// The matrices, `[batch, rows, cols]`.
    pub fn view(&self) -> Result<TensorView<'_, T>> {
        let Place { shape, strides, .. } = self.place;
        // SAFETY: the memory is this value's, which stays borrowed.
        unsafe { TensorView::from_raw_parts(self.memory.device(), self.address(), &shape, &strides) }
    }

    /// The matrices, `[batch, rows, cols]`, to be written.
    pub fn view_mut(&mut self) -> Result<TensorViewMut<'_, T>> {
        let Place { shape, strides, .. } = self.place;
        // SAFETY: the memory is this value's, which stays borrowed mutably.
        unsafe { TensorViewMut::from_raw_parts(self.memory.device(), self.address(), &shape, &strides) }
    }

    /// The matrices' elements in row-major order, and how many elements outside of them were written.
    pub fn read(&self) -> Result<(Vec<T>, usize)> {
        let block = self.memory.to_vec()?;
        let inside = self.place.gather(&block);
        let written = |data: &[T]| T::widen(data).iter().filter(|x| !x.is_nan()).count();
        let outside = written(&block) - written(&inside);
        Ok((inside, outside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_go_to_their_places_and_come_back() {
        let rows = Place::by_rows([2, 3, 4], 5);
        let columns = Place::by_columns([2, 3, 4], 7).shifted(1);
        let sparse = rows.strided([100, 20, 3]);
        let elements: Vec<f32> = (0..24).map(|x| x as f32).collect();
        for place in [rows, columns, sparse] {
            let block = place.scatter(&elements);
            assert_eq!(place.gather(&block), elements);
            assert_eq!(block.iter().filter(|x| !x.is_nan()).count(), 24);
            let last: usize = place.shape.iter().zip(place.strides).map(|(n, s)| (n - 1) * s).sum();
            assert_eq!((block[place.offset], block[place.offset + last]), (0.0, 23.0));
            assert!(block.len() > place.offset + last + ALIGNED);
        }
        assert_eq!(columns.strides, [42, 1, 7]);
    }

    #[test]
    fn empty_places_have_blocks_too() {
        let place = Place::by_rows([2, 0, 4], 8);
        assert!(place.block() >= ALIGNED && place.scatter::<f32>(&[]).iter().all(|x| x.is_nan()));
        assert!(place.gather(&place.scatter::<f32>(&[])).is_empty());
        assert!(Place::by_rows([1, 3, 0], 0).gather(&[0.0; 100]).is_empty());
    }
}
