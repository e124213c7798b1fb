//! One convolution: its sizes, and its run on every kernel that can compute it.

use std::collections::BTreeSet;

use tilewright::ops::{Conv, ConvGradient, FloatElement};
use tilewright::{Device, Stream, Tensor, TensorViewMut};
use tilewright_support::Real;
use tilewright_support::convolution::{Case, Exact, Of};
use tilewright_support::guarded::Guarded;
use tilewright_support::random::normal;
use tilewright_support::suite::{Outcome, picked};
use tilewright_support::watched;

/// Element types of convolutions.
pub trait Input: Real + FloatElement {}
impl<T: Real + FloatElement> Input for T {}

/// A case's runs.
pub trait Runs {
    /// The operator with these options.
    fn conv<'a, T: FloatElement>(&self) -> Conv<'a, T>;
    /// Its gradients.
    fn gradient<'a>(&self) -> ConvGradient<'a>;
    /// Random images, filters and outputs.
    fn numbers<T: Real>(&self) -> [Vec<T>; 3];
    /// Runs the convolution on the kernels that can compute it: on the emulator on those that it has not seen, and a quarter of the others.
    fn outputs<T: Input>(&self, device: &Device, seen: &mut BTreeSet<&'static str>) -> Outcome;
    /// Runs the gradient of images so.
    fn images<T: Input>(&self, device: &Device, seen: &mut BTreeSet<&'static str>) -> Outcome;
    /// Runs the gradient of filters so.
    fn filters<T: Input>(&self, device: &Device, seen: &mut BTreeSet<&'static str>) -> Outcome;
}

impl Runs for Case {
    fn conv<'a, T: FloatElement>(&self) -> Conv<'a, T> {
        let [before, after] = self.paddings();
        let conv = Conv::new().stride(self.strides()).padding(before).padding_after(after);
        conv.dilation(self.dilations()).groups(self.groups)
    }
    fn gradient<'a>(&self) -> ConvGradient<'a> {
        let [before, after] = self.paddings();
        let gradient = ConvGradient::new().stride(self.strides()).padding(before).padding_after(after);
        gradient.dilation(self.dilations()).groups(self.groups)
    }

    fn numbers<T: Real>(&self) -> [Vec<T>; 3] {
        let [x, w, y] = self.shapes().map(|shape| shape.iter().product());
        [normal(1, x), normal(2, w), normal(3, y)]
    }

    fn outputs<T: Input>(&self, device: &Device, seen: &mut BTreeSet<&'static str>) -> Outcome {
        let ([x, w, y], [x_shape, w_shape, y_shape]) = (self.numbers::<T>(), self.shapes());
        let exact = Exact::new(self, Of::Outputs, [&wide(&x), &wide(&w), &wide(&y)]);
        let (x, w) = (Tensor::from_slice(device, &x, &x_shape)?, Tensor::from_slice(device, &w, &w_shape)?);
        let (x, w) = (x.view(), w.view());
        let all = self.conv::<T>().candidates(&x, &w, &Tensor::zeros(device, &y_shape)?.view_mut())?;
        let names = all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name());
        for name in names.filter(|name| watched::runs(name)) {
            if seen.contains(name) && !picked(device, (name, format!("{self:?} {:?}", T::DTYPE)), 4) {
                continue;
            }
            let run = |stream: &Stream, y: &mut TensorViewMut<'_, T>| {
                self.conv::<T>().kernel(name).run(stream, &x, &w, y)
            };
            check(self, device, name, &y_shape, &exact, run)?;
            seen.insert(name);
        }
        check(self, device, "the chosen kernel", &y_shape, &exact, |stream, y| {
            self.conv().run(stream, &x, &w, y)
        })
    }

    fn images<T: Input>(&self, device: &Device, seen: &mut BTreeSet<&'static str>) -> Outcome {
        let ([x, w, dy], [x_shape, w_shape, y_shape]) = (self.numbers::<T>(), self.shapes());
        let exact = Exact::new(self, Of::Images, [&wide(&x), &wide(&w), &wide(&dy)]);
        let (w, dy) = (Tensor::from_slice(device, &w, &w_shape)?, Tensor::from_slice(device, &dy, &y_shape)?);
        let (w, dy) = (w.view(), dy.view());
        let dx = &mut Tensor::zeros(device, &x_shape)?;
        let all = self.gradient().images_candidates(&dy, &w, &dx.view_mut())?;
        let names = all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name());
        for name in names.filter(|name| watched::runs(name)) {
            if seen.contains(name) && !picked(device, (name, format!("{self:?} {:?}", T::DTYPE)), 4) {
                continue;
            }
            // Another of a stride's products may be too much for it.
            if self.gradient().kernel(name).images_plan(&dy, &w, &dx.view_mut()).is_err() {
                continue;
            }
            let run = |stream: &Stream, dx: &mut TensorViewMut<'_, T>| {
                self.gradient().kernel(name).images(stream, &dy, &w, dx)
            };
            check(self, device, name, &x_shape, &exact, run)?;
            seen.insert(name);
        }
        let run =
            |stream: &Stream, dx: &mut TensorViewMut<'_, T>| self.gradient().images(stream, &dy, &w, dx);
        check(self, device, "the chosen kernel", &x_shape, &exact, run)
    }

    fn filters<T: Input>(&self, device: &Device, seen: &mut BTreeSet<&'static str>) -> Outcome {
        let ([x, w, dy], [x_shape, w_shape, y_shape]) = (self.numbers::<T>(), self.shapes());
        let exact = Exact::new(self, Of::Filters, [&wide(&x), &wide(&w), &wide(&dy)]);
        let (x, dy) = (Tensor::from_slice(device, &x, &x_shape)?, Tensor::from_slice(device, &dy, &y_shape)?);
        let (x, dy) = (x.view(), dy.view());
        let dw = &mut Tensor::zeros(device, &w_shape)?;
        let all = self.gradient().filters_candidates(&x, &dy, &dw.view_mut())?;
        let names = all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name());
        for name in names.filter(|name| watched::runs(name)) {
            if seen.contains(name) && !picked(device, (name, format!("{self:?} {:?}", T::DTYPE)), 4) {
                continue;
            }
            let mut gradient = self.gradient().kernel(name);
            let run = |stream: &Stream, dw: &mut TensorViewMut<'_, T>| gradient.filters(stream, &x, &dy, dw);
            check(self, device, name, &w_shape, &exact, run)?;
            seen.insert(name);
        }
        let run =
            |stream: &Stream, dw: &mut TensorViewMut<'_, T>| self.gradient().filters(stream, &x, &dy, dw);
        check(self, device, "the chosen kernel", &w_shape, &exact, run)
    }
}

