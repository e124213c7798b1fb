//! Decodes with multi-head latent attention over a paged cache, on the GPU or, where there is none, on the emulator; checks the
//! results, and shows the speed on a GPU.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tilewright::ops::{HalfElement, LatentElement, Mla, append_latent};
use tilewright::{Device, Tensor, bf16, f16};
use tilewright_support::attention::{Head, Scores};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::reference::{relative_error, sample};
use tilewright_support::timing::{Options, Variant, compare};
use tilewright_support::{Real, Result};

/// Computes O = softmax(Q Kᵀ / sqrt(576)) V for queries [batch, positions, heads, 576] over a cache [pages, 64, 1, 576] in shuffled
/// pages, whose first 512 columns are V. Checks the results, and measures the speed if there is a GPU.
#[derive(Parser)]
#[command(name = "mla", override_usage = "mla [OPTIONS] [BATCH POSITIONS HEADS KEYS]")]
struct Arguments {
    /// Sequences, positions, heads and keys [default: several shapes]
    #[arg(num_args = 4, value_names = ["BATCH", "POSITIONS", "HEADS", "KEYS"], value_parser = clap::value_parser!(u32).range(1..))]
    shape: Vec<u32>,
    /// Element type
    #[arg(long = "type", value_enum, default_value = "bf16")]
    dtype: Type,
    /// Sequences have from a 32nd of the keys to all of them
    #[arg(long)]
    unequal: bool,
    /// A cache of 8 bits: codes of e4m3 with scales, of bf16
    #[arg(long, conflicts_with = "dtype")]
    codes: bool,
    /// Parts into which each sequence is cut [default: as many as seem good]
    #[arg(long)]
    splits: Option<usize>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F16,
    Bf16,
}

/// Sequences, positions, heads, keys.
type Shape = [usize; 4];

const SHAPES: [Shape; 6] = [
    [128, 1, 128, 1024],
    [128, 1, 128, 8192],
    [64, 1, 128, 32768],
    [128, 2, 128, 8192],
    [128, 1, 64, 8192],
    [128, 1, 16, 8192],
];

/// What the emulator computes in a moment.
const EMULATED: [Shape; 2] = [[2, 1, 16, 300], [1, 2, 64, 130]];

const COLUMNS: [usize; 2] = [576, 512];
/// Bytes of a token of 8 bits.
const RECORD: usize = 656;
/// Rows of a page.
const PAGE: usize = 64;
/// Heads of a position that are compared with a result computed in f64.
const CHECKED_HEADS: usize = 4;

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    show(&device);
    let shapes = match arguments.shape[..] {
        [batch, positions, heads, keys] => {
            vec![[batch, positions, heads, keys].map(|size| size as usize)]
        }
        _ if device.is_emulator() => EMULATED.to_vec(),
        _ => SHAPES.to_vec(),
    };
    for shape in shapes {
        match arguments.dtype {
            _ if arguments.codes => step(&device, arguments, shape, codes)?,
            Type::F16 => step(&device, arguments, shape, Ok::<Tensor<f16>, _>)?,
            Type::Bf16 => step(&device, arguments, shape, Ok::<Tensor<bf16>, _>)?,
        }
    }
    Ok(())
}

/// The keys of each sequence.
fn lengths(arguments: &Arguments, [batch, _, _, keys]: Shape) -> Vec<u32> {
    let length = |i: usize| {
        if arguments.unequal { keys.div_ceil(32).max(i * 37 % batch * keys / batch) } else { keys }
    };
    (0..batch).map(|i| length(i) as u32).collect()
}

/// A cache of 8 bits of the same tokens.
fn codes(cache: Tensor<bf16>) -> Result<Tensor<u8>> {
    let &[pages, rows, ..] = cache.shape() else { return Err("a cache has pages and rows".into()) };
    let (tokens, [d, dv]) = (pages * rows, COLUMNS);
    let mut codes = Tensor::zeros(cache.device(), &[pages, rows, 1, RECORD])?;
    let slots: Vec<i32> = (0..tokens as i32).collect();
    let slots = Tensor::from_slice(cache.device(), &slots, &[tokens])?;
    let part = |from, columns| cache.view().reshape(&[tokens, d])?.narrow(1, from, columns);
    let (latent, rotary) = (part(0, dv)?, part(dv, d - dv)?);
    append_latent(&cache.device().default_stream(), &latent, &rotary, slots.view(), &mut codes.view_mut())?;
    Ok(codes)
}

