//! Products of matrices.

use candle_core::{DType, Result, Tensor};
use half::{bf16, f16};
use tilewright::TensorView;
use tilewright::ops::{Activation, FloatElement, Gemm, GemmInput};

use crate::call::{Call, Held, Operand, Outcome, refuse};
use crate::element::{Native, float};

/// A B, for matrices or batches of them: `a` (.., M, K), `b` (.., K, N), of f16, bf16 or f32, with any strides. See [`Matmul`].
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Matmul::new().forward(a, b)
}

/// act(alpha A B + bias), for matrices or batches of them.
///
/// - A (.., M, K) and B (.., K, N), of f16, bf16 or f32, with any strides, and up to three batch dimensions, which broadcast. A weight
///   (N, K) is `weight.t()?`: no copy is made of it.
/// - Sums, bias and activation are in f32; the result is A's type, or [`dtype`](Self::dtype), rounded once. Products of f32 are in full precision, and to f32 alone.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use tilewright_candle::{Activation, Matmul};
///
/// # fn main() -> candle_core::Result<()> {
/// # if cfg!(feature = "emulator") {
/// let x = Tensor::ones((4, 64), DType::BF16, &Device::Cpu)?;
/// let w = Tensor::ones((32, 64), DType::BF16, &Device::Cpu)?;
/// let y = Matmul::new().activation(Activation::Relu).forward(&x, &w.t()?)?;
/// assert_eq!(y.dims(), [4, 32]);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Matmul<'a> {
    alpha: f32,
    bias: Option<&'a Tensor>,
    activation: Activation,
    dtype: Option<DType>,
    /// B is as `Gemm::constant_b` asks.
    constant: bool,
}

impl Default for Matmul<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Matmul<'a> {
    /// A B.
    pub fn new() -> Self {
        Matmul { alpha: 1.0, bias: None, activation: Activation::Identity, dtype: None, constant: false }
    }
    /// The factor of A B; 1 unless set.
    pub fn alpha(self, alpha: f32) -> Self {
        Matmul { alpha, ..self }
    }
    /// What is added before the activation: (N), or what broadcasts to the result, of the result's type.
    pub fn bias(self, bias: &'a Tensor) -> Self {
        Matmul { bias: Some(bias), ..self }
    }
    /// What is applied to every element before it is rounded.
    pub fn activation(self, activation: Activation) -> Self {
        Matmul { activation, ..self }
    }
    /// The result's type: f16, bf16 or f32; A's unless set.
    pub fn dtype(self, dtype: DType) -> Self {
        Matmul { dtype: Some(dtype), ..self }
    }

    /// Lets kernels for few rows, as when decoding, read B while the kernels before them end.
    ///
    /// # Safety
    /// Nothing of this crate that was queued since the device was last waited for writes B: it is a weight.
    pub unsafe fn constant_b(self) -> Self {
        Matmul { constant: true, ..self }
    }

    /// The product.
    ///
    /// # Errors
    /// Tensors that do not fit together, of other types, or on a device that this crate is not built for: the message has the argument's name and all
    /// tensors.
    pub fn forward(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.named("matmul", ("a", a), ("b", b))
    }

    /// The product, of tensors that the caller knows by other names.
    pub(crate) fn named(
        &self,
        op: &'static str,
        a: (&'static str, &Tensor),
        b: (&'static str, &Tensor),
    ) -> Result<Tensor> {
        let with_bias;
        let tensors: &[_] = match self.bias {
            None => &[a, b],
            Some(bias) => {
                with_bias = [a, b, ("bias", bias)];
                &with_bias
            }
        };
        Call::run(op, tensors, |call| {
            let held = [Held::new(a.0, a.1), Held::new(b.0, b.1)];
            let bias = self.bias.map(|bias| Held::new("bias", bias));
            float!("a" a.1, T => {
                let [a, b] = held.each_ref().map(|held| call.read::<T>(held));
                let (a, b) = (a?, b?);
                match self.dtype.unwrap_or(<T as candle_core::WithDType>::DTYPE) {
                    DType::F16 => self.queue::<T, f16>(call, &a, &b, bias.as_ref()),
                    DType::BF16 => self.queue::<T, bf16>(call, &a, &b, bias.as_ref()),
                    DType::F32 => self.queue::<T, f32>(call, &a, &b, bias.as_ref()),
                    other => refuse("dtype", other.as_str(), "f16, bf16 or f32"),
                }
            })
        })
    }

    fn queue<T: Native + GemmInput, U: Native + FloatElement>(
        &self,
        call: &Call<'_>,
        a: &Operand<'_, T>,
        b: &Operand<'_, T>,
        bias: Option<&Held<'_>>,
    ) -> Outcome<Tensor> {
        let (a, b) = (a.view(), b.view());
        let bias = bias.map(|bias| call.read::<U>(bias)).transpose()?;
        let bias: Option<TensorView<'_, U>> = bias.as_ref().map(Operand::view);
        let gemm = Gemm::<U>::new().alpha(self.alpha).activation(self.activation);
        let gemm = match &bias {
            Some(bias) => gemm.bias(bias),
            None => gemm,
        };
        let gemm = match self.constant {
            // SAFETY: who said that it is constant vouches for it.
            true => unsafe { gemm.constant_b() },
            false => gemm,
        };
        // A vector is a matrix of one row.
        if let &[_] = a.shape() {
            let &[.., columns] = b.shape() else { return refuse("b", "of no dimension", "a matrix") };
            let a = a.insert_dim(0)?;
            return call
                .write::<U>(&[columns], |c| Ok(gemm.run(call.stream(), &a, &b, &mut c.insert_dim(0)?)?));
        }
        let shape = shape(a.shape(), b.shape())?;
        call.write::<U>(&shape, |mut c| Ok(gemm.run(call.stream(), &a, &b, &mut c)?))
    }
}

/// The result's shape, with dimensions of the batch that broadcast; the product itself checks whether they fit.
fn shape(a: &[usize], b: &[usize]) -> Outcome<Vec<usize>> {
    let (&[ref batch_a @ .., rows, _], &[ref batch_b @ .., _, columns]) = (a, b) else {
        return refuse("b", format!("of shape {b:?}"), "a matrix, or several");
    };
    let rank = batch_a.len().max(batch_b.len());
    let at = |batch: &[usize], i: usize| (i + batch.len()).checked_sub(rank).map_or(1, |i| batch[i]);
    let batch = (0..rank).map(|i| match (at(batch_a, i), at(batch_b, i)) {
        (1, other) => other,
        (one, _) => one,
    });
    Ok(batch.chain([rows, columns]).collect())
}
