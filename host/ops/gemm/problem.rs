//! What a GEMM is asked to compute, checked.

use crate::ops::frame::{Named, check, of_shape};
use crate::tensor::Untyped;
use crate::{Device, Element, Error, Result, TensorView, TensorViewMut};

/// The matrices of a GEMM, each of three dimensions: A \[batch, M, K\], B \[batch, K, N\], C \[batch, M, N\].
#[derive(Clone, Debug)]
pub(super) struct Matrices {
    pub(super) device: Device,
    pub(super) a: Untyped,
    pub(super) b: Untyped,
    pub(super) c: Untyped,
    /// Of C's shape, with strides of 0 where it is broadcast.
    pub(super) bias: Option<Untyped>,
    pub(super) size: Size,
}

/// The sizes of a GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) batch: usize,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

impl Matrices {
    /// Checks that the views fit together.
    pub(super) fn new<T: Element, U: Element>(
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        c: &TensorViewMut<'_, U>,
        bias: Option<&TensorView<'_, U>>,
    ) -> Result<Self> {
        let device = c.device();
        for (name, shape) in [("a", a.shape()), ("b", b.shape()), ("c", c.shape())] {
            if !(2..=3).contains(&shape.len()) {
                let allowed = "of 2 dimensions, rows and columns, or of 3 with a batch in front";
                return Err(Error::argument(name, of_shape(shape), allowed));
            }
        }
        let inputs = [Named::read("a", a), Named::read("b", b)];
        let inputs = inputs.into_iter().chain(bias.map(|bias| Named::read("bias", bias)));
        check(device, inputs.chain([Named::written("c", c)]))?;
        let [m, n] = matrix(c.shape());
        let [_, k] = matrix(a.shape());
        let batch = batch(c.shape());
        expect("a", a.shape(), [m, k], batch, "as many rows as `c`")?;
        expect("b", b.shape(), [k, n], batch, "as many rows as `a` has columns and as many columns as `c`")?;
        let bias = match bias {
            None => None,
            Some(bias) => {
                let allowed = || format!("of shape [{n}], or one that broadcasts to {:?}", c.shape());
                let wrong = |_| Error::argument("bias", of_shape(bias.shape()), allowed());
                Some(bias.untyped().broadcast(&[batch, m, n]).map_err(wrong)?)
            }
        };
        let matrices = Matrices {
            device: device.clone(),
            a: a.untyped().broadcast(&[batch, m, k])?,
            b: b.untyped().broadcast(&[batch, k, n])?,
            c: c.untyped().broadcast(&[batch, m, n])?,
            bias,
            size: Size { batch, m, n, k },
        };
        Ok(matrices)
    }

    /// The same product transposed: Cᵀ = Bᵀ Aᵀ.
    pub(super) fn t(&self) -> Result<Self> {
        let Size { batch, m, n, k } = self.size;
        Ok(Matrices {
            device: self.device.clone(),
            a: self.b.t()?,
            b: self.a.t()?,
            c: self.c.t()?,
            bias: self.bias.map(Untyped::t).transpose()?,
            size: Size { batch, m: n, n: m, k },
        })
    }

    /// Nothing to store.
    pub(super) fn is_empty(&self) -> bool {
        self.size.batch == 0 || self.size.m == 0 || self.size.n == 0
    }
}

/// The last two dimensions.
fn matrix(shape: &[usize]) -> [usize; 2] {
    match shape {
        [.., rows, cols] => [*rows, *cols],
        _ => [0, 0],
    }
}

fn batch(shape: &[usize]) -> usize {
    if let [batch, _, _] = shape { *batch } else { 1 }
}

/// The matrix is `want`, once or `batches` times.
fn expect(
    name: &'static str,
    shape: &[usize],
    want: [usize; 2],
    batches: usize,
    because: &str,
) -> Result<()> {
    let fits = matrix(shape) == want && (batch(shape) == 1 || batch(shape) == batches);
    if fits {
        return Ok(());
    }
    let [rows, cols] = want;
    let allowed = match batches {
        1 => format!("of shape [{rows}, {cols}]: {because}"),
        _ => format!("of shape [{rows}, {cols}] or [{batches}, {rows}, {cols}]: {because}"),
    };
    Err(Error::argument(name, of_shape(shape), allowed))
}
