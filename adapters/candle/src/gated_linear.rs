//! Gate and up of a layer in one product.

use candle_core::{Result, Tensor};
use tilewright::TensorViewMut;
use tilewright::ops::{Activation, DequantGemm, DequantViews, Gemm, GemmViews, HalfElement};

use crate::call::{Call, Held, Operand, Outcome, refuse};
use crate::element::{Native, half};
use crate::gated::gated_by;
use crate::matmul::Matmul;
use crate::quantized::{QuantizedLinear, Workspace};

/// Rows of gates, and of ups, that follow each other.
const GATES: usize = 8;
/// Rows of x up to which one kernel takes wide weights, and narrow ones: for more rows kernels without gated units are faster.
const FEW: [usize; 2] = [16, 8];

/// y = act(x Gᵀ) (x Uᵀ): the first half of a gated layer, SwiGLU's unless said otherwise.
///
/// For few rows, as when decoding, on Hopper it is one kernel, whose sums are not rounded in between; otherwise a product and a gated unit. The weight has the rows
/// of gate and up in turn, 8 of each, as [`interleave`](Self::interleave) makes them. x is (.., in features), of f16 or bf16.
pub struct GatedLinear {
    weight: Weight,
    activation: Activation,
    constant: bool,
}

enum Weight {
    Wide(Tensor),
    Narrow(Box<QuantizedLinear>),
}

impl GatedLinear {
    /// Of gate and up, each (out features, in features) of multiples of 8 out features: a copy with their rows in turn.
    pub fn new(gate: &Tensor, up: &Tensor) -> Result<Self> {
        Self::interleaved(Self::interleave(gate, up)?)
    }
    /// Of a weight whose rows are in turn.
    pub fn interleaved(weight: Tensor) -> Result<Self> {
        weight.dims2()?;
        Ok(GatedLinear { weight: Weight::Wide(weight), activation: Activation::Silu, constant: false })
    }
    /// Of narrow weights whose rows are in turn, without a bias.
    pub fn quantized(layer: QuantizedLinear) -> Self {
        GatedLinear { weight: Weight::Narrow(Box::new(layer)), activation: Activation::Silu, constant: false }
    }
    /// The rows of gate and up in turn, 8 of each, as of the weight of a gated layer: (2 out features, in features).
    pub fn interleave(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        let (n, k) = gate.dims2()?;
        let parts = [gate, up].map(|part| part.reshape((n / GATES, GATES, k)));
        let [gate, up] = parts;
        Tensor::stack(&[gate?, up?], 1)?.reshape((2 * n, k))
    }
    /// Lets kernels for few rows read a wide weight while the kernels before them end.
    ///
    /// # Safety
    /// As for [`Linear::constant`](crate::Linear::constant).
    pub unsafe fn constant(self) -> Self {
        GatedLinear { constant: true, ..self }
    }
    /// With this activation of the gate.
    pub fn activation(self, activation: Activation) -> Self {
        GatedLinear { activation, ..self }
    }

    /// Bytes of the weight.
    pub fn bytes(&self) -> usize {
        match &self.weight {
            Weight::Wide(weight) => weight.elem_count() * weight.dtype().size_in_bytes(),
            Weight::Narrow(layer) => layer.weights().bytes(),
        }
    }

    /// The result, with scratch memory that is kept from call to call.
    pub fn forward_with(&self, x: &Tensor, workspace: &Workspace) -> Result<Tensor> {
        if let Some(y) = self.fused(x)? {
            return Ok(y);
        }
        let both = match &self.weight {
            Weight::Wide(weight) => Matmul::new().named("GatedLinear", ("x", x), ("weight", &weight.t()?))?,
            Weight::Narrow(layer) => layer.forward_with(x, workspace)?,
        };
        let (shape, columns) = (both.dims().to_vec(), both.dim(candle_core::D::Minus1)?);
        let (rows, half) = (both.elem_count() / columns.max(1), columns / 2);
        let parts = both.reshape((rows, half / GATES, 2, GATES))?;
        let part = |i| parts.narrow(2, i, 1)?.squeeze(2);
        let y = gated_by("GatedLinear", &part(0)?, &part(1)?, self.activation)?;
        y.reshape([&shape[..shape.len() - 1], &[half]].concat())
    }

