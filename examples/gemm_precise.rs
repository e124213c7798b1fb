//! Multiplies f32 on the GPU or, where there is none, on the emulator, in three ways: as tf32, as parts of tf32, and in full precision on CUDA cores. Compares the
//! results with f64.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::Parser;
use tilewright::ops::{Gemm, ScaledGemm};
use tilewright::{Device, Event, Result as Done, Stream, Tensor};
use tilewright_support::Result;
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, pick, product, relative_error, sample};

/// Computes y = x wᵀ of f32: with each number rounded to 11 bits, as the sum of two such numbers, and as it is. Prints relative errors, and the speed if
/// there is a GPU.
#[derive(Parser)]
#[command(name = "gemm_precise", override_usage = "gemm_precise [M N K]")]
struct Arguments {
    /// Rows of x, of w, and columns of both, a multiple of 4 [default: several shapes]
    #[arg(num_args = 3, value_names = ["M", "N", "K"], value_parser = clap::value_parser!(u32).range(1..))]
    shape: Vec<u32>,
}

/// Queues a product.
type Launch<'a> = &'a dyn Fn(&Stream) -> Done<()>;

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    show(&device);
    let shapes = match arguments.shape[..] {
        [m, n, k] => vec![[m, n, k].map(|size| size as usize)],
        _ if device.is_emulator() => vec![[70, 136, 200]],
        _ => vec![[4096, 4096, 4096], [1000, 8192, 28672], [512, 512, 100_000]],
    };
    shapes.into_iter().try_for_each(|shape| multiply(&device, shape))
}

fn multiply(device: &Device, [m, n, k]: [usize; 3]) -> Result<()> {
    let (x, w) = (normal::<f32>(1, m * k), normal::<f32>(2, n * k));
    let rows = sample(m, 16);
    let exact = product(&Matrix::new(&x, m, k), &Matrix::new(&w, n, k).t(), &rows);
    let x_there = Tensor::from_slice(device, &x, &[m, k])?;
    let w_there = Tensor::from_slice(device, &w, &[n, k])?;
    let y = RefCell::new(Tensor::filled(device, f32::NAN, &[m, n])?);
    let (a, b) = (x_there.view(), w_there.view());
    let transposed = w_there.view().transpose(0, 1)?;
    let scaled = |precise, stream: &Stream| {
        ScaledGemm::new().precise(precise).run(stream, &a, &b, &mut y.borrow_mut().view_mut())
    };
    let full = |stream: &Stream| Gemm::new().run(stream, &a, &transposed, &mut y.borrow_mut().view_mut());
    println!("\n{m} x {n} x {k}");
    // What rounding to tf32, and sums of so many numbers in f32, may lose.
    let ways: [(_, f64, Launch<'_>); 3] = [
        ("tf32", 2e-3, &|stream| scaled(false, stream)),
        ("precise", 2e-6, &|stream| scaled(true, stream)),
        ("f32", 1e-5, &full),
    ];
    for (name, allowed, launch) in ways {
        let stream = Stream::new(device)?;
        y.borrow_mut().fill(&stream, f32::NAN)?;
        launch(&stream)?;
        let error = relative_error(&pick(&y.borrow().to_vec_on(&stream)?, n, &rows), &exact);
        print!("  {name:8} relative error {error:.1e}");
        if error.is_nan() || error > allowed {
            println!();
            return Err(format!("the relative error is {error:.1e}, {allowed:.1e} is allowed").into());
        }
        if !device.is_emulator() {
            let ms = milliseconds(device, launch)?;
            print!(", {ms:.3} ms, {:.1} TFLOP/s", 2.0 * (m * n) as f64 * k as f64 / ms / 1e9);
        }
        println!();
    }
    Ok(())
}

/// Of a launch, of ten one behind the other.
fn milliseconds(device: &Device, launch: Launch<'_>) -> Result<f64> {
    let (stream, start, end) = (Stream::new(device)?, Event::new(device)?, Event::new(device)?);
    launch(&stream)?;
    stream.record(&start)?;
    (0..10).try_for_each(|_| launch(&stream))?;
    stream.record(&end)?;
    stream.synchronize()?;
    Ok(f64::from(start.elapsed_ms(&end)?) / 10.0)
}
