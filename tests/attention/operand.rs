//! Tensors [batch, heads, length, head dimension] that lie in memory as views do, with NaN in every element that is not theirs.

use tilewright::{Device, Result, Tensor, TensorView, TensorViewMut};
use tilewright_support::Real;

/// Unused elements in front of the first and behind the last.
const MARGIN: usize = 1024;

/// Where the elements of a tensor lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub shape: [usize; 4],
    pub strides: [usize; 4],
    /// Elements in front of the first, beside the margin.
    pub shift: usize,
}

impl Place {
    /// The dimensions from the outermost to the innermost, and unused elements behind every line of the innermost.
    pub fn ordered(shape: [usize; 4], order: [usize; 4], gap: usize) -> Self {
        let (mut strides, mut next) = ([0; 4], 1);
        for (at, &dim) in order.iter().rev().enumerate() {
            strides[dim] = next;
            next *= shape[dim].max(1);
            if at == 0 {
                next += gap;
            }
        }
        Place { shape, strides, shift: 0 }
    }

    /// [batch, heads, length, head dimension], packed.
    pub fn bhsd(shape: [usize; 4]) -> Self {
        Self::ordered(shape, [0, 1, 2, 3], 0)
    }

    /// [batch, length, heads, head dimension], packed.
    pub fn bshd(shape: [usize; 4]) -> Self {
        Self::ordered(shape, [0, 2, 1, 3], 0)
    }

    /// So many elements further on.
    pub fn shifted(self, shift: usize) -> Self {
        Place { shift, ..self }
    }

    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    fn block(&self) -> usize {
        let extent: usize = self.shape.iter().zip(self.strides).map(|(n, s)| n.saturating_sub(1) * s).sum();
        2 * MARGIN + self.shift + extent + 1
    }

    /// The places of the elements, in row-major order.
    fn offsets(&self) -> impl Iterator<Item = usize> {
        let Place { shape: [batch, heads, length, columns], strides, shift } = *self;
        (0..batch * heads * length * columns).map(move |i| {
            let index = [
                i / columns / length / heads,
                i / columns / length % heads,
                i / columns % length,
                i % columns,
            ];
            MARGIN + shift + index.iter().zip(strides).map(|(i, s)| i * s).sum::<usize>()
        })
    }
}

/// A tensor at its place on a device.
pub struct Operand<T> {
    memory: Tensor<T>,
    pub place: Place,
}

impl<T: Real> Operand<T> {
    /// These elements, in row-major order; those that share memory should be equal.
    pub fn new(device: &Device, place: Place, elements: &[T]) -> Result<Self> {
        assert_eq!(elements.len(), place.count(), "as many elements as the place has");
        let mut block = vec![T::POISON; place.block()];
        place.offsets().zip(elements).for_each(|(at, &x)| block[at] = x);
        Ok(Self { memory: Tensor::from_slice(device, &block, &[block.len()])?, place })
    }

    /// Poisoned elements.
    pub fn poisoned(device: &Device, place: Place) -> Result<Self> {
        Ok(Self { memory: Tensor::filled(device, T::POISON, &[place.block()])?, place })
    }

    fn address(&self) -> u64 {
        self.memory.address() + ((MARGIN + self.place.shift) * size_of::<T>()) as u64
    }

    pub fn view(&self) -> Result<TensorView<'_, T>> {
        let Place { shape, strides, .. } = &self.place;
        // SAFETY: the memory is this value's, which stays borrowed.
        unsafe { TensorView::from_raw_parts(self.memory.device(), self.address(), shape, strides) }
    }

    pub fn view_mut(&mut self) -> Result<TensorViewMut<'_, T>> {
        let Place { shape, strides, .. } = &self.place;
        // SAFETY: the memory is this value's, which stays borrowed mutably.
        unsafe { TensorViewMut::from_raw_parts(self.memory.device(), self.address(), shape, strides) }
    }

    /// The elements in row-major order, and how many elements outside of them were written.
    pub fn read(&self) -> Result<(Vec<T>, usize)> {
        let block = self.memory.to_vec()?;
        let inside: Vec<T> = self.place.offsets().map(|at| block[at]).collect();
        let written = |data: &[T]| T::widen(data).iter().filter(|x| !x.is_nan()).count();
        let outside = written(&block) - written(&inside);
        Ok((inside, outside))
    }
}
