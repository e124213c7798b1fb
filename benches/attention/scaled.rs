//! Attention of 8-bit floats beside that of bf16.

use std::cell::RefCell;

use tilewright::ops::{Attention, ScaledAttention};
use tilewright::{Device, F8E4M3, Stream, Tensor, bf16};
use tilewright_support::Result;
use tilewright_support::random::normal;
use tilewright_support::timing::{Variant, compare};

use crate::common::options;
use crate::shapes;

/// Sequences, queries, keys, heads, KV heads, columns of Q and K, and of V.
const SHAPES: [[usize; 7]; 8] = [
    [16, 1024, 1024, 16, 16, 128, 128],
    [4, 4096, 4096, 16, 16, 128, 128],
    [1, 16384, 16384, 16, 16, 128, 128],
    [4, 4096, 4096, 32, 8, 128, 128],
    [4, 4096, 4096, 32, 32, 64, 64],
    [4, 4096, 4096, 8, 8, 256, 256],
    [1, 16384, 16384, 8, 8, 256, 256],
    [2, 4096, 4096, 16, 16, 192, 128],
];

/// Prints the table, of the shapes that `words` name or of all: every kernel that can, the one that is chosen first.
pub fn table(device: &Device, words: &[String]) -> Result<()> {
    println!("\n| case | kernel | bf16 ms | e4m3 ms | TFLOP/s | of bf16 |");
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    let others = shapes::unlisted(words, &SHAPES);
    for shape in if others.is_empty() { &SHAPES[..] } else { &others } {
        for causal in [false, true] {
            measure(device, *shape, causal)?;
        }
    }
    Ok(())
}

/// Prints the rows of a shape.
fn measure(device: &Device, shape: [usize; 7], causal: bool) -> Result<()> {
    let [batch, queries, keys, heads, kv_heads, d, dv] = shape;
    let shapes = [[batch, heads, queries, d], [batch, kv_heads, keys, d], [batch, kv_heads, keys, dv]];
    let values = |of: usize| normal::<f32>(of as u64 + 1, shapes[of].iter().product());
    let wide = |of: usize| {
        let values: Vec<_> = values(of).into_iter().map(bf16::from_f32).collect();
        Tensor::from_slice(device, &values, &shapes[of])
    };
    let codes = |of: usize| {
        let values: Vec<_> = values(of).into_iter().map(F8E4M3::from_f32).collect();
        Tensor::from_slice(device, &values, &shapes[of])
    };
    let (wide, codes) = ([wide(0)?, wide(1)?, wide(2)?], [codes(0)?, codes(1)?, codes(2)?]);
    let ([q, k, v], [q8, k8, v8]) = (wide.each_ref().map(Tensor::view), codes.each_ref().map(Tensor::view));
    let o = RefCell::new(Tensor::<bf16>::zeros(device, &[batch, heads, queries, dv])?);
    let plain = || if causal { Attention::new().causal() } else { Attention::new() };
    let scaled = || if causal { ScaledAttention::new().causal() } else { ScaledAttention::new() };
    let len = plain().workspace_len(&q, &k, &v, &o.borrow_mut().view_mut())?;
    let room = RefCell::new(Tensor::<f32>::zeros(device, &[len])?);
    let len = scaled().plan(&q8, &k8, &v8, &o.borrow_mut().view_mut())?.workspace_len();
    let room8 = RefCell::new(Tensor::<f32>::zeros(device, &[len])?);
    let candidates = scaled().candidates(&q8, &k8, &v8, &o.borrow_mut().view_mut())?;
    let names: Vec<_> = candidates.iter().filter(|of| of.rejection().is_none()).map(|of| of.name()).collect();
    let mut variants = vec![Variant::new("bf16", |stream: &Stream, _| {
        let mut room = room.borrow_mut();
        let mut room = room.view_mut();
        plain().workspace(&mut room).run(stream, &q, &k, &v, &mut o.borrow_mut().view_mut())
    })];
    variants.extend(names.iter().map(|&name| {
        let (q8, k8, v8, room8, o, scaled) = (&q8, &k8, &v8, &room8, &o, &scaled);
        Variant::new(name, move |stream: &Stream, _| {
            let mut room = room8.borrow_mut();
            let mut room = room.view_mut();
            let mut attention = scaled().kernel(name).workspace(&mut room);
            attention.run(stream, q8, k8, v8, &mut o.borrow_mut().view_mut())
        })
    }));
    let timings = compare(device, &variants, &options(1))?;
    let [bf16, timings @ ..] = &timings[..] else { return Err("a time of each variant".into()) };
    let share = if causal { 0.5 } else { 1.0 };
    let flops = 2.0 * (batch * heads * queries * keys * (d + dv)) as f64 * share;
    let mask = if causal { "causal" } else { "full" };
    for (name, timing) in names.iter().zip(timings) {
        let (bf16, ms) = (bf16.median(), timing.median());
        println!(
            "| b{batch} s{queries} k{keys} h{heads}/{kv_heads} d{d}/{dv} {mask} | {name} | {bf16:.4} | {ms:.4} | {:.0} | **{:.2}** |",
            flops / ms / 1e9,
            bf16 / ms,
        );
    }
    Ok(())
}
