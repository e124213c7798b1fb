//! Cases with their tensors on a device.

use std::cell::RefCell;

use tilewright::ops::{
    Activation, BlockScaled, DeviceWeights, Gated, GroupRows, GroupedDequantGemm, GroupedGemm,
    GroupedScaledGemm, KGroupedGemm, WeightFacts, WeightMemory,
};
use tilewright::quant::{Format, Group, HalfType, Order, PackedHeader, PackedWeights, Scheme, Zeros};
use tilewright::{Device, Element, F8E4M3, Result, Stream, Tensor, TensorView, TensorViewMut, bf16};
use tilewright_support::random::normal;
use tilewright_support::timing::sets;

use crate::case::{Case, Of};

/// A case that can be computed on a device, on one of several sets of inputs.
pub struct Problem {
    pub case: Case,
    /// It takes all of them to find none in the cache when it is used again.
    pub sets: usize,
    inputs: Inputs,
    c: RefCell<Tensor<bf16>>,
    /// Gates and ups, between the two steps that gated units are one of.
    wide: RefCell<Tensor<bf16>>,
    offsets: Tensor<i32>,
}

/// The left and the right matrices.
enum Inputs {
    Halves(Box<[Tensor<bf16>; 2]>),
    /// With their scales.
    Blocks(Box<[(Tensor<F8E4M3>, Tensor<f32>); 2]>),
    /// Narrow weights for each set.
    Narrow(Box<(Tensor<bf16>, Vec<DeviceWeights>)>),
}

/// Random data that repeats: an odd period keeps matrices from being equal.
fn random<T: Element>(device: &Device, shape: &[usize], some: impl Fn(usize) -> Vec<T>) -> Result<Tensor<T>> {
    let len = shape.iter().product::<usize>();
    let period = some(len.min((1 << 24) - 77));
    let period = Tensor::from_slice(device, &period, &[period.len()])?;
    let mut all = Tensor::uninit(device, &[len])?;
    let stream = device.default_stream();
    for start in (0..len).step_by(period.len()) {
        let count = period.len().min(len - start);
        let mut part = all.view_mut().narrow(0, start, count)?;
        part.copy_from(&stream, &period.view().narrow(0, 0, count)?)?;
    }
    stream.synchronize()?;
    all.reshape(shape)
}

/// Codes of normal numbers, with scales of blocks of `rows` x 128.
fn blocks(device: &Device, shape: &[usize], rows: usize) -> Result<(Tensor<F8E4M3>, Tensor<f32>)> {
    let codes = |len| normal::<f32>(1, len).into_iter().map(F8E4M3::from_f32).collect();
    let mut scales = shape.to_vec();
    let last = shape.len() - 1;
    (scales[last - 1], scales[last]) = (shape[last - 1].div_ceil(rows), shape[last].div_ceil(128));
    let factors = |len| normal::<f32>(2, len).into_iter().map(f32::exp2).collect();
    Ok((random(device, shape, codes)?, random(device, &scales, factors)?))
}

/// Random u4 weights of all experts, with scales of groups of 128.
fn narrow(device: &Device, [n, k]: [usize; 2]) -> Result<DeviceWeights> {
    let (format, group, zeros, scales) = (Format::U4, Group::K128, Zeros::None, HalfType::BF16);
    let scheme = Scheme { format, group, zeros, scales };
    let header = PackedHeader { version: PackedWeights::VERSION, scheme, order: Order::B16, n, k };
    let bytes = |len| normal::<f32>(3, len).into_iter().map(|x| x.to_bits() as u8).collect();
    let codes = random(device, &[header.code_bytes()], bytes)?;
    let factors = |len| normal::<f32>(4, len).into_iter().map(|x| bf16::from_f32(x.exp2() / 16.0)).collect();
    let scales = random(device, &[header.groups() * header.padded_n()], factors)?;
    let at = [codes.address(), scales.address()];
    // SAFETY: the tensors are the owner's, and as large as the header says. All scales are finite, and less than 64: of 2^24 normal values none reaches 10.
    unsafe {
        let memory = WeightMemory::from_raw_parts(device, &header, at[0], at[1], None, (codes, scales))?;
        let facts = WeightFacts { integer_zeros: true, low_scales: true };
        DeviceWeights::from_memory("experts", &header, memory, facts)
    }
}

/// A set's.
fn of_set((codes, scales): &(Tensor<F8E4M3>, Tensor<f32>), set: usize) -> Result<BlockScaled<'_>> {
    Ok(BlockScaled { codes: codes.view().select(0, set)?, scales: scales.view().select(0, set)? })
}

impl Problem {
    pub fn new(device: &Device, case: Case) -> Result<Self> {
        let Case { experts, n, k, of, .. } = case;
        let (sets, entries) = (sets(device, case.bytes()), case.entries());
        let mut offsets = vec![0];
        for count in case.counts() {
            offsets.push(offsets[offsets.len() - 1] + count as i32);
        }
        let (x, w, y): (&[usize], &[usize], &[usize]) =
            (&[sets, entries, k], &[sets, experts, n, k], &[sets, entries, n]);
        let units: &[usize] = &[sets, entries, n / 2];
        let halves = |shape| random(device, shape, |len| normal::<bf16>(1, len));
        let (inputs, c) = match of {
            Of::Products => (Inputs::Halves(Box::new([halves(x)?, halves(w)?])), y),
            Of::Gated => (Inputs::Halves(Box::new([halves(x)?, halves(w)?])), units),
            Of::Gradient => (Inputs::Halves(Box::new([halves(y)?, halves(x)?])), w),
            Of::Blocks => (Inputs::Blocks(Box::new([blocks(device, x, 1)?, blocks(device, w, 128)?])), y),
            Of::Narrow => {
                let all = (0..sets).map(|_| narrow(device, [experts * n, k])).collect::<Result<_>>()?;
                (Inputs::Narrow(Box::new((halves(x)?, all))), y)
            }
        };
        let offsets = Tensor::from_slice(device, &offsets, &[offsets.len()])?;
        let wide = Tensor::uninit(device, if of == Of::Gated { &y[1..] } else { &[0, 0] })?;
        let [c, wide] = [Tensor::uninit(device, c)?, wide].map(RefCell::new);
        Ok(Problem { case, sets, inputs, c, wide, offsets })
    }

