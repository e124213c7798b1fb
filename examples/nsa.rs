//! A layer of native sparse attention (Yuan et al. 2025, "Native Sparse Attention", section 3.3) of existing operators, on the GPU or, where there is none, on the
//! emulator: compressed, selected and sliding-window branches, added by gates. Checks the result against the same formulas in f64.

use std::process::ExitCode;

use clap::Parser;
use tilewright::ops::{Attention, Binary, Reduction, Softmax, Ternary, TopK, elementwise, gemm, reduce};
use tilewright::{Device, Stream, Tensor, TensorView, f16};
use tilewright_support::Result;
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;

/// Computes o = g₁ O₁ + g₂ O₂ + g₃ O₃ of causal queries \[1, heads, tokens, 64\]: attention over the means of whole blocks of 64 keys behind the query, over
/// the keys of the blocks that the scores of those means select, and over a window. Heads that share keys share their selection.
#[derive(Parser)]
struct Arguments {
    /// Tokens, a multiple of 64
    #[arg(long, default_value_t = 512)]
    tokens: usize,
    /// Heads
    #[arg(long, default_value_t = 8)]
    heads: usize,
    /// Heads of keys and values, which divide the heads
    #[arg(long, default_value_t = 2)]
    kv_heads: usize,
    /// Blocks that a query selects, the first and its own among them
    #[arg(long, default_value_t = 4)]
    blocks: usize,
    /// Keys that a query sees in its window
    #[arg(long, default_value_t = 100)]
    window: usize,
}

/// Keys of a block, of those that are compressed to one and of those that are selected: then the selection's scores are those of the compressed keys (equation 9).
const BLOCK: usize = 64;
/// Columns of a head.
const D: usize = 64;
/// The three branches.
const BRANCHES: usize = 3;

/// What a layer is given.
struct Inputs {
    q: Vec<f16>,
    k: Vec<f16>,
    v: Vec<f16>,
    /// \[branches, heads, tokens\], as a layer's sigmoids give them.
    gates: Vec<f16>,
}

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let &Arguments { tokens, heads, kv_heads, blocks, window } = arguments;
    let all = tokens / BLOCK;
    if !tokens.is_multiple_of(BLOCK)
        || kv_heads == 0
        || !heads.is_multiple_of(kv_heads)
        || !(2..=all).contains(&blocks)
        || window == 0
    {
        return Err("tokens must be a multiple of 64, heads one of the heads of keys, blocks from 2 to those that there are, a window has 1 key or more".into());
    }
    let device = Device::default()?;
    show(&device);
    let sigmoid = |x: &f16| f16::from_f32(1.0 / (1.0 + (-x.to_f32()).exp()));
    let inputs = Inputs {
        q: normal(1, heads * tokens * D),
        k: normal(2, kv_heads * tokens * D),
        v: normal(3, kv_heads * tokens * D),
        gates: normal::<f16>(4, BRANCHES * heads * tokens).iter().map(sigmoid).collect(),
    };
    let (o, lists) = layer(&device, arguments, &inputs)?;
    check(arguments, &inputs, &o, &lists)
}

