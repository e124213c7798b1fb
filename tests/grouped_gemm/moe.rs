//! Layers of experts against sums in f64.

use tilewright::ops::{Activation, Experts, HalfElement, Moe};
use tilewright::{Device, Error, Stream, Tensor, TensorView, bf16, f16};
use tilewright_support::Real;
use tilewright_support::activation::exact;
use tilewright_support::random::normal;
use tilewright_support::reference::relative_error;
use tilewright_support::suite::Outcome;

/// Tokens, their columns, columns of a gate, experts, experts of a token.
type Shape = [usize; 5];

struct Layer<T> {
    shape: Shape,
    gate_up: Vec<T>,
    down: Vec<T>,
    normalized: bool,
    activation: Activation,
}

impl<T: Real + HalfElement> Layer<T> {
    fn new(shape: Shape, normalized: bool, activation: Activation) -> Self {
        let [_, hidden, inner, experts, _] = shape;
        let scaled = |seed, len, depth: usize| {
            let some: Vec<_> = normal::<f32>(seed, len).iter().map(|w| w / (depth as f32).sqrt()).collect();
            T::round(&some)
        };
        let gate_up = scaled(3, experts * hidden * 2 * inner, hidden);
        Layer { shape, gate_up, down: scaled(4, experts * inner * hidden, inner), normalized, activation }
    }

    fn moe(&self) -> Moe {
        let moe = Moe::new(self.shape[4]).activation(self.activation);
        if self.normalized { moe.normalized() } else { moe }
    }

    /// y of these tokens and logits; units are rounded to the type, as they are on the device.
    fn reference(&self, x: &[T], logits: &[f32]) -> Vec<f64> {
        let [tokens, hidden, inner, experts, top] = self.shape;
        let (gate_up, down) = (T::widen(&self.gate_up), T::widen(&self.down));
        let wide: Vec<f64> = T::widen(x).into_iter().map(f64::from).collect();
        let mut y = vec![0.0; tokens * hidden];
        for token in 0..tokens {
            let logits = &logits[token * experts..][..experts];
            let mut order: Vec<_> = (0..experts).collect();
            order.sort_by(|&i, &j| logits[j].total_cmp(&logits[i]));
            let exp = |&expert: &usize| f64::from(logits[expert]).exp();
            let all: f64 = order[..if self.normalized { top } else { experts }].iter().map(exp).sum();
            for expert in &order[..top] {
                let column = |j: usize| -> f64 {
                    let at = |i: usize| f64::from(gate_up[(expert * hidden + i) * 2 * inner + j]);
                    (0..hidden).map(|i| wide[token * hidden + i] * at(i)).sum()
                };
                for j in 0..inner {
                    let unit = exact(self.activation, column(j)) * column(inner + j) * exp(expert) / all;
                    let line = &down[(expert * inner + j) * hidden..][..hidden];
                    let sums = &mut y[token * hidden..][..hidden];
                    sums.iter_mut().zip(line).for_each(|(sum, &w)| *sum += unit * f64::from(w));
                }
            }
        }
        y
    }

    fn check(&self, device: &Device) -> Outcome {
        let [_, hidden, inner, experts, _] = self.shape;
        let gate_up = Tensor::from_slice(device, &self.gate_up, &[experts, hidden, 2 * inner])?;
        let down = Tensor::from_slice(device, &self.down, &[experts, inner, hidden])?;
        self.check_with(device, (&gate_up.view()).into(), (&down.view()).into(), 8)
    }

    /// With gates and ups whose columns are contiguous: so many launches.
    fn check_turned(&self, device: &Device, launches: usize) -> Outcome {
        let [_, hidden, inner, experts, _] = self.shape;
        let wide = 2 * inner;
        let at =
            |i: usize| self.gate_up[(i / (wide * hidden) * hidden + i % hidden) * wide + i / hidden % wide];
        let turned: Vec<_> = (0..self.gate_up.len()).map(at).collect();
        let turned = Tensor::from_slice(device, &turned, &[experts, wide, hidden])?;
        let down = Tensor::from_slice(device, &self.down, &[experts, inner, hidden])?;
        let gate_up = turned.view().transpose(1, 2)?;
        self.check_with(device, (&gate_up).into(), (&down.view()).into(), launches)
    }

