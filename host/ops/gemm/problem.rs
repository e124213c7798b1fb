//! What a GEMM is asked to compute, checked.

use tilewright_device::tile::GATES;

use super::batches::Batches;
use crate::ops::frame::{Named, check, of_shape};
use crate::tensor::{Layout, MAX_RANK, Places, Untyped, alignment};
use crate::{Device, Element, Error, Result, TensorView, TensorViewMut};

/// The matrices of a launch, each of three dimensions: A \[batch, M, K\], B \[batch, K, N\], C \[batch, M, N\].
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

impl Matrices {
    /// The same at addresses that are aligned to no more than those of every run: a plan's first matrices are at least as aligned as it knows, and how far these lie
    /// behind them adds what it may.
    pub(super) fn surely_aligned(&self, first: &Matrices) -> Self {
        let surely = |of: Untyped, first: Untyped| {
            let offset = of.address.wrapping_sub(first.address);
            let most = alignment(0);
            Untyped { address: of.address / most * most + alignment(first.address | offset) % most, ..of }
        };
        let bias = self.bias.zip(first.bias).map(|(of, first)| surely(of, first));
        let (a, b, c) = (surely(self.a, first.a), surely(self.b, first.b), surely(self.c, first.c));
        Matrices { a, b, c, bias, ..self.clone() }
    }
}

/// Sizes of the batch, which are those in front of C's rows and columns.
fn batch(shape: &[usize]) -> &[usize] {
    shape.get(..shape.len().saturating_sub(2)).unwrap_or(&[])
}

/// The sizes of a GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) batch: usize,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

impl Batches {
    /// Checks that the views fit together.
    pub(super) fn new<T: Element, U: Element>(
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        c: &TensorViewMut<'_, U>,
        bias: Option<&TensorView<'_, U>>,
        gated: bool,
    ) -> Result<Self> {
        let device = c.device();
        for (name, shape) in [("a", a.shape()), ("b", b.shape()), ("c", c.shape())] {
            if shape.len() < 2 {
                let allowed = format!(
                    "of 2 to {MAX_RANK} dimensions: rows and columns, with those of a batch in front"
                );
                return Err(Error::argument(name, of_shape(shape), allowed));
            }
        }
        let inputs = [Named::read("a", a), Named::read("b", b)];
        let inputs = inputs.into_iter().chain(bias.map(|bias| Named::read("bias", bias)));
        check(device, inputs.chain([Named::written("c", c)]))?;
        let ([m, n], [_, k]) = (matrix(c.shape()), matrix(a.shape()));
        let batch = batch(c.shape());
        let rows = "as many rows as `c`";
        let inner = "as many rows as `a` has columns and as many columns as `c`";
        let bias = bias.map(|bias| {
            let allowed = || format!("of shape [{n}], or one that broadcasts to {:?}", c.shape());
            let wrong = |_| Error::argument("bias", of_shape(bias.shape()), allowed());
            stretched(bias.untyped(), c.shape()).map_err(wrong)
        });
        let a = for_all("a", a.untyped(), [m, k], batch, rows)?;
        if gated {
            let c = c.untyped();
            return Self::gated(device, [a, b.untyped(), c], bias.is_some(), [m, n, k]);
        }
        let b = for_all("b", b.untyped(), [k, n], batch, inner)?;
        Batches::of(device, [a, b, c.untyped()], bias.transpose()?, [m, n, k])
    }
}

impl Batches {
    /// Of a product of matrices whose B has twice the columns of C.
    fn gated(device: &Device, [a, b, c]: [Untyped; 3], biased: bool, [m, n, k]: [usize; 3]) -> Result<Self> {
        let wrong = |name, was: &Untyped, allowed: String| {
            Err(Error::argument(name, of_shape(was.layout.shape()), allowed))
        };
        if c.layout.rank() != 2 || !n.is_multiple_of(GATES as usize) {
            return wrong("c", &c, format!("a matrix of a multiple of {GATES} columns, of a gated product"));
        }
        if b.layout.shape() != [k, 2 * n] {
            return wrong("b", &b, format!("of shape [{k}, {}]: gates and ups of `c`'s columns", 2 * n));
        }
        if biased {
            return Err(Error::argument("bias", "given for a gated product", "left out"));
        }
        let of = |tensor: Untyped, [rows, columns]: [usize; 2]| {
            let strides = tensor.layout.strides();
            let layout = Layout::strided(&[1, rows, columns], &[0, strides[0], strides[1]])?;
            Ok::<_, Error>(Untyped { layout, ..tensor })
        };
        let size = Size { batch: 1, m, n: 2 * n, k };
        let (a, b, c) = (of(a, [m, k])?, of(b, [k, 2 * n])?, of(c, [m, n])?);
        Ok(Batches::of_one(Matrices { device: device.clone(), a, b, c, bias: None, size }))
    }
}

impl Matrices {
    /// Those of a run, of a plan's.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let Matrices { device, a, b, c, bias, size } = self;
        let bias = bias.as_ref().map(|bias| places.of(bias));
        let [a, b, c] = [a, b, c].map(|tensor| places.of(tensor));
        Matrices { device: device.clone(), a, b, c, bias, size: *size }
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
}

/// The last two dimensions.
fn matrix(shape: &[usize]) -> [usize; 2] {
    match shape {
        [.., rows, cols] => [*rows, *cols],
        _ => [0, 0],
    }
}

/// The tensor if it is such a matrix for each of the batch, or for all of a dimension of it.
fn for_all(
    name: &'static str,
    tensor: Untyped,
    [rows, cols]: [usize; 2],
    batch: &[usize],
    because: &str,
) -> Result<Untyped> {
    let (shape, all) = (tensor.layout.shape(), [batch, &[rows, cols]].concat());
    let error = || {
        let allowed = match batch {
            [] => format!("of shape [{rows}, {cols}]: {because}"),
            [batch] => format!("of shape [{rows}, {cols}] or [{batch}, {rows}, {cols}]: {because}"),
            _ => format!(
                "of shape [{rows}, {cols}], or with that at its end and broadcast to {all:?}: {because}"
            ),
        };
        Error::argument(name, of_shape(shape), allowed)
    };
    // Rows and columns do not repeat.
    if matrix(shape) != [rows, cols] {
        return Err(error());
    }
    stretched(tensor, &all).map_err(|_| error())
}

/// As a tensor of this shape: dimensions of 1 and missing ones repeat, and those of 1 in front of the shape's go away.
fn stretched(mut tensor: Untyped, shape: &[usize]) -> Result<Untyped> {
    while tensor.layout.rank() > shape.len() && tensor.layout.shape().first() == Some(&1) {
        tensor.layout = tensor.layout.select(0, 0)?.0;
    }
    tensor.broadcast(shape)
}
