//! One convolution: its sizes, and its run on every kernel that can compute it.

use std::collections::BTreeSet;

use tilewright::ops::{Conv, ConvElement, ConvGradient};
use tilewright::{Device, Stream, Tensor, TensorViewMut};
use tilewright_support::Real;
use tilewright_support::guarded::Guarded;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::reference::{Exact, Of};

/// Element types of convolutions.
pub trait Input: Real + ConvElement {}
impl<T: Real + ConvElement> Input for T {}

/// Sizes of a convolution. Pairs are of height and width.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub images: usize,
    pub pixels: [usize; 2],
    pub channels: usize,
    pub outputs: usize,
    pub filter: [usize; 2],
    pub stride: [usize; 2],
    pub before: [usize; 2],
    pub after: [usize; 2],
    pub dilation: [usize; 2],
    pub groups: usize,
}

impl Default for Case {
    fn default() -> Self {
        Case {
            images: 1,
            pixels: [1; 2],
            channels: 1,
            outputs: 1,
            filter: [1; 2],
            stride: [1; 2],
            before: [0; 2],
            after: [0; 2],
            dilation: [1; 2],
            groups: 1,
        }
    }
}

impl Case {
    /// With as many zeros on all sides of a dimension.
    pub fn padded(self, padding: [usize; 2]) -> Self {
        Case { before: padding, after: padding, ..self }
    }
    pub fn out(&self) -> [usize; 2] {
        [0, 1].map(|i| {
            let padded = self.pixels[i] + self.before[i] + self.after[i];
            (padded - self.dilation[i] * (self.filter[i] - 1) - 1) / self.stride[i] + 1
        })
    }
    pub fn x(&self) -> [usize; 4] {
        [self.images, self.pixels[0], self.pixels[1], self.channels]
    }
    pub fn w(&self) -> [usize; 4] {
        [self.outputs, self.filter[0], self.filter[1], self.channels / self.groups]
    }
    pub fn y(&self) -> [usize; 4] {
        let [p, q] = self.out();
        [self.images, p, q, self.outputs]
    }