    /// Runs it with these matrices on some tokens, then in a graph of so many launches on others.
    fn check_with(
        &self,
        device: &Device,
        gate_up: Experts<'_, T>,
        down: Experts<'_, T>,
        launches: usize,
    ) -> Outcome {
        let (stream, [tokens, hidden, _, experts, _]) = (Stream::new(device)?, self.shape);
        let inputs = |seed| (normal::<T>(seed, tokens * hidden), normal::<f32>(seed + 1, tokens * experts));
        let (first, others) = (inputs(5), inputs(7));
        let mut x = Tensor::from_slice(device, &first.0, &[tokens, hidden])?;
        let mut logits = Tensor::from_slice(device, &first.1, &[tokens, experts])?;
        let (mut y, moe) = (Tensor::filled(device, T::POISON, &[tokens, hidden])?, self.moe());
        let len = moe.workspace_len(&x.view(), &logits.view(), gate_up, down)?;
        let mut room = Tensor::filled(device, f32::NAN, &[len])?;
        let graph = {
            let (x, logits, mut y) = (x.view(), logits.view(), y.view_mut());
            let room = &mut room.view_mut();
            let mut call = |stream: &Stream| moe.run(stream, &x, &logits, gate_up, down, &mut y, room);
            // Kernels' loading is not to be recorded.
            call(&stream)?;
            stream.synchronize()?;
            stream.capture(|stream| call(stream))?
        };
        assert_eq!(graph.nodes(), launches, "{:?}", self.shape);
        let near = |y: &Tensor<T>, (x, logits): &(Vec<T>, Vec<f32>)| {
            let error = relative_error(&y.to_vec_on(&stream)?, &self.reference(x, logits));
            // Two products, units and their sum are rounded.
            assert!(error < 3.0 * T::ROUNDING, "{:?}: {error}", self.shape);
            Ok::<_, tilewright::Error>(())
        };
        near(&y, &first)?;
        x.write(&others.0)?;
        logits.write(&others.1)?;
        // SAFETY: the tensors are alive.
        unsafe { graph.launch(&stream)? };
        near(&y, &others)?;
        Ok(())
    }
}

pub fn layers(device: &Device) -> Outcome {
    Layer::<bf16>::new([20, 64, 40, 8, 2], true, Activation::Silu).check(device)?;
    Layer::<f16>::new([20, 64, 40, 8, 2], false, Activation::Gelu).check(device)?;
    Layer::<bf16>::new([7, 72, 24, 5, 5], true, Activation::Silu).check(device)?;
    Layer::<f16>::new([1, 33, 17, 3, 1], true, Activation::Relu).check(device)
}

/// Layers whose product of gates and ups stores units, or would if its lines were aligned.
pub fn fused(device: &Device) -> Outcome {
    Layer::<bf16>::new([20, 64, 40, 8, 2], true, Activation::Silu).check_turned(device, 7)?;
    Layer::<f16>::new([40, 72, 24, 5, 5], false, Activation::Gelu).check_turned(device, 7)?;
    Layer::<bf16>::new([1, 136, 17, 3, 1], true, Activation::Relu).check_turned(device, 7)?;
    Layer::<f16>::new([3, 33, 17, 3, 1], true, Activation::Silu).check_turned(device, 8)
}

/// Layers of narrow weights, whose values are numbers of the type.
#[cfg(feature = "dequant_gemm")]
pub fn narrow_weights(device: &Device) -> Outcome {
    use tilewright::ops::DeviceWeights;
    use tilewright::quant::{Format, Group, Halves, Order, QuantizedWeights, ZeroPoints};

    fn check<T: Real + HalfElement>(device: &Device, shape: Shape) -> Outcome {
        let [_, hidden, inner, experts, _] = shape;
        let stacked = |[n, k]: [usize; 2]| {
            let rows = experts * n;
            let codes = (0..rows * k).map(|i| (i * 7919 % 10_007 % 16) as u8).collect();
            let scales = Halves::round(T::HALF, (0..rows).map(|_| 0.031_25));
            let zeros = ZeroPoints::None;
            QuantizedWeights::new("experts", Format::U4, Group::Row, [rows, k], codes, scales, zeros)
        };
        // As [experts, K, N].
        let turned = |w: &QuantizedWeights, [n, k]: [usize; 2]| {
            let all: Vec<_> = w.dequantize().into_iter().map(|w| w as f32).collect();
            let at = |i: usize| all[(i / (n * k) * n + i % n) * k + i / n % k];
            T::round(&(0..all.len()).map(at).collect::<Vec<_>>())
        };
        let (wide, tall) = ([2 * inner, hidden], [hidden, inner]);
        let (gate_up, down) = (stacked(wide)?, stacked(tall)?);
        let layer = Layer {
            gate_up: turned(&gate_up, wide),
            down: turned(&down, tall),
            ..Layer::<T>::new(shape, true, Activation::Silu)
        };
        let gate_up = DeviceWeights::upload(device, &gate_up.pack(Order::B16)?)?;
        let on_device = DeviceWeights::upload(device, &down.pack(Order::B16)?)?;
        layer.check_with(device, (&gate_up).into(), (&on_device).into(), 8)?;
        // One of the products alone.
        let [_, hidden, inner, experts, _] = shape;
        let down = Tensor::from_slice(device, &layer.down, &[experts, inner, hidden])?;
        layer.check_with(device, (&gate_up).into(), (&down.view()).into(), 8)
    }
    check::<bf16>(device, [20, 64, 32, 8, 2])?;
    check::<f16>(device, [5, 128, 64, 4, 1])
}

