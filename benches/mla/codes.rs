//! Caches of 8 bits beside caches of bf16: in pages of 64 tokens, and by lists of tokens, as sparse attention reads them.

use std::cell::RefCell;

use tilewright::ops::{LatentElement, Mla, MlaViews, append_latent};
use tilewright::{DType, Device, Stream, Tensor, TensorView, bf16};
use tilewright_support::Result;
use tilewright_support::reference::relative_error;
use tilewright_support::timing::{Timing, Variant, compare};

use crate::case::{COLUMNS, Case, Keys, PAGE};
use crate::common::options;
use crate::pool::{Pool, Pools};

/// Bytes of a token of 8 bits.
const RECORD: usize = 656;
/// How far results of codes may lie from those of bf16: a code's rounding is 2⁻⁴, of which a weighted mean keeps less.
const ALLOWED: f64 = 0.0625;

/// Sequences, heads, and keys of each sequence; the last two are lists of 2048 tokens, DeepSeek-V3.2's.
const CASES: [[usize; 3]; 8] = [
    [128, 128, 1024],
    [128, 128, 8192],
    [64, 128, 32768],
    [128, 64, 8192],
    [128, 16, 8192],
    [64, 16, 32768],
    [128, 128, 2048],
    [1024, 128, 2048],
];

/// Prints the table, of the cases BATCHxHEADSxKEYS that are named, or of all.
pub fn table(device: &Device, words: &[String]) -> Result<()> {
    println!(
        "\n| case | bf16 ms | bf16 TFLOP/s | 8 bits ms | TFLOP/s | GB/s | bf16 / 8 bits | lists of tokens ms | bf16 / lists |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for case in cases(words)? {
        let timings = measure(device, &case)?;
        let [plain, codes, lists] = [0, 1, 2].map(|i| timings[i].median());
        let rate = |ms: f64| case.flops() / ms / 1e9;
        let [q, _, o] = case.elements();
        let bytes = (case.batch * case.entries() * PAGE * RECORD + 2 * (q + o)) as f64;
        println!(
            "| {case} | {plain:.4} | {:.0} | {codes:.4} | **{:.0}** | {:.0} | **{:.3}** | {lists:.4} | **{:.3}** |",
            rate(plain),
            rate(codes),
            bytes / codes / 1e6,
            plain / codes,
            plain / lists,
        );
    }
    Ok(())
}

fn cases(words: &[String]) -> Result<Vec<Case>> {
    let case =
        |[batch, heads, keys]: [usize; 3]| Case { dtype: DType::BF16, batch, heads, keys: Keys::Each(keys) };
    if words.is_empty() {
        return Ok(CASES.map(case).to_vec());
    }
    let parse = |word: &String| {
        let numbers: std::result::Result<Vec<usize>, _> = word.split('x').map(str::parse).collect();
        match <[usize; 3]>::try_from(numbers?) {
            Ok(numbers) => Ok(case(numbers)),
            Err(_) => Err(format!("`{word}` is not BATCHxHEADSxKEYS").into()),
        }
    };
    words.iter().map(parse).collect()
}

/// Times of bf16, of codes in pages, and of codes by lists of tokens.
fn measure(device: &Device, case: &Case) -> Result<Vec<Timing>> {
    let (stream, [d, dv], Case { batch, heads, .. }) = (Stream::new(device)?, COLUMNS, *case);
    let ([q, cache, o], pages) = (case.elements(), batch * case.entries());
    let tokens = pages * PAGE;
    let pools = Pools::new(device, [(DType::BF16, [q + cache, o])]);
    let pool: &Pool<bf16> = pools.of()?;
    let (q, plain) = (pool.input(0, &[batch, 1, heads, d])?, pool.input(q, &[pages, PAGE, 1, d])?);
    let mut records = Tensor::<u8>::zeros(device, &[pages, PAGE, 1, RECORD])?;
    let slots: Vec<i32> = (0..tokens as i32).collect();
    let slots = Tensor::from_slice(device, &slots, &[tokens])?;
    let part = |from, columns| plain.clone().reshape(&[tokens, d])?.narrow(1, from, columns);
    append_latent(&stream, &part(0, dv)?, &part(dv, d - dv)?, slots.view(), &mut records.view_mut())?;
    // A step that has no divisor in common with the number of pages, whose primes are small, reaches all of them.
    let page = |entry: usize| entry * 7919 % pages;
    let table: Vec<i32> = (0..pages).map(|entry| page(entry) as i32).collect();
    let list: Vec<i32> = (0..tokens).map(|i| (page(i / PAGE) * PAGE + i % PAGE) as i32).collect();
    let (table, list) = (numbers(device, &table, batch)?, numbers(device, &list, batch)?);
    let (paged, alone) = (records.view(), records.view().reshape(&[tokens, 1, 1, RECORD])?);
    let o = RefCell::new(Tensor::filled(device, bf16::NAN, &[batch, 1, heads, dv])?);
    let runs = [
        run(case, &q, &plain, &table, &o)?,
        run(case, &q, &paged, &table, &o)?,
        run(case, &q, &alone, &list, &o)?,
    ];
    let mut results = Vec::new();
    for run in &runs {
        o.borrow_mut().view_mut().fill(&stream, bf16::NAN)?;
        run(&stream)?;
        results.push(o.borrow().to_vec_on(&stream)?);
    }
    let exact: Vec<f64> = results[0].iter().map(|x| f64::from(x.to_f32())).collect();
    for (result, of) in results[1..].iter().zip(["pages", "lists"]) {
        let error = relative_error(result, &exact);
        if error.is_nan() || error > ALLOWED {
            return Err(format!("{case}, {of}: {error:.1e} from bf16").into());
        }
    }
    let variants = runs.iter().map(|run| Variant::new("", |stream: &Stream, _| run(stream)));
    compare(device, &variants.collect::<Vec<_>>(), &options(1))
}

/// A step that can be queued again and again.
type Run<'v> = Box<dyn Fn(&Stream) -> tilewright::Result<()> + 'v>;

/// A row of numbers for each sequence, on the device.
fn numbers(device: &Device, all: &[i32], batch: usize) -> tilewright::Result<Tensor<i32>> {
    Tensor::from_slice(device, all, &[batch, all.len() / batch])
}

/// The step over a cache, by a plan with memory of its own.
fn run<'v, C: LatentElement<bf16>>(
    case: &Case,
    q: &'v TensorView<'_, bf16>,
    cache: &'v TensorView<'_, C>,
    table: &'v Tensor<i32>,
    o: &'v RefCell<Tensor<bf16>>,
) -> tilewright::Result<Run<'v>> {
    let lengths = case.lengths();
    let plan = {
        let mla = Mla::new().lengths(&lengths).block_table(table.view());
        mla.plan(q, cache, &o.borrow_mut().view_mut())?
    };
    let memory = RefCell::new(Tensor::<f32>::zeros(q.device(), &[plan.workspace_len()])?);
    Ok(Box::new(move |stream| {
        let (mut memory, mut o) = (memory.borrow_mut(), o.borrow_mut());
        let workspace = Some(memory.view_mut());
        let mut views = MlaViews { block_table: Some(table.view().into()), workspace, ..MlaViews::default() };
        plan.run(stream, q, cache, &mut o.view_mut(), &mut views)
    }))
}