    /// Calls `f` with the places in y, x and w of every product.
    pub fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        let ([n, p, q, k], [_, h, w, c], [_, r, s, each]) = (self.y(), self.x(), self.w());
        for at in 0..n * p * q * k {
            let (output, column, row, image) = (at % k, at / k % q, at / k / q % p, at / k / q / p);
            let group = output / (k / self.groups);
            for tap in 0..r * s {
                let place = |i: usize, out: usize, tap: usize| {
                    (out * self.stride[i] + tap * self.dilation[i]).checked_sub(self.before[i])
                };
                let (Some(y), Some(x)) = (place(0, row, tap / s), place(1, column, tap % s)) else {
                    continue;
                };
                if y < h && x < w {
                    let from = ((image * h + y) * w + x) * c + group * each;
                    let filter = (output * r * s + tap) * each;
                    (0..each).for_each(|i| f(at, from + i, filter + i));
                }
            }
        }
    }

    /// The operator with these options.
    pub fn conv<'a, T: ConvElement>(&self) -> Conv<'a, T> {
        let conv = Conv::new().stride(self.stride).padding(self.before).padding_after(self.after);
        conv.dilation(self.dilation).groups(self.groups)
    }
    /// Its gradients.
    pub fn gradient<'a>(&self) -> ConvGradient<'a> {
        let gradient = ConvGradient::new().stride(self.stride).padding(self.before).padding_after(self.after);
        gradient.dilation(self.dilation).groups(self.groups)
    }

    /// Random images, filters and outputs.
    pub fn numbers<T: Real>(&self) -> [Vec<T>; 3] {
        let len = |shape: [usize; 4]| shape.iter().product();
        [normal(1, len(self.x())), normal(2, len(self.w())), normal(3, len(self.y()))]
    }

    /// Runs the convolution on every kernel that can compute it.
    pub fn outputs<T: Input>(&self, device: &Device, seen: &mut BTreeSet<&'static str>) -> Outcome {
        let [x, w, y] = self.numbers::<T>();
        let exact = Exact::new(self, Of::Outputs, [&wide(&x), &wide(&w), &wide(&y)]);
        let (x, w) = (Tensor::from_slice(device, &x, &self.x())?, Tensor::from_slice(device, &w, &self.w())?);
        let (x, w) = (x.view(), w.view());
        let all = self.conv::<T>().candidates(&x, &w, &Tensor::zeros(device, &self.y())?.view_mut())?;
        for name in all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()) {
            let run = |stream: &Stream, y: &mut TensorViewMut<'_, T>| {
                self.conv::<T>().kernel(name).run(stream, &x, &w, y)
            };
            self.check(device, name, self.y(), &exact, run)?;
            seen.insert(name);
        }
        self.check(device, "the chosen kernel", self.y(), &exact, |stream, y| {
            self.conv().run(stream, &x, &w, y)
        })
    }

    /// Runs the gradient of images on every kernel that can compute it.
    pub fn images<T: Input>(&self, device: &Device, seen: &mut BTreeSet<&'static str>) -> Outcome {
        let [x, w, dy] = self.numbers::<T>();
        let exact = Exact::new(self, Of::Images, [&wide(&x), &wide(&w), &wide(&dy)]);
        let (w, dy) =
            (Tensor::from_slice(device, &w, &self.w())?, Tensor::from_slice(device, &dy, &self.y())?);
        let (w, dy) = (w.view(), dy.view());
        let dx = &mut Tensor::zeros(device, &self.x())?;
        let all = self.gradient().images_candidates(&dy, &w, &dx.view_mut())?;
        for name in all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()) {
            // Another of a stride's products may be too much for it.
            if self.gradient().kernel(name).images_plans(&dy, &w, &dx.view_mut()).is_err() {
                continue;
            }
            let run = |stream: &Stream, dx: &mut TensorViewMut<'_, T>| {
                self.gradient().kernel(name).images(stream, &dy, &w, dx)
            };
            self.check(device, name, self.x(), &exact, run)?;
            seen.insert(name);
        }
        let run =
            |stream: &Stream, dx: &mut TensorViewMut<'_, T>| self.gradient().images(stream, &dy, &w, dx);
        self.check(device, "the chosen kernel", self.x(), &exact, run)
    }

    /// Runs the gradient of filters on every kernel that can compute it.
    pub fn filters<T: Input>(&self, device: &Device, seen: &mut BTreeSet<&'static str>) -> Outcome {
        let [x, w, dy] = self.numbers::<T>();
        let exact = Exact::new(self, Of::Filters, [&wide(&x), &wide(&w), &wide(&dy)]);
        let (x, dy) =
            (Tensor::from_slice(device, &x, &self.x())?, Tensor::from_slice(device, &dy, &self.y())?);
        let (x, dy) = (x.view(), dy.view());
        let dw = &mut Tensor::zeros(device, &self.w())?;
        let all = self.gradient().filters_candidates(&x, &dy, &dw.view_mut())?;
        for name in all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()) {
            let mut gradient = self.gradient().kernel(name);
            let run = |stream: &Stream, dw: &mut TensorViewMut<'_, T>| gradient.filters(stream, &x, &dy, dw);
            self.check(device, name, self.w(), &exact, run)?;
            seen.insert(name);
        }
        let run =
            |stream: &Stream, dw: &mut TensorViewMut<'_, T>| self.gradient().filters(stream, &x, &dy, dw);
        self.check(device, "the chosen kernel", self.w(), &exact, run)
    }

    /// Runs what writes a tensor of this shape, with lines that end in front of guarded memory, and compares.
    fn check<T: Input>(
        &self,
        device: &Device,
        name: &str,
        shape: [usize; 4],
        exact: &Exact,
        run: impl FnOnce(&Stream, &mut TensorViewMut<'_, T>) -> tilewright::Result<()>,
    ) -> Outcome {
        let wrong = |what: &dyn std::fmt::Display| format!("{name}: {what}\n{self:?}");
        let ([a, b, c, line], stream) = (shape, Stream::new(device)?);
        let mut out = Guarded::<T>::new(device, [1, a * b * c, line], line.next_multiple_of(8) + 8)?;
        run(&stream, &mut out.view_mut()?.reshape(&shape)?).map_err(|error| wrong(&error))?;
        let (out, outside) = out.read().map_err(|error| wrong(&error))?;
        if outside > 0 {
            return Err(wrong(&format!("{outside} elements outside were written")).into());
        }
        exact.check(&out, |_, sum| (sum, 0.0)).map_err(|error| wrong(&error).into())
    }
}

/// In f64.
pub fn wide<T: Real>(numbers: &[T]) -> Vec<f64> {
    T::widen(numbers).into_iter().map(f64::from).collect()
}