/// The result, \[heads, tokens, columns\], and the selected blocks, \[KV heads, tokens, blocks\].
fn layer(device: &Device, arguments: &Arguments, inputs: &Inputs) -> Result<(Vec<f16>, Vec<i32>)> {
    let &Arguments { tokens, heads, kv_heads, blocks, window } = arguments;
    let stream = device.default_stream();
    let (all, group) = (tokens / BLOCK, heads / kv_heads);
    let of = |data: &[f16], shape: &[usize]| Tensor::from_slice(device, data, shape);
    let (q, k) = (of(&inputs.q, &[1, heads, tokens, D])?, of(&inputs.k, &[1, kv_heads, tokens, D])?);
    let (v, gates) =
        (of(&inputs.v, &[1, kv_heads, tokens, D])?, of(&inputs.gates, &[BRANCHES, 1, heads, tokens, 1])?);
    let (q, k, v) = (q.view(), k.view(), v.view());

    // Compression: the mean of each block, in place of a learned projection.
    let compressed = |x: &TensorView<'_, f16>| -> Result<Tensor<f16>> {
        let mut means = Tensor::<f16>::zeros(device, &[1, kv_heads, all, D])?;
        let of_blocks = x.clone().reshape(&[1, kv_heads, all, BLOCK, D])?;
        reduce(&stream, Reduction::Mean, &of_blocks, &[3], &mut means.view_mut())?;
        Ok(means)
    };
    let (means_k, means_v) = (compressed(&k)?, compressed(&v)?);
    let behind = |t: usize, j: usize| (j + 1) * BLOCK <= t + 1;
    let mask = |of: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
        (0..tokens * all).map(|i| of(i / all, i % all)).collect()
    };
    let whole = mask(&|t, j| if behind(t, j) { 0.0 } else { f32::NEG_INFINITY });
    let bias: Vec<f16> = whole.iter().map(|&x| f16::from_f32(x)).collect();
    let bias = of(&bias, &[tokens, all])?;
    let mut branches: [Tensor<f16>; BRANCHES] = [
        Tensor::zeros(device, &[1, heads, tokens, D])?,
        Tensor::zeros(device, &[1, heads, tokens, D])?,
        Tensor::zeros(device, &[1, heads, tokens, D])?,
    ];
    let [o_compressed, o_selected, o_window] = &mut branches;
    let mut attention = Attention::new().bias(bias.view());
    attention.run(&stream, &q, &means_k.view(), &means_v.view(), &mut o_compressed.view_mut())?;

    // Selection: the compressed branch's weights, added up over the heads that share keys (equation 10); the first block and a query's own always.
    let lists = select(&stream, arguments, &q, &means_k.view(), &whole)?;
    let lists_of = lists.view().insert_dim(0)?;
    let mut attention = Attention::new().causal().selected_blocks(&lists_of, BLOCK);
    attention.run(&stream, &q, &k, &v, &mut o_selected.view_mut())?;
    Attention::new().causal().window(window - 1, 0).run(&stream, &q, &k, &v, &mut o_window.view_mut())?;

    // The gated sum.
    let [mut sum, mut next] =
        [Tensor::zeros(device, &[1, heads, tokens, D])?, Tensor::zeros(device, &[1, heads, tokens, D])?];
    let gate = |branch| gates.view().select(0, branch);
    elementwise(&stream, Binary::Mul, [&gate(0)?, &branches[0].view()], &mut sum.view_mut())?;
    for (i, branch) in branches.iter().enumerate().skip(1) {
        let terms = [&gate(i)?, &branch.view(), &sum.view()];
        elementwise(&stream, Ternary::MulAdd, terms, &mut next.view_mut())?;
        std::mem::swap(&mut sum, &mut next);
    }
    println!(
        "{tokens} tokens, {heads} heads in groups of {group}, {blocks} of {all} blocks and a window of {window} keys"
    );
    Ok((sum.to_vec_on(&stream)?, lists.to_vec_on(&stream)?))
}

/// The blocks of each query, \[KV heads, tokens, blocks\]. Where there are fewer behind a query, numbers of later ones, which a causal attention passes over.
fn select(
    stream: &Stream,
    &Arguments { tokens, heads, kv_heads, blocks, .. }: &Arguments,
    q: &TensorView<'_, f16>,
    means: &TensorView<'_, f16>,
    whole: &[f32],
) -> Result<Tensor<i32>> {
    let (device, all, group) = (q.device(), tokens / BLOCK, heads / kv_heads);
    let mut scores = Tensor::<f32>::zeros(device, &[kv_heads, group, tokens, all])?;
    let q = q.clone().reshape(&[kv_heads, group, tokens, D])?;
    let means = means.clone().reshape(&[kv_heads, 1, all, D])?.transpose(2, 3)?;
    gemm(stream, &q, &means, &mut scores.view_mut())?;
    let mask = Tensor::from_slice(device, whole, &[tokens, all])?;
    let mut weights = Tensor::<f32>::zeros(device, &[kv_heads, group, tokens, all])?;
    let softmax = Softmax::new().scale(1.0 / (D as f32).sqrt());
    softmax.mask(&mask.view()).run(stream, &scores.view(), &mut weights.view_mut())?;
    let mut sums = Tensor::<f32>::zeros(device, &[kv_heads, tokens, all])?;
    reduce(stream, Reduction::Sum, &weights.view(), &[1], &mut sums.view_mut())?;
    let wanted: Vec<f32> = (0..tokens * all)
        .map(|i| match (i % all, i / all / BLOCK) {
            (j, own) if j == 0 || j == own => 2.0 * heads as f32,
            (j, own) if j > own => f32::NEG_INFINITY,
            _ => 0.0,
        })
        .collect();
    let wanted = Tensor::from_slice(device, &wanted, &[tokens, all])?;
    let mut ranked = Tensor::<f32>::zeros(device, &[kv_heads, tokens, all])?;
    elementwise(stream, Binary::Add, [&sums.view(), &wanted.view()], &mut ranked.view_mut())?;
    let mut values = Tensor::<f32>::zeros(device, &[kv_heads, tokens, blocks])?;
    let mut lists = Tensor::<i32>::zeros(device, &[kv_heads, tokens, blocks])?;
    TopK::new().run(stream, &ranked.view(), &mut values.view_mut(), &mut lists.view_mut())?;
    Ok(lists)
}