/// Runs what writes a tensor of this shape, if it is to run, with lines that end in front of guarded memory, and compares.
fn check<T: Input>(
    case: &Case,
    device: &Device,
    name: &str,
    shape: &[usize],
    exact: &Exact,
    run: impl FnOnce(&Stream, &mut TensorViewMut<'_, T>) -> tilewright::Result<()>,
) -> Outcome {
    if !watched::runs(name) {
        return Ok(());
    }
    let wrong = |what: &dyn std::fmt::Display| format!("{name}: {what}\n{case:?}");
    let ([lines @ .., line], stream) = (shape, Stream::new(device)?) else {
        unreachable!("it has dimensions")
    };
    let lines = lines.iter().product();
    let mut out = Guarded::<T>::new(device, [1, lines, *line], line.next_multiple_of(8) + 8)?;
    run(&stream, &mut out.view_mut()?.reshape(shape)?).map_err(|error| wrong(&error))?;
    let (out, outside) = out.read().map_err(|error| wrong(&error))?;
    if outside > 0 {
        return Err(wrong(&format!("{outside} elements outside were written")).into());
    }
    exact.check(&out, |_, sum| (sum, 0.0)).map_err(|error| wrong(&error).into())
}

/// In f64.
pub fn wide<T: Real>(numbers: &[T]) -> Vec<f64> {
    T::widen(numbers).into_iter().map(f64::from).collect()
}
