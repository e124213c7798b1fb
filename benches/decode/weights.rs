//! Weights of chance.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tilewright::ops::{Activation, DequantGemm, DeviceWeights, Gemm, GemmViews};
use tilewright::quant::{Format, Group, HalfType, Halves, Order, PackedHeader, PackedWeights, Scheme, Zeros};
use tilewright::{Device, Result, Stream, Tensor, TensorView, TensorViewMut, bf16};
use tilewright_support::random::normal;

use crate::case::Weights;

/// The deviation of weights.
const DEVIATION: f32 = 0.02;

/// The weight of a product, \[N, K\].
pub enum Weight {
    Wide(Tensor<bf16>),
    Narrow(DeviceWeights),
}

/// Makes weights of one shape.
pub enum Source<'d> {
    /// Of these numbers, again and again.
    Wide(&'d Tensor<bf16>, [usize; 2]),
    Narrow(&'d Device, PackedWeights),
}

/// Numbers that wide weights are made of; an odd count keeps lines from being equal.
pub fn numbers(device: &Device) -> Result<Tensor<bf16>> {
    let of = |x: f32| bf16::from_f32(x * DEVIATION);
    let numbers: Vec<_> = normal::<f32>(1, (1 << 24) - 77).into_iter().map(of).collect();
    Tensor::from_slice(device, &numbers, &[numbers.len()])
}

impl<'d> Source<'d> {
    pub fn new(weights: Weights, numbers: &'d Tensor<bf16>, [n, k]: [usize; 2]) -> Result<Self> {
        if weights == Weights::Bf16 {
            return Ok(Source::Wide(numbers, [n, k]));
        }
        let (format, group, zeros, scales) = (Format::U4, Group::K128, Zeros::Original, HalfType::BF16);
        let scheme = Scheme { format, group, zeros, scales };
        let header = PackedHeader { version: PackedWeights::VERSION, scheme, order: Order::B16, n, k };
        let mut codes = vec![0; header.code_bytes()];
        Xoshiro256PlusPlus::seed_from_u64((n * k) as u64).fill(&mut codes[..]);
        let count = header.groups() * header.padded_n();
        let halves = |value: f32| Halves::BF16(vec![bf16::from_f32(value); count]);
        // Codes from 0 to 15 about 8 have a deviation of 4.6.
        let packed = PackedWeights::new("w", header, codes, halves(DEVIATION / 4.6), Some(halves(8.0)))?;
        Ok(Source::Narrow(numbers.device(), packed))
    }

    pub fn make(&self, stream: &Stream) -> Result<Weight> {
        match self {
            Source::Narrow(device, packed) => DeviceWeights::upload(device, packed).map(Weight::Narrow),
            Source::Wide(numbers, [n, k]) => {
                let mut all = Tensor::uninit(numbers.device(), &[n * k])?;
                for start in (0..n * k).step_by(numbers.len()) {
                    let len = numbers.len().min(n * k - start);
                    let mut to = all.view_mut().narrow(0, start, len)?;
                    to.copy_from(stream, &numbers.view().narrow(0, 0, len)?)?;
                }
                Ok(Weight::Wide(all.reshape(&[*n, *k])?))
            }
        }
    }
}

impl Weight {
    pub fn bytes(&self) -> usize {
        match self {
            Weight::Wide(weight) => 2 * weight.len(),
            Weight::Narrow(weights) => weights.bytes(),
        }
    }

    /// Queues y = silu(gate) up of x Wᵀ.
    pub fn launch_gated(
        &self,
        stream: &Stream,
        x: &TensorView<'_, bf16>,
        y: &mut TensorViewMut<'_, bf16>,
    ) -> Result<()> {
        let silu = Activation::Silu;
        match self {
            Weight::Wide(w) => {
                let gemm = Gemm::new().activation(silu).gated();
                // SAFETY: weights are written before all steps.
                unsafe { gemm.constant_b() }.run(stream, x, &w.view().transpose(0, 1)?, y)
            }
            Weight::Narrow(w) => DequantGemm::new().activation(silu).gated().run(stream, x, w, y),
        }
    }

    /// Queues y = x Wᵀ.
    pub fn launch(
        &self,
        stream: &Stream,
        x: &TensorView<'_, bf16>,
        y: &mut TensorViewMut<'_, bf16>,
        workspace: &mut TensorViewMut<'_, f32>,
    ) -> Result<()> {
        match self {
            Weight::Wide(w) => {
                let w = w.view().transpose(0, 1)?;
                // SAFETY: as above.
                unsafe { Gemm::new().constant_b() }.plan(x, &w, y)?.run(
                    stream,
                    x,
                    &w,
                    y,
                    &GemmViews::default(),
                )
            }
            Weight::Narrow(w) => DequantGemm::new().workspace(workspace).run(stream, x, w, y),
        }
    }
}
