//! Computes attention of 8-bit floats, with a scale for each head; checks the results, and shows the speed beside bf16 on a GPU.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::Parser;
use tilewright::ops::{Attention, ScaledAttention};
use tilewright::{Device, F8E4M3, Stream, Tensor, bf16};
use tilewright_support::Result;
use tilewright_support::attention::{Head, Scores};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::reference::{relative_error, sample};
use tilewright_support::timing::{Options, Variant, compare};

/// Quantises random Q, K and V to e4m3, each head by its largest value, and computes O = softmax(Q Kᵀ / sqrt(D)) V, causal, of that. Checks O against f64, with what
/// was quantised and with what it was before, and measures the speed beside bf16 if there is a GPU.
#[derive(Parser)]
#[command(name = "attention_fp8", override_usage = "attention_fp8 [BATCH HEADS KV_HEADS LENGTH D]")]
struct Arguments {
    /// Sequences, heads, heads of keys and values, length, and head dimension, a multiple of 16 [default: 4 16 4 4096 128, on the emulator 1 4 1 200 64]
    #[arg(num_args = 5, value_names = ["BATCH", "HEADS", "KV_HEADS", "LENGTH", "D"], value_parser = clap::value_parser!(u32).range(1..))]
    shape: Vec<u32>,
}

/// Queries of the first and the last head that are compared.
const CHECKED_QUERIES: usize = 32;
/// What the result may be off by, relative to its length: from that of what was quantised, and from that of what it was before.
const ALLOWED: [f64; 2] = [0.05, 0.1];
/// The largest number of e4m3.
const LARGEST: f32 = 448.0;

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

/// A tensor \[batch, heads, length, D\]: what it was, its codes, and what those of each head are multiplied by.
struct Quantized {
    values: Vec<f32>,
    codes: Vec<F8E4M3>,
    scales: Vec<f32>,
    shape: [usize; 4],
}

impl Quantized {
    /// Random numbers; those of head h have a standard deviation of 1 / (1 + h).
    fn random(seed: u64, shape: [usize; 4]) -> Self {
        let [_, heads, length, d] = shape;
        let mut values = normal::<f32>(seed, shape.iter().product());
        let mut scales = Vec::new();
        for (i, head) in values.chunks_mut(length * d).enumerate() {
            let size = 1.0 / (1 + i % heads) as f32;
            head.iter_mut().for_each(|x| *x *= size);
            scales.push(head.iter().fold(0f32, |most, x| most.max(x.abs())) / LARGEST);
        }
        let codes = values.chunks(length * d).zip(&scales);
        let codes =
            codes.flat_map(|(head, scale)| head.iter().map(move |x| F8E4M3::from_f32(x / scale))).collect();
        Quantized { values, codes, scales, shape }
    }

    fn tensors(&self, device: &Device) -> tilewright::Result<(Tensor<F8E4M3>, Tensor<f32>, Tensor<bf16>)> {
        let wide: Vec<_> = self.values.iter().map(|&x| bf16::from_f32(x)).collect();
        Ok((
            Tensor::from_slice(device, &self.codes, &self.shape)?,
            Tensor::from_slice(device, &self.scales, &self.shape[..2])?,
            Tensor::from_slice(device, &wide, &self.shape)?,
        ))
    }

    /// A head's values, as they were or as their codes say.
    fn head(&self, head: usize, quantized: bool) -> Vec<f32> {
        let each = self.shape[2] * self.shape[3];
        let of = head * each..(head + 1) * each;
        if quantized {
            self.codes[of].iter().map(|code| code.to_f32() * self.scales[head]).collect()
        } else {
            self.values[of].to_vec()
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    show(&device);
    let [batch, heads, kv_heads, length, d] = match arguments.shape[..] {
        [batch, heads, kv_heads, length, d] => [batch, heads, kv_heads, length, d].map(|size| size as usize),
        _ if device.is_emulator() => [1, 4, 1, 200, 64],
        _ => [4, 16, 4, 4096, 128],
    };
    let (of_q, of_k) = ([batch, heads, length, d], [batch, kv_heads, length, d]);
    let inputs = [(1, of_q), (2, of_k), (3, of_k)].map(|(seed, shape)| Quantized::random(seed, shape));
    let [(q, of_q, wide_q), (k, of_k, wide_k), (v, of_v, wide_v)] =
        [inputs[0].tensors(&device)?, inputs[1].tensors(&device)?, inputs[2].tensors(&device)?];
    let o = RefCell::new(Tensor::filled(&device, bf16::NAN, &[batch, heads, length, d])?);
    let (q, k, v) = (q.view(), k.view(), v.view());
    let (of_q, of_k, of_v) = (of_q.view(), of_k.view(), of_v.view());
    let scaled = || ScaledAttention::new().causal().scale_q(&of_q).scale_k(&of_k).scale_v(&of_v);
    let plan = scaled().plan(&q, &k, &v, &o.borrow_mut().view_mut())?;
    println!("kernel: {plan}");
    let workspace = RefCell::new(Tensor::<f32>::uninit(&device, &[plan.workspace_len()])?);
    let attend = |stream: &Stream| {
        let mut workspace = workspace.borrow_mut();
        let mut workspace = workspace.view_mut();
        scaled().workspace(&mut workspace).run(stream, &q, &k, &v, &mut o.borrow_mut().view_mut())
    };
    attend(&device.default_stream())?;

    let rows = sample(length, CHECKED_QUERIES);
    let scores = Scores { causal: true, ..Scores::new(d) };
    let found = o.borrow().to_vec()?;
    for (quantized, allowed, what) in [(true, ALLOWED[0], "the codes' values"), (false, ALLOWED[1], "f32")] {
        let mut error = 0f64;
        for head in [0, batch * heads - 1] {
            let kv = head / heads * kv_heads + head % heads / (heads / kv_heads);
            let of = [
                inputs[0].head(head, quantized),
                inputs[1].head(kv, quantized),
                inputs[2].head(kv, quantized),
            ];
            let exact =
                Head::new::<f32>([&of[0], &of[1], &of[2]], length, length, [d, d]).rows(&rows, &scores);
            let exact: Vec<_> = exact.into_iter().flat_map(|row| row.o).collect();
            let of_rows = |&row: &usize| &found[(head * length + row) * d..][..d];
            let found: Vec<_> = rows.iter().flat_map(of_rows).copied().collect();
            let off = relative_error(&found, &exact);
            // A NaN is not less.
            error = if off <= error { error } else { off };
        }
        println!("relative error against attention of {what} in f64: {error:.4}");
        if error.is_nan() || error > allowed {
            return Err(format!("an error of at most {allowed} is expected").into());
        }
    }
    if device.is_emulator() {
        return Ok(());
    }

    let (q, k, v) = (wide_q.view(), wide_k.view(), wide_v.view());
    let plain =
        |stream: &Stream| Attention::new().causal().run(stream, &q, &k, &v, &mut o.borrow_mut().view_mut());
    let variants = [
        Variant::new("e4m3", |stream: &Stream, _| attend(stream)),
        Variant::new("bf16", |stream: &Stream, _| plain(stream)),
    ];
    let flops = 2.0 * (batch * heads * length * length * d) as f64;
    for timing in compare(&device, &variants, &Options::default())? {
        let ms = timing.median();
        println!("{}: {ms:.4} ms, {:.0} TFLOP/s", timing.name, flops / ms / 1e9);
    }
    Ok(())
}