/// NaN among a token's logits is its row's alone.
pub fn not_a_number(device: &Device) -> Outcome {
    let layer = Layer::<bf16>::new([4, 64, 32, 8, 2], true, Activation::Silu);
    for layer in [Layer { normalized: false, ..layer.again() }, layer] {
        let (stream, mut logits) = (Stream::new(device)?, normal::<f32>(1, 4 * 8));
        logits[8 + 3] = f32::NAN;
        let x = Tensor::from_slice(device, &normal::<bf16>(2, 4 * 64), &[4, 64])?;
        let logits = Tensor::from_slice(device, &logits, &[4, 8])?;
        let gate_up = Tensor::from_slice(device, &layer.gate_up, &[8, 64, 64])?;
        let down = Tensor::from_slice(device, &layer.down, &[8, 32, 64])?;
        let mut y = Tensor::<bf16>::zeros(device, &[4, 64])?;
        let (x, logits, gate_up, down) = (x.view(), logits.view(), gate_up.view(), down.view());
        let mut room =
            Tensor::<f32>::zeros(device, &[layer.moe().workspace_len(&x, &logits, &gate_up, &down)?])?;
        let (to, room) = (&mut y.view_mut(), &mut room.view_mut());
        layer.moe().run(&stream, &x, &logits, &gate_up, &down, to, room)?;
        for (i, y) in y.to_vec_on(&stream)?.into_iter().enumerate() {
            assert_eq!(y.is_nan(), i / 64 == 1, "element {i}");
        }
    }
    Ok(())
}

impl<T: Clone> Layer<T> {
    fn again(&self) -> Self {
        Layer { gate_up: self.gate_up.clone(), down: self.down.clone(), ..*self }
    }
}

fn narrow<'a>(of: &TensorView<'a, f16>, dim: usize) -> tilewright::Result<TensorView<'a, f16>> {
    of.clone().narrow(dim, 0, 3)
}

pub fn refused(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let tensor = |shape: &[usize]| Tensor::<f16>::zeros(device, shape);
    let (x, gate_up, down) = (tensor(&[4, 64])?, tensor(&[8, 64, 64])?, tensor(&[8, 32, 64])?);
    let logits = Tensor::<f32>::zeros(device, &[4, 8])?;
    let (mut y, mut wrong) = (tensor(&[4, 64])?, tensor(&[5, 64])?);
    let (x, gate_up, down, logits) = (x.view(), gate_up.view(), down.view(), logits.view());
    let len = Moe::new(2).workspace_len(&x, &logits, &gate_up, &down)?;
    let mut room = Tensor::<f32>::zeros(device, &[len])?;
    for (name, top, x, logits, gate_up, down) in [
        ("x", 2, x.clone().select(0, 0)?, logits.clone(), gate_up.clone(), down.clone()),
        ("down", 2, narrow(&x, 1)?, logits.clone(), gate_up.clone(), down.clone()),
        ("gate_up", 2, x.clone(), logits.clone(), narrow(&gate_up, 2)?, down.clone()),
        ("logits", 2, x.clone(), logits.clone().narrow(1, 0, 7)?, gate_up.clone(), down.clone()),
        ("top", 0, x.clone(), logits.clone(), gate_up.clone(), down.clone()),
        ("top", 9, x.clone(), logits.clone(), gate_up.clone(), down.clone()),
    ] {
        let (y, room) = (&mut y.view_mut(), &mut room.view_mut());
        match Moe::new(top).run(&stream, &x, &logits, &gate_up, &down, y, room) {
            Err(Error::Argument { argument, .. }) if argument == name => {}
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    }
    let moe = Moe::new(2);
    let error = moe.run(&stream, &x, &logits, &gate_up, &down, &mut wrong.view_mut(), &mut room.view_mut());
    assert!(matches!(error, Err(Error::Argument { argument, .. }) if argument == "y"));
    let mut small = room.view_mut().narrow(0, 0, len - 1)?;
    let error = moe.run(&stream, &x, &logits, &gate_up, &down, &mut y.view_mut(), &mut small);
    assert!(matches!(error, Err(Error::Argument { argument, .. }) if argument == "workspace"));
    Ok(())
}
