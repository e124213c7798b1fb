//! Multiplies 8-bit floats on the GPU or, where there is none, on the emulator, as a layer of a network does: activations and weights are
//! quantised with scales, and the result is compared with the exact product of what was quantised and of what was not.

use std::process::ExitCode;

use clap::Parser;
use tilewright::ops::ScaledGemm;
use tilewright::{Device, F8E4M3, Stream, Tensor, bf16};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, pick, product, relative_error, sample};
use tilewright_support::timing::{Options, Variant, compare};
use tilewright_support::{Real, Result};

/// Computes y = x wᵀ with x and w in e4m3: with a scale for each row, and with DeepSeek's scales of blocks. Checks the results, and measures the
/// speed if there is a GPU.
#[derive(Parser)]
#[command(name = "gemm_fp8", override_usage = "gemm_fp8 [OPTIONS] [M N K]")]
struct Arguments {
    /// Rows of x, of w, and columns of both, a multiple of 16 [default: several shapes]
    #[arg(num_args = 3, value_names = ["M", "N", "K"], value_parser = clap::value_parser!(u32).range(1..))]
    shape: Vec<u32>,
    /// Leaves sums to the tensor cores' accumulators
    #[arg(long)]
    fast: bool,
}

/// The largest e4m3.
const LARGEST: f32 = 448.0;
/// Blocks of x and of w, \[rows, columns\], that have a scale: a row or a matrix's.
const ROWS: [[usize; 2]; 2] = [[1, usize::MAX]; 2];
const BLOCKS: [[usize; 2]; 2] = [[1, 128], [128, 128]];

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    show(&device);
    let shapes = match arguments.shape[..] {
        [m, n, k] => vec![[m, n, k].map(|size| size as usize)],
        _ if device.is_emulator() => vec![[70, 200, 272]],
        _ => vec![[4096, 4096, 4096], [4096, 7168, 2048], [16, 4096, 4096]],
    };
    for shape in shapes {
        for (what, blocks) in [("a scale a row", ROWS), ("scales of blocks", BLOCKS)] {
            println!("\n{shape:?}, {what}");
            multiply(&device, shape, blocks, arguments.fast)?;
        }
    }
    Ok(())
}

/// A quantised matrix.
struct Quantized {
    codes: Vec<F8E4M3>,
    /// Of blocks, row by row.
    scales: Vec<f32>,
    /// What the codes and their scales stand for.
    values: Vec<f32>,
}

/// A matrix in e4m3, each block of it scaled so that its largest element becomes the largest number.
fn quantize(matrix: &[f32], [rows, columns]: [usize; 2], block: [usize; 2]) -> Quantized {
    let [height, width] = [block[0].min(rows), block[1].min(columns)];
    let across = columns.div_ceil(width);
    let mut scales = vec![0f32; rows.div_ceil(height) * across];
    let of = |i: usize| i / columns / height * across + i % columns / width;
    for (i, x) in matrix.iter().enumerate() {
        scales[of(i)] = scales[of(i)].max(x.abs() / LARGEST);
    }
    // A block of zeros has any scale.
    scales.iter_mut().filter(|scale| **scale == 0.0).for_each(|scale| *scale = 1.0);
    let codes: Vec<_> = matrix.iter().enumerate().map(|(i, x)| F8E4M3::from_f32(x / scales[of(i)])).collect();
    let values = codes.iter().enumerate().map(|(i, code)| code.to_f32() * scales[of(i)]).collect();
    Quantized { codes, scales, values }
}

fn multiply(device: &Device, [m, n, k]: [usize; 3], blocks: [[usize; 2]; 2], fast: bool) -> Result<()> {
    let (x, w) = (normal::<f32>(1, m * k), normal::<f32>(2, n * k));
    let (of_x, of_w) = (quantize(&x, [m, k], blocks[0]), quantize(&w, [n, k], blocks[1]));
    let shape = |lines: usize| match blocks == ROWS {
        true => vec![lines],
        false => vec![lines, k.div_ceil(128)],
    };
    let scale_lines = if blocks == ROWS { n } else { n.div_ceil(128) };
    let scale_x = Tensor::from_slice(device, &of_x.scales, &shape(m))?;
    let scale_w = Tensor::from_slice(device, &of_w.scales, &shape(scale_lines))?;
    let (a, b) = (
        Tensor::from_slice(device, &of_x.codes, &[m, k])?,
        Tensor::from_slice(device, &of_w.codes, &[n, k])?,
    );
    let mut y = Tensor::filled(device, bf16::NAN, &[m, n])?;

    let (scale_x, scale_w) = (scale_x.view(), scale_w.view());
    let gemm = ScaledGemm::new().scale_a(&scale_x).scale_b(&scale_w).fast_accumulation(fast);
    let (a, b) = (a.view(), b.view());
    println!("  {}", gemm.plan(&a, &b, &y.view_mut())?);
    let stream = Stream::new(device)?;
    gemm.run(&stream, &a, &b, &mut y.view_mut())?;

    let rows = sample(m, 32);
    let found = pick(&y.to_vec_on(&stream)?, n, &rows);
    let exact = |x: &[f32], w: &[f32]| product(&Matrix::new(x, m, k), &Matrix::new(w, n, k).t(), &rows);
    let error = relative_error(&found, &exact(&of_x.values, &of_w.values));
    println!(
        "  relative error {error:.1e}, with quantisation {:.1e}",
        relative_error(&found, &exact(&x, &w))
    );
    // The result's rounding, and what the tensor cores' sums lose.
    let allowed = bf16::ROUNDING + if fast { 2e-2 } else { 1e-3 };
    if error.is_nan() || error > allowed {
        return Err(format!("the relative error is {error:.1e}, {allowed:.1e} is allowed").into());
    }
    if !device.is_emulator() {
        let y = std::cell::RefCell::new(y);
        let launch = |stream: &Stream, _| gemm.run(stream, &a, &b, &mut y.borrow_mut().view_mut());
        let timing =
            compare(device, &[Variant::new("e4m3", launch)], &Options { sets: 1, ..Options::default() })?;
        let ms = timing[0].median();
        println!("  {ms:.4} ms, {:.1} TFLOP/s", 2.0 * (m * n) as f64 * k as f64 / ms / 1e9);
    }
    Ok(())
}