/// One decoding step, over a cache that is kept so.
fn step<T: HalfElement + Real, C: LatentElement<T>>(
    device: &Device,
    arguments: &Arguments,
    shape: Shape,
    keep: impl FnOnce(Tensor<T>) -> Result<Tensor<C>>,
) -> Result<()> {
    let ([batch, positions, heads, keys], [d, dv]) = (shape, COLUMNS);
    let lengths = lengths(arguments, shape);
    let of = if arguments.codes { "bf16 over a cache of 8 bits" } else { T::DTYPE.name() };
    println!("\n{of} batch {batch}, positions {positions}, heads {heads}, keys up to {keys}");
    let entries = keys.div_ceil(PAGE);
    // Every page is a sequence's, in an order that has nothing to do with that of its keys.
    let step = (batch * entries / 2 + 1..).find(|&step| gcd(step, batch * entries) == 1).unwrap_or(1);
    let table: Vec<i32> =
        (0..batch * entries).map(|entry| (entry * step % (batch * entries)) as i32).collect();
    let cache = pages::<T>(batch * entries);
    let queries = normal::<T>(1, batch * positions * heads * d);
    let q = Tensor::from_slice(device, &queries, &[batch, positions, heads, d])?;
    let pool = keep(Tensor::from_slice(device, &cache, &[batch * entries, PAGE, 1, d])?)?;
    let o = Tensor::filled(device, T::POISON, &[batch, positions, heads, dv])?;
    let mla = Mla::new().causal().lengths(&lengths).host_block_table(&table);
    let mla = RefCell::new(arguments.splits.into_iter().fold(mla, Mla::splits));
    let o = RefCell::new(o);
    println!("  kernel: {}", mla.borrow().plan(&q.view(), &pool.view(), &o.borrow_mut().view_mut())?);
    let run = |stream: &tilewright::Stream| {
        mla.borrow_mut().run(stream, &q.view(), &pool.view(), &mut o.borrow_mut().view_mut())
    };
    run(&device.default_stream())?;

    let out = T::widen(&o.borrow().to_vec()?);
    let mut worst = 0f64;
    for (sequence, position) in [(0, 0), (batch - 1, positions - 1)] {
        let page = |key: usize| table[sequence * entries + key / PAGE] as usize;
        let key = |key: usize| &cache[(page(key) * PAGE + key % PAGE) * d..][..d];
        let seen = (lengths[sequence] as usize + position + 1).saturating_sub(positions);
        let k: Vec<T> = (0..seen).flat_map(key).copied().collect();
        let v: Vec<T> = k.chunks(d).flat_map(|key| &key[..dv]).copied().collect();
        let first = (sequence * positions + position) * heads;
        let rows = sample(heads, CHECKED_HEADS);
        let head = Head::new([&queries[first * d..][..heads * d], &k, &v], heads, seen, COLUMNS);
        let exact = head.rows(&rows, &Scores::new(d));
        for (row, head) in exact.iter().zip(&rows) {
            let is = T::round(&out[(first + head) * dv..][..dv]);
            let error = relative_error(&is, &row.o);
            worst = if error.is_nan() { error } else { worst.max(error) };
        }
    }
    // Weights are rounded once, and the result is; a code is to 2⁻⁴, of which a weighted mean keeps less.
    let allowed = if arguments.codes { 0.0625 } else { 2.0 * T::ROUNDING };
    println!("  error: {worst:.1e}, at most {allowed:.1e} is right");
    if worst.is_nan() || worst > allowed || out.iter().any(|x| x.is_nan()) {
        return Err(format!("the result is wrong: its relative error is {worst:.1e}").into());
    }
    if device.is_emulator() {
        return Ok(());
    }
    let all: f64 = lengths.iter().map(|&length| f64::from(length)).sum();
    let flops = 2.0 * all * (positions * heads * (d + dv)) as f64;
    let kept = size_of::<C>() as f64 * all * pool.shape()[3] as f64;
    let bytes = kept + (size_of::<T>() * batch * positions * heads * (d + dv)) as f64;
    let ours = Variant::new("tilewright", |stream, _| run(stream));
    for timing in compare(device, &[ours], &Options { flush_l2: true, ..Options::default() })? {
        let ms = timing.median();
        let (rate, speed) = (flops / ms / 1e9, bytes / ms / 1e6);
        println!("  {}: {ms:.4} ms, {rate:.1} TFLOP/s, {speed:.0} GB/s", timing.name);
    }
    Ok(())
}

/// The elements of so many pages; those of large caches repeat.
fn pages<T: Real>(count: usize) -> Vec<T> {
    /// Elements that are different.
    const MOST: usize = 1 << 23;
    let total = count * PAGE * COLUMNS[0];
    normal::<T>(2, total.min(MOST)).into_iter().cycle().take(total).collect()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
