//! Decoding over a cache in pages, beside the same keys in one piece.

use std::cell::RefCell;

use tilewright::ops::Attention;
use tilewright::{Device, Stream, Tensor, bf16};
use tilewright_support::Result;
use tilewright_support::random::normal;
use tilewright_support::timing::{Timing, Variant, compare};

use crate::chunks::{beside, heading, pages, sizes};
use crate::common::options;

/// Sequences, keys of each, heads, heads of keys and values, and columns.
const CASES: [[usize; 5]; 8] = [
    [1, 8192, 32, 8, 128],
    [1, 32768, 32, 8, 128],
    [16, 8192, 32, 8, 128],
    [64, 8192, 32, 8, 128],
    [64, 1000, 32, 8, 128],
    [16, 8192, 32, 8, 64],
    [32, 4096, 16, 16, 128],
    [8, 20000, 64, 8, 128],
];

/// Prints the table, of pages of the sizes that are named, or of all.
pub fn table(device: &Device, words: &[String]) -> Result<()> {
    let sizes = sizes(words)?;
    println!("\n| decode bf16 | ms in one piece | GB/s | {} |", heading(&sizes));
    println!("| --- | ---: | ---: | {} |", vec!["---:"; sizes.len()].join(" | "));
    for case in CASES {
        let timings = measure(device, case, &sizes)?;
        let Some((whole, pages)) = timings.split_first() else { continue };
        let [batch, keys, heads, kv_heads, d] = case;
        let (ms, bytes) = (whole.median(), (batch * keys * kv_heads * d * 4) as f64);
        let (rate, pages) = (bytes / ms / 1e6, beside(whole, pages));
        println!("| b{batch} kv{keys} h{heads}/{kv_heads} d{d} | {ms:.4} | **{rate:.0}** | {pages} |");
    }
    Ok(())
}

/// Keys in one piece, and in pages of each size, shuffled.
fn measure(
    device: &Device,
    [batch, keys, heads, kv_heads, d]: [usize; 5],
    sizes: &[usize],
) -> Result<Vec<Timing>> {
    let q = Tensor::from_slice(device, &normal::<bf16>(1, batch * heads * d), &[batch, heads, 1, d])?;
    let o = RefCell::new(Tensor::<bf16>::zeros(device, &[batch, heads, 1, d])?);
    let of = |seed| {
        let values = normal::<bf16>(seed, batch * keys * kv_heads * d);
        Tensor::from_slice(device, &values, &[batch, keys, kv_heads, d])
    };
    let (k, v) = (of(2)?, of(3)?);
    let sequences = vec![[1, keys]; batch];
    let lengths = Tensor::from_slice(device, &vec![keys as i32; batch], &[batch])?;
    let caches: Result<Vec<_>> =
        sizes.iter().map(|&rows| pages(device, &sequences, keys, [rows, kv_heads, d])).collect();
    let caches = caches?;
    let mut variants = Vec::new();
    let whole = std::iter::once((None, &k, &v));
    for (table, k, v) in whole.chain(caches.iter().map(|(table, [k, v])| (Some(table), k, v))) {
        let (k, v) = (k.view().transpose(1, 2)?, v.view().transpose(1, 2)?);
        let len = over(&lengths, table).workspace_len(&q.view(), &k, &v, &o.borrow_mut().view_mut())?;
        let memory = RefCell::new(Tensor::<f32>::zeros(device, &[len])?);
        let (q, o, lengths) = (&q, &o, &lengths);
        variants.push(Variant::new("", move |stream: &Stream, _| {
            let (mut memory, mut o) = (memory.borrow_mut(), o.borrow_mut());
            let mut memory = memory.view_mut();
            over(lengths, table).workspace(&mut memory).run(stream, &q.view(), &k, &v, &mut o.view_mut())
        }));
    }
    compare(device, &variants, &options(1))
}

/// Decoding over the keys of such lengths, in the pages of a table if there is one.
fn over<'t>(lengths: &'t Tensor<i32>, table: Option<&'t Tensor<i32>>) -> Attention<'t> {
    let attention = Attention::new().lengths(lengths.view());
    match table {
        None => attention,
        Some(table) => attention.block_table(table.view()),
    }
}
