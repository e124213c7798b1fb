//! Tensors that lie anywhere in memory, with poison in every element that is not theirs.

use tilewright::{Device, Element, F8E4M3, F8E5M2, Result, Tensor, TensorView, TensorViewMut, bf16, f16};

use crate::random::Random;

/// An element type with a value that nothing computes.
pub trait Number: Element {
    const POISON: Self;
    fn is_poison(self) -> bool;
}

macro_rules! numbers {
    ($($t:ty, $poison:expr, $is:expr;)*) => { $(
        impl Number for $t {
            const POISON: Self = $poison;
            fn is_poison(self) -> bool {
                let is: fn($t) -> bool = $is;
                is(self)
            }
        }
    )* };
}
numbers! {
    f16, f16::NAN, f16::is_nan;
    bf16, bf16::NAN, bf16::is_nan;
    f32, f32::NAN, f32::is_nan;
    F8E4M3, F8E4M3::from_bits(0xff), |x| x.to_bits() == 0xff;
    F8E5M2, F8E5M2::from_bits(0xff), |x| x.to_bits() == 0xff;
    i32, i32::MIN + 12345, |x| x == i32::MIN + 12345;
    i8, -77, |x| x == -77;
    u8, 0xff, |x| x == 0xff;
    u32, 0x8765_4321, |x| x == 0x8765_4321;
    i64, i64::MIN + 12345, |x| x == i64::MIN + 12345;
}

/// Unused elements in front of a tensor and behind it.
const MARGIN: usize = 64;

/// Where the elements of a tensor lie in a block of memory.
#[derive(Clone, Debug)]
pub struct Place {
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
    pub offset: usize,
}

impl Place {
    /// Row-major, without gaps.
    pub fn packed(shape: &[usize]) -> Self {
        Self::nested(shape, (0..shape.len()).collect(), |next| next)
    }

    /// Dimensions in this order from the outermost on; `gap` makes the stride of one from what lies inside it.
    fn nested(shape: &[usize], order: Vec<usize>, mut gap: impl FnMut(usize) -> usize) -> Self {
        let (mut strides, mut next) = (vec![0; shape.len()], 1);
        for (inside, dim) in order.into_iter().rev().enumerate() {
            strides[dim] = if inside == 0 { next } else { gap(next) };
            next = strides[dim] * shape[dim].max(1);
        }
        Self { shape: shape.to_vec(), strides, offset: MARGIN }
    }

    /// Anywhere: dimensions in any order, gaps between lines, any offset; mostly what fast kernels read.
    pub fn any(random: &mut Random, shape: &[usize]) -> Self {
        let order = if random.one_in(3) { random.shuffled(shape.len()) } else { (0..shape.len()).collect() };
        let gaps = random.below(4);
        let apart = if random.one_in(8) { 2 } else { 1 };
        let mut place = Self::nested(shape, order, |next| match gaps {
            0 => next,
            1 => next + random.below(4),
            _ => (next + random.below(2)).next_multiple_of(8),
        });
        place.strides.iter_mut().for_each(|stride| *stride *= apart);
        place.offset += random.pick(&[0, 0, 0, 8, 16, 1, 3]);
        place.loosen(random);
        place
    }

    /// With a contiguous last dimension in lines that begin at multiples of 8 elements, `even` dimensions before it being evenly
    /// spaced.
    pub fn lines(random: &mut Random, shape: &[usize], even: usize) -> Self {
        let rank = shape.len();
        let mut inside = 0;
        let gaps = [8 * random.below(3), 8 * random.below(2)];
        let mut place = Self::nested(shape, (0..rank).collect(), |next| {
            inside += 1;
            match inside {
                1 => next.next_multiple_of(8) + gaps[0],
                _ if inside <= even => next,
                _ => next + gaps[1],
            }
        });
        place.offset += 8 * random.below(3);
        place
    }

    /// Gives dimensions of size 1 any stride: it means nothing.
    fn loosen(&mut self, random: &mut Random) {
        for (stride, _) in self.strides.iter_mut().zip(&self.shape).filter(|(_, size)| **size == 1) {
            if random.one_in(6) {
                *stride = random.pick(&[0, 1, 5, usize::MAX, usize::MAX / 3, 1 << 40]);
            }
        }
    }

    /// With elements that repeat along a dimension.
    pub fn repeating(mut self, dim: usize) -> Self {
        self.strides[dim] = 0;
        self
    }

    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    fn extent(&self) -> usize {
        let last = |(&n, &s): (&usize, &usize)| if n > 1 { (n - 1) * s } else { 0 };
        1 + self.shape.iter().zip(&self.strides).map(last).sum::<usize>()
    }

    pub fn block(&self) -> usize {
        self.offset + self.extent() + MARGIN
    }

    /// The places of the elements, in row-major order.
    pub fn offsets(&self) -> Vec<usize> {
        let mut all = vec![self.offset];
        for (&n, &s) in self.shape.iter().zip(&self.strides) {
            all =
                all.iter().flat_map(|&at| (0..n).map(move |i| at + if i > 0 { i * s } else { 0 })).collect();
        }
        all
    }
}

/// A tensor at its place on a device.
pub struct Placed<T> {
    memory: Tensor<T>,
    pub place: Place,
}

impl<T: Number> Placed<T> {
    /// These elements, in row-major order; of those that share memory the last counts: see [`values`](Self::values).
    pub fn new(device: &Device, place: Place, elements: &[T]) -> Result<Self> {
        let mut block = vec![T::POISON; place.block()];
        place.offsets().into_iter().zip(elements).for_each(|(at, &x)| block[at] = x);
        Ok(Self { memory: Tensor::from_slice(device, &block, &[block.len()])?, place })
    }

    pub fn poisoned(device: &Device, place: Place) -> Result<Self> {
        Ok(Self { memory: Tensor::filled(device, T::POISON, &[place.block()])?, place })
    }

    fn address(&self) -> u64 {
        self.memory.address() + (self.place.offset * size_of::<T>()) as u64
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

    /// The elements in row-major order.
    pub fn values(&self) -> Result<Vec<T>> {
        let block = self.memory.to_vec()?;
        Ok(self.place.offsets().into_iter().map(|at| block[at]).collect())
    }

    /// The whole block, as what it is compared by: poison equals itself.
    pub fn bits(&self) -> Result<Vec<Option<T>>> {
        Ok(self.memory.to_vec()?.into_iter().map(|x| (!x.is_poison()).then_some(x)).collect())
    }

    /// The elements; an error if anything outside of them was written.
    pub fn read(&self) -> Result<Vec<T>, String> {
        let block = self.memory.to_vec().map_err(|error| error.to_string())?;
        let offsets = self.place.offsets();
        let mut own = vec![false; block.len()];
        offsets.iter().for_each(|&at| own[at] = true);
        match (0..block.len()).find(|&at| !own[at] && !block[at].is_poison()) {
            None => Ok(offsets.into_iter().map(|at| block[at]).collect()),
            Some(at) => Err(format!("{:?} was written outside of the view, at {at}", block[at])),
        }
    }

    /// An error if anything was written.
    pub fn untouched(&self) -> Result<(), String> {
        let block = self.memory.to_vec().map_err(|error| error.to_string())?;
        match block.iter().position(|x| !x.is_poison()) {
            None => Ok(()),
            Some(at) => Err(format!("a refused call wrote {:?} at {at}", block[at])),
        }
    }
}
