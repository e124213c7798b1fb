//! One GEMM: run, and compared with its reference, element by element and around them.

use std::fmt::Display;

use tilewright::ops::{Activation, FloatElement, Gemm, GemmInput};
use tilewright::{Device, Stream, TensorViewMut};
use tilewright_support::Real;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::{Outcome, picked};

use crate::bias::Bias;
use crate::operand::Operand;
use crate::reference::{Epilogue, Reference};

/// Element types of A and B.
pub trait Input: Real + GemmInput {}
impl<T: Real + GemmInput> Input for T {}

/// Element types of C.
pub trait Output: Real + FloatElement {}
impl<U: Real + FloatElement> Output for U {}

/// C = act(alpha A B + beta C + bias), with C at a place of its own.
pub struct Case<'a, T, U> {
    pub a: &'a Operand<T>,
    pub b: &'a Operand<T>,
    pub reference: &'a Reference,
    pub c: Place,
    pub alpha: f32,
    pub beta: f32,
    pub bias: Option<&'a Bias<U>>,
    pub activation: Activation,
}

impl<'a, T: Input, U: Output> Case<'a, T, U> {
    /// C = A B.
    pub fn new(a: &'a Operand<T>, b: &'a Operand<T>, reference: &'a Reference, c: Place) -> Self {
        assert_eq!(c.shape, reference.shape);
        Self { a, b, reference, c, alpha: 1.0, beta: 0.0, bias: None, activation: Activation::Identity }
    }

    /// Runs it on the kernel that is chosen for it.
    pub fn check(&self, device: &Device) -> Outcome {
        self.run(device, None)
    }

    /// Runs it on the kernels that can compute it: on the emulator on an eighth of them.
    pub fn check_all(&self, device: &Device) -> Outcome {
        let bias = self.bias.map(Bias::form);
        let of = format!("{:?} {:?} {:?} {bias:?}", self.a.place(), self.b.place(), self.c);
        let names = self.kernels(device)?.into_iter().filter(|name| picked(device, (name, &of), 10));
        names.into_iter().try_for_each(|name| self.run(device, Some(name)))
    }

    /// The kernels that can compute it.
    pub fn kernels(&self, device: &Device) -> tilewright::Result<Vec<&'static str>> {
        let mut c = Guarded::<U>::at(device, self.c)?;
        let bias = self.bias.map(Bias::view).transpose()?;
        let mut gemm = Gemm::<U>::new().beta(self.beta).activation(self.activation);
        if let Some(bias) = &bias {
            gemm = gemm.bias(bias);
        }
        let all = gemm.candidates(&self.a.view()?, &self.b.view()?, &flat(c.view_mut()?)?)?;
        Ok(all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()).collect())
    }

    /// Runs it on the kernel of this name.
    pub fn run(&self, device: &Device, kernel: Option<&str>) -> Outcome {
        let old = if self.beta == 0.0 { Vec::new() } else { normal::<U>(99, self.c.count()) };
        let mut c = match self.beta {
            0.0 => Guarded::at(device, self.c)?,
            _ => Guarded::with(device, self.c, &old)?,
        };
        let stream = Stream::new(device)?;
        let bias = self.bias.map(Bias::view).transpose()?;
        let mut gemm = Gemm::new().alpha(self.alpha).beta(self.beta).activation(self.activation);
        if let Some(bias) = &bias {
            gemm = gemm.bias(bias);
        }
        if let Some(name) = kernel {
            gemm = gemm.kernel(name);
        }
        let (a, b) = (self.a.view()?, self.b.view()?);
        let mut view = flat(c.view_mut()?)?;
        let name = gemm.plan(&a, &b, &view)?.kernel().name();
        let wrong = |what: &dyn Display| {
            let (a, b, c) = (self.a.place(), self.b.place(), self.c);
            format!("{name}: {what}\nA: {a:?}\nB: {b:?}\nC: {c:?}")
        };
        gemm.run(&stream, &a, &b, &mut view).map_err(|error| wrong(&error))?;
        let (out, outside) = c.read().map_err(|error| wrong(&error))?;
        if outside > 0 {
            return Err(wrong(&format!("{outside} elements outside of C were written")).into());
        }
        let old = U::widen(&old);
        let Case { alpha, beta, bias, activation, .. } = *self;
        let epilogue = Epilogue { alpha, beta, old: &old, bias, activation };
        self.reference.check(&out, &epilogue).map_err(|error| wrong(&error).into())
    }
}

/// A single matrix without a batch dimension.
pub fn flat<U: Real>(view: TensorViewMut<'_, U>) -> tilewright::Result<TensorViewMut<'_, U>> {
    if view.shape()[0] == 1 { view.select(0, 0) } else { Ok(view) }
}

/// C where every kernel can store it best.
pub fn c_rows([batch, m, n]: [usize; 3]) -> Place {
    Place::by_rows([batch, m, n], crate::operand::padded(n))
}
