//! Prompts: many positions of a sequence, each of which sees the keys up to its own (prefill of 576 and 512 columns).

use std::cell::RefCell;

use tilewright::ops::{Mla, MlaViews};
use tilewright::{DType, Device, Stream, Tensor, bf16};
use tilewright_support::Result;
use tilewright_support::attention::{Head, Scores};
use tilewright_support::reference::{relative_error, sample};
use tilewright_support::timing::{Variant, compare};

use crate::case::COLUMNS;
use crate::common::options;
use crate::pool::{Pool, Pools};
use crate::yardstick::Yardstick;

/// Sequences, positions, heads, and keys of each sequence.
const CASES: [[usize; 4]; 5] = [
    [1, 4096, 128, 4096],
    [8, 1024, 128, 1024],
    [1, 2048, 128, 16384],
    [1, 4096, 16, 4096],
    [4, 512, 64, 8192],
];

/// Prints the table, of the cases BATCHxPOSITIONSxHEADSxKEYS that are named, or of all.
pub fn table(device: &Device, yardstick: Option<&Yardstick<'_>>, words: &[String]) -> Result<()> {
    println!("\n| causal bf16 | ms | TFLOP/s | cuBLAS 8192³ | of it |\n| --- | ---: | ---: | ---: | ---: |");
    for case in cases(words)? {
        measure(device, yardstick, case)?;
    }
    Ok(())
}

fn cases(words: &[String]) -> Result<Vec<[usize; 4]>> {
    if words.is_empty() {
        return Ok(CASES.to_vec());
    }
    let parse = |word: &String| {
        let numbers: std::result::Result<Vec<usize>, _> = word.split('x').map(str::parse).collect();
        <[usize; 4]>::try_from(numbers?)
            .map_err(|_| format!("`{word}` is not BATCHxPOSITIONSxHEADSxKEYS").into())
    };
    words.iter().map(parse).collect()
}

/// Measures one and prints its line.
fn measure(
    device: &Device,
    yardstick: Option<&Yardstick<'_>>,
    [batch, positions, heads, keys]: [usize; 4],
) -> Result<()> {
    let ([d, dv], rows) = (COLUMNS, batch * positions * heads);
    let pools = Pools::new(device, [(DType::BF16, [rows * d + batch * keys * d, 1])]);
    let pool: &Pool<bf16> = pools.of()?;
    let q = pool.input(0, &[batch, positions, heads, d])?;
    let cache = pool.input(rows * d, &[batch, keys, 1, d])?;
    let o = RefCell::new(Tensor::filled(device, bf16::NAN, &[batch, positions, heads, dv])?);
    let plan = Mla::new().causal().plan(&q, &cache, &o.borrow_mut().view_mut())?;
    let memory = RefCell::new(Tensor::<f32>::zeros(device, &[plan.workspace_len()])?);
    let run = |stream: &Stream| {
        let (mut memory, mut o) = (memory.borrow_mut(), o.borrow_mut());
        let mut views = MlaViews { workspace: Some(memory.view_mut()), ..MlaViews::default() };
        plan.run(stream, &q, &cache, &mut o.view_mut(), &mut views)
    };
    let stream = Stream::new(device)?;
    run(&stream)?;
    let mut worst = 0.0f64;
    for position in [0, positions / 2, positions - 1] {
        let seen = keys + position + 1 - positions;
        let of = |x: &tilewright::TensorView<'_, bf16>, sequence, from, len| {
            x.clone().select(0, sequence)?.narrow(0, from, len)?.to_vec_on(&stream)
        };
        let k = of(&cache, batch - 1, 0, seen)?;
        let v: Vec<bf16> = k.chunks(d).flat_map(|key| &key[..dv]).copied().collect();
        let (queries, out) =
            (of(&q, batch - 1, position, 1)?, of(&o.borrow().view(), batch - 1, position, 1)?);
        let some = sample(heads, 2);
        for (row, head) in
            Head::new([&queries, &k, &v], heads, seen, COLUMNS).rows(&some, &Scores::new(d)).iter().zip(&some)
        {
            let error = relative_error(&out[head * dv..][..dv], &row.o);
            worst = if error.is_nan() { error } else { worst.max(error) };
        }
    }
    // Weights are rounded once, and the result is.
    if worst.is_nan() || worst > 2.0 / 256.0 {
        return Err(format!("{batch} x {positions} x {heads} x {keys}: the error is {worst:.1e}").into());
    }
    let mut variants = vec![Variant::new("tilewright", |stream: &Stream, _| run(stream))];
    if let Some(yardstick) = yardstick {
        variants.push(Variant::new("cuBLAS", |stream: &Stream, _| yardstick.launch(stream)));
    }
    let timings = compare(device, &variants, &options(1))?;
    let ms = timings[0].median();
    // A position sees half of the prompt, and all before it.
    let seen = rows as f64 * (keys as f64 - (positions as f64 - 1.0) / 2.0);
    let rate = 2.0 * seen * (d + dv) as f64 / ms / 1e9;
    print!("| b{batch} {positions} of {keys} h{heads} | {ms:.4} | **{rate:.0}** |");
    match timings.get(1) {
        Some(timing) => {
            let of = Yardstick::rate(timing.median());
            println!(" {of:.0} | {:.3} |", rate / of);
        }
        None => println!(),
    }
    Ok(())
}
