//! An indexer's scores: of all keys, and of those up to each query's own.

use std::cell::RefCell;

use tilewright::ops::{IndexScores, IndexerElement};
use tilewright::{Device, F8E4M3, Stream, Tensor, bf16};
use tilewright_support::Result;
use tilewright_support::random::normal;
use tilewright_support::timing::{Variant, compare};

use crate::common::options;

/// Sequences, queries and keys of each, heads, and columns: prompts and steps of DeepSeek-V3.2, and 32 heads of 64 columns.
const CASES: [[usize; 5]; 8] = [
    [1, 4096, 4096, 64, 128],
    [1, 4096, 8192, 64, 128],
    [1, 2048, 65536, 64, 128],
    [1, 4096, 8192, 32, 64],
    [4, 1024, 1024, 64, 128],
    [1, 1, 65536, 64, 128],
    [32, 1, 32768, 64, 128],
    [128, 2, 8192, 64, 128],
];

/// Prints the table, of the cases BATCHxQUERIESxKEYSxHEADSxCOLUMNS that are named, or of all.
pub fn table(device: &Device, words: &[String]) -> Result<()> {
    println!(
        "\n| scores | e4m3 ms | TFLOP/s | keys up to the query's own, ms | bf16 ms | of bf16 | keys up to the query's own, ms |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for case in cases(words)? {
        let [batch, queries, keys, heads, d] = case;
        print!("| b{batch} {queries} over {keys} h{heads} d{d} |");
        measure::<F8E4M3>(device, case, F8E4M3::from_f32, |x| x.to_f32())?;
        measure::<bf16>(device, case, bf16::from_f32, |x| x.to_f32())?;
        println!();
    }
    Ok(())
}

fn cases(words: &[String]) -> Result<Vec<[usize; 5]>> {
    if words.is_empty() {
        return Ok(CASES.to_vec());
    }
    let parse = |word: &String| {
        let numbers: std::result::Result<Vec<usize>, _> = word.split('x').map(str::parse).collect();
        <[usize; 5]>::try_from(numbers?)
            .map_err(|_| format!("`{word}` is not BATCHxQUERIESxKEYSxHEADSxCOLUMNS").into())
    };
    words.iter().map(parse).collect()
}

/// Measures one and prints its part of a line.
fn measure<T: IndexerElement>(
    device: &Device,
    [batch, queries, keys, heads, d]: [usize; 5],
    of: impl Fn(f32) -> T,
    value: impl Fn(&T) -> f32,
) -> Result<()> {
    let stream = Stream::new(device)?;
    let numbers = |seed, len| normal::<f32>(seed, len).into_iter().map(&of).collect::<Vec<T>>();
    let (q, k) = (numbers(1, batch * queries * heads * d), numbers(2, batch * keys * d));
    let weights: Vec<f32> = normal(3, batch * queries * heads);
    let q_t = Tensor::from_slice(device, &q, &[batch, queries, heads, d])?;
    let k_t = Tensor::from_slice(device, &k, &[batch, keys, d])?;
    let weights_t = Tensor::from_slice(device, &weights, &[batch, queries, heads])?;
    let own: Vec<i32> = (0..batch * queries).map(|i| (keys - queries + i % queries + 1) as i32).collect();
    let ends = Tensor::from_slice(device, &own, &[batch, queries])?;
    let scores = RefCell::new(Tensor::filled(device, f32::NAN, &[batch, queries, keys])?);
    let run = |stream: &Stream, all: bool| {
        let indexer = if all { IndexScores::new() } else { IndexScores::new().ends(ends.view()) };
        let mut scores = scores.borrow_mut();
        indexer.run(stream, &q_t.view(), &k_t.view(), &weights_t.view(), &mut scores.view_mut())
    };
    run(&stream, true)?;
    let line = (batch - 1) * queries + queries / 2;
    let row = scores.borrow().view().select(0, batch - 1)?.select(0, queries / 2)?.to_vec_on(&stream)?;
    for key in [0, keys / 3, keys - 1] {
        let k = &k[((batch - 1) * keys + key) * d..][..d];
        let heads_of = q[line * heads * d..][..heads * d].chunks(d).zip(&weights[line * heads..]);
        let (mut sum, mut all) = (0.0, 0.0);
        for (q, &w) in heads_of {
            let products = || q.iter().zip(k).map(|(a, b)| f64::from(value(a)) * f64::from(value(b)));
            sum += products().sum::<f64>().max(0.0) * f64::from(w);
            all += products().map(f64::abs).sum::<f64>() * f64::from(w).abs();
        }
        let wrong = (f64::from(row[key]) - sum).abs();
        if wrong.is_nan() || wrong > all / 4096.0 {
            return Err(format!("key {key}: {} for {sum}", row[key]).into());
        }
    }
    let variants = vec![
        Variant::new("all", |stream: &Stream, _| run(stream, true)),
        Variant::new("own", |stream: &Stream, _| run(stream, false)),
    ];
    let timings = compare(device, &variants, &options(1))?;
    let [all, own] = [0, 1].map(|i| timings[i].median());
    let rate = 2.0 * (batch * queries * heads) as f64 * (keys * d) as f64 / all / 1e9;
    print!(" {all:.4} | **{rate:.0}** | {own:.4} |");
    Ok(())
}