    /// The result of one kernel, if there is one for as many rows.
    fn fused(&self, x: &Tensor) -> Result<Option<Tensor>> {
        let rows = x.elem_count() / x.dim(candle_core::D::Minus1)?.max(1);
        match &self.weight {
            Weight::Wide(weight) if rows <= FEW[0] => {
                Call::run("GatedLinear", &[("x", x), ("weight", weight)], |call| {
                    let held = [Held::new("x", x), Held::new("weight", weight)];
                    half!("x" x, T => {
                        let (x, weight) = (call.read::<T>(&held[0])?, call.read::<T>(&held[1])?);
                        self.queue_wide(call, &x, &weight)
                    })
                })
            }
            Weight::Narrow(layer) if rows <= FEW[1] => Call::run("GatedLinear", &[("x", x)], |call| {
                let held = Held::new("x", x);
                half!("x" x, T => {
                    let x = call.read::<T>(&held)?;
                    self.queue_narrow(call, &x, layer)
                })
            }),
            _ => Ok(None),
        }
    }

    fn queue_wide<T: Native + HalfElement>(
        &self,
        call: &Call<'_>,
        x: &Operand<'_, T>,
        weight: &Operand<'_, T>,
    ) -> Outcome<Option<Tensor>> {
        let weight = weight.view();
        let (shape, rows) = shapes(x.view().shape(), weight.shape()[0])?;
        let (x, weight) = (x.view().reshape(&[rows[0], rows[1]])?, weight.transpose(0, 1)?);
        let y = TensorViewMut::<T>::without_memory(call.device(), &[rows[0], rows[2]], &[rows[2], 1], 16)?;
        let gemm = Gemm::<T>::new().activation(self.activation).gated();
        let gemm = match self.constant {
            // SAFETY: who made the layer vouches for it.
            true => unsafe { gemm.constant_b() },
            false => gemm,
        };
        let Ok(plan) = gemm.plan(&x, &weight, &y) else { return Ok(None) };
        let y = call.write::<T>(&shape, |y| {
            let mut y = y.reshape(&[rows[0], rows[2]])?;
            Ok(plan.run(call.stream(), &x, &weight, &mut y, &GemmViews::default())?)
        });
        y.map(Some)
    }

    fn queue_narrow<T: Native + HalfElement>(
        &self,
        call: &Call<'_>,
        x: &Operand<'_, T>,
        layer: &QuantizedLinear,
    ) -> Outcome<Option<Tensor>> {
        let weights = layer.weights();
        let (shape, rows) = shapes(x.view().shape(), weights.shape()[0])?;
        let x = x.view().reshape(&[rows[0], rows[1]])?;
        let y = TensorViewMut::<T>::without_memory(call.device(), &[rows[0], rows[2]], &[rows[2], 1], 16)?;
        let Ok(plan) = DequantGemm::new().activation(self.activation).gated().plan(&x, weights, &y) else {
            return Ok(None);
        };
        let y = call.write::<T>(&shape, |y| {
            let mut y = y.reshape(&[rows[0], rows[2]])?;
            Ok(plan.run(call.stream(), &x, weights, &mut y, &mut DequantViews::default())?)
        });
        y.map(Some)
    }
}

/// The result's shape; rows and columns of x, and columns of the result.
fn shapes(x: &[usize], features: usize) -> Outcome<(Vec<usize>, [usize; 3])> {
    let Some((&columns, rows)) = x.split_last() else {
        return refuse("x", "of no dimension", "of 1 dimension or more");
    };
    let shape = rows.iter().copied().chain([features / 2]).collect();
    Ok((shape, [rows.iter().product(), columns, features / 2]))
}
