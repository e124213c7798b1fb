//! A layer of experts on the GPU or, where there is none, on the emulator: router, products of groups, weighted sums. Checks rows of the result
//! against sums in f64, and measures the speed on a GPU.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::Parser;
use tilewright::ops::{DeviceWeights, Experts, Moe};
use tilewright::quant::{Format, Group, HalfType, Order, Scheme, Zeros};
use tilewright::{Device, Stream, Tensor, bf16};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, product, relative_error, sample};
use tilewright_support::timing::{Options, Variant, compare};
use tilewright_support::{Real, Result};

/// Computes y = Σ weight · (silu(x gate) · x up) down over the experts that a router chooses for each token.
#[derive(Parser)]
#[command(name = "moe", override_usage = "moe [OPTIONS] [TOKENS HIDDEN INNER EXPERTS TOP]")]
struct Arguments {
    /// Tokens, their columns, columns of a gate, experts, experts of a token [default: several shapes]
    #[arg(num_args = 5, value_parser = clap::value_parser!(u32).range(1..))]
    shape: Vec<u32>,
    /// Leaves weights as the softmax of all logits gives them
    #[arg(long)]
    plain: bool,
    /// Experts of 4 bits, with scales of groups of 128
    #[arg(long)]
    u4: bool,
}

/// Tokens that are compared.
const CHECKED: usize = 16;

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    show(&device);
    let shapes = match arguments.shape[..] {
        [tokens, hidden, inner, experts, top] => {
            vec![[tokens, hidden, inner, experts, top].map(|size| size as usize)]
        }
        _ if device.is_emulator() && arguments.u4 => vec![[20, 128, 64, 8, 2], [5, 192, 32, 16, 3]],
        _ if device.is_emulator() => vec![[20, 128, 64, 8, 2], [5, 72, 40, 16, 3]],
        // A layer of Qwen3-30B-A3B; Mixtral's experts, narrower.
        _ => vec![[4096, 2048, 768, 128, 8], [64, 2048, 768, 128, 8], [2048, 4096, 3584, 8, 2]],
    };
    shapes.into_iter().try_for_each(|shape| layer(&device, shape, arguments))
}

/// A layer's tensors on the host.
struct Layer {
    shape: [usize; 5],
    x: Vec<bf16>,
    logits: Vec<f32>,
    gate_up: Vec<bf16>,
    down: Vec<bf16>,
    normalized: bool,
}

impl Layer {
    fn new(shape: [usize; 5], normalized: bool) -> Self {
        let [tokens, hidden, inner, experts, _] = shape;
        let weights = |seed, len, depth: usize| {
            let some = normal::<f32>(seed, len).into_iter();
            bf16::round(&some.map(|w| w / (depth as f32).sqrt()).collect::<Vec<_>>())
        };
        Layer {
            shape,
            x: normal(1, tokens * hidden),
            logits: normal(2, tokens * experts),
            gate_up: weights(3, experts * 2 * inner * hidden, hidden),
            down: weights(4, experts * hidden * inner, inner),
            normalized,
        }
    }

    /// A token's experts, with their weights.
    fn routed(&self, token: usize) -> Vec<(usize, f64)> {
        let [_, _, _, experts, top] = self.shape;
        let logits = &self.logits[token * experts..][..experts];
        let mut order: Vec<_> = (0..experts).collect();
        order.sort_by(|&i, &j| logits[j].total_cmp(&logits[i]));
        let exp = |expert: usize| f64::from(logits[expert]).exp();
        let all: f64 = if self.normalized {
            order[..top].iter().copied().map(exp).sum()
        } else {
            (0..experts).map(exp).sum()
        };
        order[..top].iter().map(|&expert| (expert, exp(expert) / all)).collect()
    }

    /// A token's row of y.
    fn row(&self, token: usize) -> Vec<f64> {
        let [_, hidden, inner, ..] = self.shape;
        let x = Matrix::new(&self.x[token * hidden..][..hidden], 1, hidden);
        let mut row = vec![0.0; hidden];
        for (expert, weight) in self.routed(token) {
            let gate_up = &self.gate_up[expert * 2 * inner * hidden..][..2 * inner * hidden];
            let wide = product(&x, &Matrix::new(gate_up, 2 * inner, hidden).t(), &[0]);
            let (gates, ups) = wide.split_at(inner);
            let units = gates.iter().zip(ups).map(|(gate, up)| (gate / (1.0 + (-gate).exp()) * up) as f32);
            let down = &self.down[expert * hidden * inner..][..hidden * inner];
            let units = Matrix::new(&units.collect::<Vec<_>>(), 1, inner);
            let part = product(&units, &Matrix::new(down, hidden, inner).t(), &[0]);
            row.iter_mut().zip(part).for_each(|(sum, part)| *sum += weight * part);
        }
        row
    }
}