/// Weights of a query over keys, and the weighted mean of values, in f64.
fn attend(q: &[f64], k: &[&[f64]], v: &[&[f64]]) -> (Vec<f64>, Vec<f64>) {
    let score = |k: &&[f64]| q.iter().zip(*k).map(|(q, k)| q * k).sum::<f64>() / (D as f64).sqrt();
    let mut weights: Vec<f64> = k.iter().map(score).collect();
    let max = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    weights.iter_mut().for_each(|s| *s = (*s - max).exp());
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|p| *p /= sum);
    let mut o = vec![0.0; D];
    for (p, v) in weights.iter().zip(v) {
        o.iter_mut().zip(*v).for_each(|(o, v)| *o += p * v);
    }
    (weights, o)
}

/// Compares the result with the same formulas in f64, given the blocks that were selected; these must be the best ones within the precision of their scores.
fn check(arguments: &Arguments, inputs: &Inputs, o: &[f16], lists: &[i32]) -> Result<()> {
    let &Arguments { tokens, heads, kv_heads, blocks, window } = arguments;
    let (all, group) = (tokens / BLOCK, heads / kv_heads);
    let wide = |x: &[f16]| -> Vec<f64> { x.iter().map(|x| x.to_f64()).collect() };
    let [q, k, v, gates, o] = [&inputs.q[..], &inputs.k, &inputs.v, &inputs.gates, o].map(wide);
    let mean = |x: &[f64]| -> Vec<f64> {
        (0..D).map(|c| x.iter().skip(c).step_by(D).sum::<f64>() / BLOCK as f64).collect()
    };
    let (mut worst, mut worst_choice) = (0.0f64, 0.0f64);
    for kv in 0..kv_heads {
        let [k, v] = [&k, &v].map(|x| &x[kv * tokens * D..][..tokens * D]);
        let [means_k, means_v] = [k, v].map(|x| x.chunks(BLOCK * D).map(mean).collect::<Vec<_>>());
        let [k, v] = [k, v].map(|x| x.chunks(D).collect::<Vec<_>>());
        let [means_k, means_v] = [&means_k, &means_v].map(|x| x.iter().map(|x| &x[..]).collect::<Vec<_>>());
        for t in 0..tokens {
            let (behind, own) = ((t + 1) / BLOCK, t / BLOCK);
            let list = &lists[(kv * tokens + t) * blocks..][..blocks];
            let chosen: Vec<_> = list.iter().map(|&j| j as usize).filter(|&j| j <= own).collect();
            let seen: Vec<_> =
                chosen.iter().flat_map(|j| j * BLOCK..(j + 1) * BLOCK).filter(|&j| j <= t).collect();
            let mut sums = vec![0.0; all];
            for h in kv * group..(kv + 1) * group {
                let q = &q[(h * tokens + t) * D..][..D];
                let (weights, compressed) = attend(q, &means_k[..behind], &means_v[..behind]);
                sums.iter_mut().zip(&weights).for_each(|(sum, p)| *sum += p);
                let of = |x: &[&'_ [f64]]| -> Vec<Vec<f64>> { seen.iter().map(|&j| x[j].to_vec()).collect() };
                let [selected_k, selected_v] = [of(&k), of(&v)];
                let [selected_k, selected_v] =
                    [&selected_k, &selected_v].map(|x| x.iter().map(|x| &x[..]).collect::<Vec<_>>());
                let (_, selected) = attend(q, &selected_k, &selected_v);
                let first = (t + 1).saturating_sub(window);
                let (_, near) = attend(q, &k[first..=t], &v[first..=t]);
                let gate = |branch: usize| gates[(branch * heads + h) * tokens + t];
                for c in 0..D {
                    let exact = gate(0) * compressed[c] + gate(1) * selected[c] + gate(2) * near[c];
                    worst = worst.max((o[(h * tokens + t) * D + c] - exact).abs());
                }
            }
            let free = |&j: &usize| j != 0 && j != own;
            let least = chosen.iter().copied().filter(free).map(|j| sums[j]).fold(f64::INFINITY, f64::min);
            let left =
                (0..own).filter(free).filter(|j| !chosen.contains(j)).map(|j| sums[j]).fold(0.0, f64::max);
            if chosen.len() != blocks.min(own + 1) || !chosen.contains(&0) || !chosen.contains(&own) {
                return Err(format!("KV head {kv}, token {t}: {list:?} is not what must be selected").into());
            }
            worst_choice = worst_choice.max(left - least);
        }
    }
    println!(
        "largest error {worst:.1e}; a block that was left out is better by {:.1e} at most",
        worst_choice.max(0.0)
    );
    if worst.is_nan() || worst > 1e-2 || worst_choice > 1e-2 {
        return Err("the result is not that of the reference".into());
    }
    Ok(())
}
