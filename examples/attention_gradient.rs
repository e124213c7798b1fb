//! Computes the gradients of attention on the GPU or, where there is none, on the emulator; checks the results, and shows the speed on a GPU.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::Parser;
use tilewright::ops::{Attention, AttentionGradient};
use tilewright::{Device, Stream, Tensor, bf16};
use tilewright_support::attention::Scores;
use tilewright_support::attention_gradient::{Head, agrees};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::timing::{Options, Variant, compare};
use tilewright_support::{Real, Result};

/// Computes dQ, dK and dV of O = softmax(Q Kᵀ / sqrt(D)) V on random tensors [batch, heads, length, D] of bf16, full and causal, as fast as it goes and
/// with the same bits in each run. Checks the gradients of small ones, and measures the speed if there is a GPU.
#[derive(Parser)]
#[command(name = "attention_gradient", override_usage = "attention_gradient [BATCH HEADS LENGTH D]")]
struct Arguments {
    /// Sequences, heads, their length, and head dimension [default: several shapes]
    #[arg(num_args = 4, value_names = ["BATCH", "HEADS", "LENGTH", "D"], value_parser = clap::value_parser!(u32).range(1..))]
    shape: Vec<u32>,
}

type Shape = [usize; 4];

const SHAPES: [Shape; 4] = [[1, 2, 300, 128], [4, 16, 4096, 128], [4, 32, 4096, 64], [4, 8, 4096, 256]];
/// What the emulator computes in a moment.
const EMULATED: [Shape; 2] = [[1, 2, 200, 128], [1, 1, 130, 64]];
/// The longest sequences that are compared with gradients in f64.
const CHECKED: usize = 512;

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    show(&device);
    let shapes = match arguments.shape[..] {
        [batch, heads, length, columns] => vec![[batch, heads, length, columns].map(|size| size as usize)],
        _ if device.is_emulator() => EMULATED.to_vec(),
        _ => SHAPES.to_vec(),
    };
    for shape in shapes {
        for causal in [false, true] {
            one(&device, shape, causal)?;
        }
    }
    Ok(())
}

/// The gradients of one attention.
fn one(device: &Device, shape: Shape, causal: bool) -> Result<()> {
    let [batch, heads, length, columns] = shape;
    let mask = if causal { "causal" } else { "full" };
    println!("\nbatch {batch}, heads {heads}, length {length}, head dimension {columns}, {mask}");
    let (stream, of_all) = (device.default_stream(), [batch, heads, length, columns]);
    let count = of_all.iter().product();
    let inputs = [1, 2, 3, 4].map(|seed| normal::<bf16>(seed, count));
    let on = |i: usize| Tensor::from_slice(device, &inputs[i], &of_all);
    let (q, k, v, d_o) = (on(0)?, on(1)?, on(2)?, on(3)?);
    let mut o = Tensor::filled(device, bf16::NAN, &of_all)?;
    let mut lse = Tensor::filled(device, f32::NAN, &of_all[..3])?;
    let attention = || if causal { Attention::new().causal() } else { Attention::new() };
    attention().lse(&mut lse.view_mut()).run(&stream, &q.view(), &k.view(), &v.view(), &mut o.view_mut())?;

    let to = || Tensor::filled(device, bf16::NAN, &of_all).map(RefCell::new);
    let outputs = [to()?, to()?, to()?];
    let gradient = |deterministic: bool| match deterministic {
        true => attention().gradient().deterministic(),
        false => attention().gradient(),
    };
    let plan = |deterministic| {
        let [mut d_q, mut d_k, mut d_v] = outputs.each_ref().map(RefCell::borrow_mut);
        let outputs = [&d_q.view_mut(), &d_k.view_mut(), &d_v.view_mut()];
        let inputs = [&q.view(), &k.view(), &v.view()];
        gradient(deterministic).plan(inputs, (&o.view(), &lse.view()), &d_o.view(), outputs)
    };
    let len = plan(false)?.workspace_len().max(plan(true)?.workspace_len());
    let workspace = RefCell::new(Tensor::<f32>::uninit(device, &[len])?);
    let launch = |stream: &Stream, deterministic| {
        let [mut d_q, mut d_k, mut d_v] = outputs.each_ref().map(RefCell::borrow_mut);
        let mut workspace = workspace.borrow_mut();
        let mut workspace = workspace.view_mut();
        let gradient: AttentionGradient<'_> = gradient(deterministic);
        let inputs = [&q.view(), &k.view(), &v.view()];
        let outputs = [&mut d_q.view_mut(), &mut d_k.view_mut(), &mut d_v.view_mut()];
        let given = (&o.view(), &lse.view());
        gradient.workspace(&mut workspace).run(stream, inputs, given, &d_o.view(), outputs)
    };
    for deterministic in [false, true] {
        println!("  kernel: {}", plan(deterministic)?);
        launch(&stream, deterministic)?;
        let results: Vec<Vec<f32>> = outputs
            .iter()
            .map(|output| Ok(bf16::widen(&output.borrow().to_vec_on(&stream)?)))
            .collect::<Result<_>>()?;
        if length > CHECKED {
            continue;
        }
        // The last head's.
        let part = (batch * heads - 1) * length * columns..count;
        let [q, k, v, d_o] = inputs.each_ref().map(|input| &input[part.clone()]);
        let scores = Scores { causal, ..Scores::new(columns) };
        let exact = Head::new([q, k, v, d_o], length, length, [columns; 2]).gradients(&scores);
        for (name, (result, exact_of)) in
            ["dQ", "dK", "dV"].into_iter().zip(results.iter().zip([&exact.q, &exact.k, &exact.v]))
        {
            agrees::<bf16>(&result[part.clone()], exact_of, exact.reach, columns, 0.0)
                .map_err(|error| format!("{name} is wrong: {error}"))?;
        }
        println!("  right: the last head's gradients are those computed in f64");
    }
    if device.is_emulator() {
        return Ok(());
    }
    let launch = &launch;
    let variants = [("as fast as it goes", false), ("deterministic", true)]
        .map(|(name, way)| Variant::new(name, move |stream: &Stream, _| launch(stream, way)));
    let flops = 10.0 * count as f64 * length as f64 / if causal { 2.0 } else { 1.0 };
    for timing in compare(device, &variants, &Options { sets: 1, ..Options::default() })? {
        let ms = timing.median();
        println!("  {}: {ms:.4} ms, {:.1} TFLOP/s", timing.name, flops / ms / 1e9);
    }
    Ok(())
}