/// Experts' matrices of 4 bits; `wide` becomes what their codes stand for.
fn narrow(stream: &Stream, wide: &mut Vec<bf16>, shape: [usize; 2]) -> Result<DeviceWeights> {
    let (format, group, zeros, scales) = (Format::U4, Group::K128, Zeros::Original, HalfType::BF16);
    let scheme = Scheme { format, group, zeros, scales };
    let on_device = Tensor::from_slice(stream.device(), wide, &shape)?;
    let weights = DeviceWeights::quantize(stream, "experts", &on_device.view(), (scheme, Order::B16), None)?;
    let codes = weights.download(stream)?.unpack()?;
    *wide = codes.dequantize().into_iter().map(bf16::from_f64).collect();
    Ok(weights)
}

fn layer(device: &Device, shape: [usize; 5], arguments: &Arguments) -> Result<()> {
    let (&Arguments { plain, u4, .. }, [tokens, hidden, inner, experts, top]) = (arguments, shape);
    println!("\n{tokens} tokens of {hidden}, {top} of {experts} experts of {inner}");
    let (mut layer, stream) = (Layer::new(shape, !plain), Stream::new(device)?);
    let codes = if u4 {
        let gate_up = narrow(&stream, &mut layer.gate_up, [experts * 2 * inner, hidden])?;
        Some([gate_up, narrow(&stream, &mut layer.down, [experts * hidden, inner])?])
    } else {
        None
    };
    let x = Tensor::from_slice(device, &layer.x, &[tokens, hidden])?;
    let logits = Tensor::from_slice(device, &layer.logits, &[tokens, experts])?;
    let gate_up = Tensor::from_slice(device, &layer.gate_up, &[experts, 2 * inner, hidden])?;
    let down = Tensor::from_slice(device, &layer.down, &[experts, hidden, inner])?;
    let mut y = Tensor::filled(device, bf16::NAN, &[tokens, hidden])?;

    let moe = if plain { Moe::new(top) } else { Moe::new(top).normalized() };
    let (x, logits) = (x.view(), logits.view());
    let (gate_up, down) = (gate_up.view().transpose(1, 2)?, down.view().transpose(1, 2)?);
    let [gate_up, down] = match &codes {
        Some([gate_up, down]) => [Experts::Narrow(gate_up), Experts::Narrow(down)],
        None => [Experts::Halves(&gate_up), Experts::Halves(&down)],
    };
    let len = moe.workspace_len(&x, &logits, gate_up, down)?;
    let mut workspace = Tensor::<f32>::uninit(device, &[len])?;
    println!("  a workspace of {:.1} MB", len as f64 * 4e-6);
    let room = &mut workspace.view_mut();
    moe.run(&stream, &x, &logits, gate_up, down, &mut y.view_mut(), room)?;

    let found = y.to_vec_on(&stream)?;
    let (mut out, mut exact) = (Vec::new(), Vec::new());
    for token in sample(tokens, CHECKED) {
        out.extend_from_slice(&found[token * hidden..][..hidden]);
        exact.extend(layer.row(token));
    }
    let error = relative_error(&out, &exact);
    // Products, units and their products are rounded, one after the other.
    let allowed = 3.0 * bf16::ROUNDING;
    println!("  relative error {error:.1e}");
    if error.is_nan() || error > allowed {
        return Err(format!("the relative error is {error:.1e}, {allowed:.1e} is allowed").into());
    }
    if !device.is_emulator() {
        let (y, room) = (RefCell::new(y), RefCell::new(workspace));
        let launch = |stream: &Stream, _| {
            let (y, room) = (&mut y.borrow_mut(), &mut room.borrow_mut());
            moe.run(stream, &x, &logits, gate_up, down, &mut y.view_mut(), &mut room.view_mut())
        };
        let options = Options { sets: 1, ..Options::default() };
        let timing = compare(device, &[Variant::new("layer", launch)], &options)?;
        let (ms, flops) = (timing[0].median(), 6.0 * (tokens * top * hidden) as f64 * inner as f64);
        println!("  {ms:.4} ms, {:.1} TFLOP/s", flops / ms / 1e9);
    }
    Ok(())
}