    /// `use_it` of a set's operands, by what computes them.
    fn with<R>(
        &self,
        set: usize,
        halves: impl FnOnce([TensorView<'_, bf16>; 2], &GroupRows<'_>, TensorViewMut<'_, bf16>) -> Result<R>,
        blocks: impl FnOnce([BlockScaled<'_>; 2], &GroupRows<'_>, TensorViewMut<'_, bf16>) -> Result<R>,
        narrow: impl FnOnce(
            TensorView<'_, bf16>,
            &DeviceWeights,
            &GroupRows<'_>,
            TensorViewMut<'_, bf16>,
        ) -> Result<R>,
    ) -> Result<R> {
        let mut c = self.c.borrow_mut();
        let (rows, c) = (GroupRows::offsets(self.offsets.view()), c.view_mut().select(0, set)?);
        match &self.inputs {
            Inputs::Halves(both) => {
                let [a, b] = &**both;
                halves([a.view().select(0, set)?, b.view().select(0, set)?], &rows, c)
            }
            Inputs::Blocks(both) => {
                let [a, b] = &**both;
                let [a, b] = [of_set(a, set)?, of_set(b, set)?];
                blocks([a, b], &rows, c)
            }
            Inputs::Narrow(both) => narrow(both.0.view().select(0, set)?, &both.1[set], &rows, c),
        }
    }

    /// The operator of products or of their gated units.
    fn products<'a>(&self) -> GroupedGemm<'a> {
        let gemm = GroupedGemm::new();
        if self.case.of == Of::Gated { gemm.gated(Activation::Silu) } else { gemm }
    }

    /// Every kernel that can compute this case, with the operator's estimate, the best first.
    pub fn candidates(&self) -> Result<Vec<(&'static str, Option<u64>)>> {
        let gradient = self.case.of == Of::Gradient;
        self.with(
            0,
            |[a, b], rows, c| {
                Ok(if gradient {
                    let all = KGroupedGemm::new().candidates(&a, &b, rows, &c)?;
                    all.iter().map(|one| (one.name(), one.cycles())).collect()
                } else {
                    let all = self.products().candidates(&a, &b.transpose(1, 2)?, rows, &c)?;
                    all.iter().map(|one| (one.name(), one.cycles())).collect()
                })
            },
            |[a, b], rows, c| {
                let all = GroupedScaledGemm::new().candidates(&a, &b, rows, &c)?;
                Ok(all.iter().map(|one| (one.name(), one.cycles())).collect())
            },
            |a, w, rows, c| {
                let all = GroupedDequantGemm::new().candidates(&a, w, rows, &c)?;
                Ok(all.iter().map(|one| (one.name(), one.cycles())).collect())
            },
        )
    }

    /// Queues the products, by the kernel of this name or the operator's choice.
    pub fn launch(&self, stream: &Stream, set: usize, kernel: Option<&str>) -> Result<()> {
        let gradient = self.case.of == Of::Gradient;
        self.with(
            set,
            |[a, b], rows, mut c| {
                if gradient {
                    let gemm = KGroupedGemm::new();
                    let gemm = kernel.map_or(gemm, |name| gemm.kernel(name));
                    return gemm.run(stream, &a, &b, rows, &mut c);
                }
                let gemm = self.products();
                let gemm = kernel.map_or(gemm, |name| gemm.kernel(name));
                gemm.run(stream, &a, &b.transpose(1, 2)?, rows, &mut c)
            },
            |[a, b], rows, mut c| {
                let gemm = GroupedScaledGemm::new();
                let gemm = kernel.map_or(gemm, |name| gemm.kernel(name));
                gemm.run(stream, &a, &b, rows, &mut c)
            },
            |a, w, rows, mut c| {
                let gemm = GroupedDequantGemm::new();
                let gemm = kernel.map_or(gemm, |name| gemm.kernel(name));
                gemm.run(stream, &a, w, rows, &mut c)
            },
        )
    }

    /// Queues the products of gates and ups, then their units.
    pub fn launch_steps(&self, stream: &Stream, set: usize) -> Result<()> {
        let Inputs::Halves(both) = &self.inputs else { return Ok(()) };
        let (mut c, mut wide) = (self.c.borrow_mut(), self.wide.borrow_mut());
        let [a, b] = &**both;
        let (a, b) = (a.view().select(0, set)?, b.view().select(0, set)?.transpose(1, 2)?);
        let rows = GroupRows::offsets(self.offsets.view());
        GroupedGemm::new().run(stream, &a, &b, &rows, &mut wide.view_mut())?;
        let units = &mut c.view_mut().select(0, set)?;
        Gated::new(Activation::Silu).run_packed(stream, &wide.view(), units)
    }
}
