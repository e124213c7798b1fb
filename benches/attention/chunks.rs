//! Chunks of prompts over a cache in pages (chunked prefill), beside the same keys one after the other.

use std::cell::RefCell;

use tilewright::ops::Attention;
use tilewright::{Device, Stream, Tensor, bf16};
use tilewright_support::Result;
use tilewright_support::random::normal;
use tilewright_support::timing::{Timing, Variant, compare};

use crate::common::options;

/// Heads, heads of keys and values, and columns.
const HEADS: [[usize; 3]; 2] = [[32, 8, 128], [32, 8, 64]];
/// Rows of a page.
const PAGES: [usize; 3] = [16, 64, 256];

/// Batches: queries and keys of each sequence.
fn batches() -> [(&'static str, Vec<[usize; 2]>); 3] {
    let behind = |i: usize| (i * 7919) % 24576;
    [
        ("16 chunks of 512 behind 0 to 24575 keys", (0..16).map(|i| [512, 512 + behind(i)]).collect()),
        ("a chunk of 4096 behind 28672 keys", vec![[4096, 32768]]),
        (
            "a chunk of 2048 behind 14336 keys, 63 tokens behind 1 to 24575",
            std::iter::once([2048, 16384]).chain((1..64).map(|i| [1, 1 + behind(i)])).collect(),
        ),
    ]
}

/// Prints the table, of pages of the sizes that are named, or of all.
pub fn table(device: &Device, words: &[String]) -> Result<()> {
    let sizes = sizes(words)?;
    println!("\n| causal bf16 | ms one after the other | TFLOP/s | {} |", heading(&sizes));
    println!("| --- | ---: | ---: | {} |", vec!["---:"; sizes.len()].join(" | "));
    for (what, sequences) in batches() {
        for [heads, kv_heads, d] in HEADS {
            let timings = measure(device, &sequences, [heads, kv_heads, d], &sizes)?;
            let Some((packed, pages)) = timings.split_first() else { continue };
            // A query sees half of its chunk, and all before.
            let seen = |&[queries, keys]: &[usize; 2]| queries as f64 * (keys as f64 - queries as f64 / 2.0);
            let flops = 4.0 * sequences.iter().map(seen).sum::<f64>() * (heads * d) as f64;
            let (ms, rate, pages) = (packed.median(), flops / packed.median() / 1e9, beside(packed, pages));
            println!("| {what}, h{heads}/{kv_heads} d{d} | {ms:.4} | **{rate:.0}** | {pages} |");
        }
    }
    Ok(())
}

/// Rows of pages, by words.
pub fn sizes(words: &[String]) -> Result<Vec<usize>> {
    let sizes: std::result::Result<Vec<usize>, _> = words.iter().map(|word| word.parse()).collect();
    match sizes? {
        none if none.is_empty() => Ok(PAGES.to_vec()),
        sizes => match sizes.iter().find(|rows| !rows.is_power_of_two()) {
            Some(rows) => Err(format!("pages of {rows} rows: not a power of two").into()),
            None => Ok(sizes),
        },
    }
}

/// The heads of columns of pages of these sizes.
pub fn heading(sizes: &[usize]) -> String {
    sizes.iter().map(|rows| format!("pages of {rows}")).collect::<Vec<_>>().join(" | ")
}

/// The time of what has no pages over that of each size.
pub fn beside(whole: &Timing, pages: &[Timing]) -> String {
    let of = |timing: &Timing| format!("**{:.3}**", whole.median() / timing.median());
    pages.iter().map(of).collect::<Vec<_>>().join(" | ")
}

/// Keys one after the other, and in pages of each size, shuffled.
fn measure(
    device: &Device,
    sequences: &[[usize; 2]],
    [heads, kv_heads, d]: [usize; 3],
    sizes: &[usize],
) -> Result<Vec<Timing>> {
    let offsets = |which: usize| {
        let mut offsets = vec![0i32];
        for sequence in sequences {
            offsets.push(offsets[offsets.len() - 1] + sequence[which] as i32);
        }
        let all = offsets[sequences.len()] as usize;
        Ok::<_, tilewright::Error>((all, Tensor::from_slice(device, &offsets, &[offsets.len()])?))
    };
    let ((queries, of_queries), (keys, of_keys)) = (offsets(0)?, offsets(1)?);
    let [longest, most] = [0, 1].map(|which| sequences.iter().map(|one| one[which]).max().unwrap_or(0));
    let lengths: Vec<i32> = sequences.iter().map(|one| one[1] as i32).collect();
    let lengths = Tensor::from_slice(device, &lengths, &[sequences.len()])?;
    let q = Tensor::from_slice(device, &normal::<bf16>(1, queries * heads * d), &[1, queries, heads, d])?;
    let o = RefCell::new(Tensor::<bf16>::zeros(device, &[1, queries, heads, d])?);
    let of = |seed| {
        Tensor::from_slice(device, &normal::<bf16>(seed, keys * kv_heads * d), &[1, keys, kv_heads, d])
    };
    let (k, v) = (of(2)?, of(3)?);
    let caches: Result<Vec<_>> =
        sizes.iter().map(|&rows| pages(device, sequences, most, [rows, kv_heads, d])).collect();
    let caches = caches?;
    let over = |cache: Option<usize>| match cache {
        None => Attention::new().causal().packed(of_queries.view(), of_keys.view(), longest),
        Some(cache) => {
            let (table, _) = &caches[cache];
            let attention = Attention::new().causal().packed_queries(of_queries.view(), longest);
            attention.block_table(table.view()).lengths(lengths.view())
        }
    };
    let q = q.view().transpose(1, 2)?;
    let mut variants = Vec::new();
    let alone = std::iter::once((None, &k, &v));
    let cached = caches.iter().enumerate().map(|(i, (_, [k, v]))| (Some(i), k, v));
    for (cache, k, v) in alone.chain(cached) {
        let (k, v) = (k.view().transpose(1, 2)?, v.view().transpose(1, 2)?);
        let len = over(cache).workspace_len(&q, &k, &v, &o.borrow_mut().view_mut().transpose(1, 2)?)?;
        let memory = RefCell::new(Tensor::<f32>::zeros(device, &[len])?);
        let (q, o, over) = (&q, &o, &over);
        variants.push(Variant::new("", move |stream: &Stream, _| {
            let (mut memory, mut o) = (memory.borrow_mut(), o.borrow_mut());
            let mut memory = memory.view_mut();
            over(cache).workspace(&mut memory).run(stream, q, &k, &v, &mut o.view_mut().transpose(1, 2)?)
        }));
    }
    compare(device, &variants, &options(1))
}

/// A cache in pages of so many rows, in a shuffled order, and its table.
pub fn pages(
    device: &Device,
    sequences: &[[usize; 2]],
    most: usize,
    [rows, kv_heads, d]: [usize; 3],
) -> Result<(Tensor<i32>, [Tensor<bf16>; 2])> {
    let of = |sequence: &[usize; 2]| sequence[1].div_ceil(rows);
    let (entries, all) = (most.div_ceil(rows), sequences.iter().map(of).sum::<usize>());
    // A prime that does not divide the number of pages takes each once.
    let step = [7919, 7927].into_iter().find(|step| all % step != 0).unwrap_or(1);
    let mut table = vec![0i32; sequences.len() * entries];
    let mut next = 0;
    for (i, sequence) in sequences.iter().enumerate() {
        for entry in &mut table[i * entries..][..of(sequence)] {
            *entry = next as i32;
            next = (next + step) % all;
        }
    }
    let cache = |seed| {
        Tensor::from_slice(
            device,
            &normal::<bf16>(seed, all * rows * kv_heads * d),
            &[all, rows, kv_heads, d],
        )
    };
    Ok((Tensor::from_slice(device, &table, &[sequences.len(), entries])?, [cache(4)?, cache(5)?]))
}
