//! Biases of every shape that broadcasts.

use tilewright::{Device, Result, TensorView};
use tilewright_support::Real;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;

/// A random bias, on the device and on the host.
pub struct Bias<U> {
    memory: Guarded<U>,
    values: Vec<f32>,
    /// With ones in front, up to three dimensions.
    shape: [usize; 3],
    rank: usize,
    step: usize,
}

impl<U: Real> Bias<U> {
    /// Of this shape, its elements `step` apart.
    pub fn new(device: &Device, shape: &[usize], step: usize) -> Result<Self> {
        let rank = shape.len();
        let mut full = [1; 3];
        full[3 - rank..].copy_from_slice(shape);
        let [_, rows, cols] = full;
        let place = Place::by_rows(full, cols).strided([rows * cols * step, cols * step, step]);
        let elements = normal::<U>(77, place.count());
        let values = U::widen(&elements);
        Ok(Self { memory: Guarded::with(device, place, &elements)?, values, shape: full, rank, step })
    }

    /// Its dimensions, and how far apart its elements are.
    pub fn form(&self) -> ([usize; 3], usize, usize) {
        (self.shape, self.rank, self.step)
    }

    /// Its view, of its own rank.
    pub fn view(&self) -> Result<TensorView<'_, U>> {
        (self.rank..3).try_fold(self.memory.view()?, |view, _| view.select(0, 0))
    }

    /// What it adds to C's element at `place`.
    pub fn at(&self, place: [usize; 3]) -> f64 {
        let clamp = |dim: usize| place[dim].min(self.shape[dim] - 1);
        let [_, rows, cols] = self.shape;
        f64::from(self.values[(clamp(0) * rows + clamp(1)) * cols + clamp(2)])
    }
}
