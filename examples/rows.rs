//! Softmax, norms and cross-entropy of rows, on the GPU or, where there is none, on the emulator: the results' errors, and the speed on a GPU.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tilewright::ops::{CrossEntropy, FloatElement, Norm, Softmax};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::reference::sample;
use tilewright_support::timing::{Options, Variant, compare, sets};
use tilewright_support::{Real, Result, rows};

/// Computes softmax, log-softmax, causal softmax, RMSNorm, LayerNorm, RMSNorm of a sum, and cross-entropy, of every row of matrices, and the gradients of softmax, LayerNorm and
/// cross-entropy. Checks the results, and measures the speed if there is a GPU.
#[derive(Parser)]
#[command(name = "rows", override_usage = "rows [OPTIONS] [ROWS COLUMNS]")]
struct Arguments {
    /// Rows and columns [default: several shapes]
    #[arg(num_args = 2, value_names = ["ROWS", "COLUMNS"], value_parser = clap::value_parser!(u32).range(1..))]
    shape: Vec<u32>,
    /// Element type
    #[arg(long = "type", value_enum, default_value = "f16")]
    dtype: Type,
}

#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F16,
    Bf16,
    F32,
}

/// What is done to rows.
#[derive(Clone, Copy, PartialEq)]
enum Op {
    Softmax,
    LogSoftmax,
    CausalSoftmax,
    SoftmaxGradient,
    RmsNorm,
    LayerNorm,
    AddRmsNorm,
    LayerNormGradient,
    CrossEntropy,
}

const OPS: [(Op, &str); 9] = [
    (Op::Softmax, "softmax"),
    (Op::LogSoftmax, "log_softmax"),
    (Op::CausalSoftmax, "softmax, causal"),
    (Op::SoftmaxGradient, "softmax, gradient"),
    (Op::RmsNorm, "rms_norm"),
    (Op::LayerNorm, "layer_norm"),
    (Op::AddRmsNorm, "rms_norm of a sum"),
    (Op::LayerNormGradient, "layer_norm, gradients"),
    (Op::CrossEntropy, "cross_entropy, gradient"),
];

const SHAPES: [[usize; 2]; 6] =
    [[8192, 8192], [4096, 16384], [65536, 1024], [1024, 131072], [8191, 8191], [32, 4096]];
/// What the emulator computes in a moment.
const EMULATED: [[usize; 2]; 5] = [[64, 1024], [16, 8192], [100, 33], [7, 8191], [2, 131072]];

const EPSILON: f32 = 1e-5;
/// Rows that are compared with results computed in f64.
const CHECKED: usize = 32;

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    show(&device);
    println!("\n| operator | rows x columns | kernel | error | GB/s |\n| --- | --- | --- | ---: | ---: |");
    let shapes = match arguments.shape[..] {
        [rows, cols] => vec![[rows as usize, cols as usize]],
        _ if device.is_emulator() => EMULATED.to_vec(),
        _ => SHAPES.to_vec(),
    };
    for shape in shapes {
        for (op, name) in OPS {
            match arguments.dtype {
                Type::F16 => line::<f16>(&device, op, name, shape)?,
                Type::Bf16 => line::<bf16>(&device, op, name, shape)?,
                Type::F32 => line::<f32>(&device, op, name, shape)?,
            }
        }
    }
    Ok(())
}

/// The label of a row.
fn label(row: usize, cols: usize) -> usize {
    row * 7919 % cols
}

/// The tensors of a call.
struct Tensors<T> {
    labels: Tensor<i32>,
    loss: RefCell<Tensor<f32>>,
    x: Tensor<T>,
    /// Or the gradient by y.
    residual: Tensor<T>,
    sum: RefCell<Tensor<T>>,
    y: RefCell<Tensor<T>>,
    /// The gradients by weight and bias, and memory for their parts.
    columns: RefCell<[Tensor<T>; 2]>,
    workspace: RefCell<Tensor<f32>>,
}

/// Queues the operator; gives the kernel's name.
fn launch<T: FloatElement>(
    op: Op,
    stream: &Stream,
    [weight, bias]: [&Tensor<T>; 2],
    Tensors { x, residual, sum, y, labels, loss, columns, workspace }: &Tensors<T>,
) -> tilewright::Result<&'static str> {
    let (weight, bias, x, residual) = (weight.view(), bias.view(), x.view(), residual.view());
    let (mut sum, mut y) = (sum.borrow_mut(), y.borrow_mut());
    let (mut sum, mut y) = (sum.view_mut(), y.view_mut());
    let norm = match op {
        Op::LayerNorm | Op::LayerNormGradient => Norm::layer().bias(&bias),
        _ => Norm::rms(),
    };
    let norm = norm.weight(&weight).epsilon(EPSILON);
    let softmax = match op {
        Op::LogSoftmax => Softmax::new().log(),
        Op::CausalSoftmax => Softmax::new().causal(),
        _ => Softmax::new(),
    };
    let candidates = match op {
        Op::SoftmaxGradient => {
            softmax.run_gradient(stream, &x, &residual, &mut y)?;
            softmax.candidates_gradient(&x, &residual, &y)?
        }
        Op::LayerNormGradient => {
            let (mut columns, mut workspace) = (columns.borrow_mut(), workspace.borrow_mut());
            let [d_weight, d_bias] = &mut *columns;
            let (mut d_weight, mut d_bias) = (d_weight.view_mut(), d_bias.view_mut());
            let gradient = norm.gradient().d_weight(&mut d_weight).d_bias(&mut d_bias);
            let len = gradient.workspace_len(&x, &residual, &y)?;
            if workspace.len() < len {
                *workspace = Tensor::zeros(x.device(), &[len])?;
            }
            let mut workspace = workspace.view_mut();
            let mut gradient = gradient.workspace(&mut workspace);
            gradient.run(stream, &x, &residual, &mut y)?;
            gradient.candidates(&x, &residual, &y)?
        }
        Op::Softmax | Op::LogSoftmax | Op::CausalSoftmax => {
            softmax.run(stream, &x, &mut y)?;
            softmax.candidates(&x, &y)?
        }
        Op::RmsNorm | Op::LayerNorm => {
            norm.run(stream, &x, &mut y)?;
            norm.candidates(&x, &y)?
        }
        Op::AddRmsNorm => {
            norm.run_added(stream, &x, &residual, &mut sum, &mut y)?;
            norm.candidates_added(&x, &residual, &sum, &y)?
        }
        Op::CrossEntropy => {
            let (labels, mut loss) = (labels.view(), loss.borrow_mut());
            let mut loss = loss.view_mut();
            CrossEntropy::new().run_with_gradient(stream, &x, &labels, &mut loss, &mut y)?;
            CrossEntropy::new().candidates(&x, &labels, &loss, &y)?
        }
    };
    Ok(candidates[0].name())
}

/// Computes, checks and measures one operator: a line of the table.
fn line<T: FloatElement + Real>(device: &Device, op: Op, name: &str, [rows, cols]: [usize; 2]) -> Result<()> {
    let [x, residual] = [1, 2].map(|seed| normal::<T>(seed, rows * cols));
    let [weight, bias] = [3, 4].map(|seed| normal::<T>(seed, cols));
    let tensors = match op {
        Op::AddRmsNorm => 4,
        Op::SoftmaxGradient | Op::LayerNormGradient => 3,
        _ => 2,
    };
    let bytes = tensors * rows * cols * size_of::<T>();
    let copies = if device.is_emulator() { 1 } else { sets(device, bytes) };
    let make = |_| -> Result<_> {
        let output = || Tensor::filled(device, T::POISON, &[rows, cols]);
        let labels: Vec<i32> = (0..rows).map(|row| label(row, cols) as i32).collect();
        Ok(Tensors {
            labels: Tensor::from_slice(device, &labels, &[rows])?,
            loss: RefCell::new(Tensor::filled(device, f32::NAN, &[rows])?),
            x: Tensor::from_slice(device, &x, &[rows, cols])?,
            residual: Tensor::from_slice(device, &residual, &[rows, cols])?,
            sum: RefCell::new(output()?),
            y: RefCell::new(output()?),
            columns: RefCell::new([Tensor::zeros(device, &[cols])?, Tensor::zeros(device, &[cols])?]),
            workspace: RefCell::new(Tensor::zeros(device, &[0])?),
        })
    };
    let sets = (0..copies).map(make).collect::<Result<Vec<_>>>()?;
    let vector = |data: &[T]| Tensor::from_slice(device, data, &[cols]);
    let (w, b) = (vector(&weight)?, vector(&bias)?);
    // All of them: their first run makes their workspace, which a graph's capture cannot.
    let queued = |set| launch(op, &device.default_stream(), [&w, &b], set);
    let kernel = sets.iter().map(queued).collect::<tilewright::Result<Vec<_>>>()?[0];

    let y = sets[0].y.borrow().to_vec()?;
    let (w32, b32, zeros) = (T::widen(&weight), T::widen(&bias), vec![0.0; cols]);
    let (mut results, mut references) = (Vec::new(), Vec::new());
    for row in sample(rows, CHECKED) {
        let part = |data: &[T]| T::widen(&data[row * cols..][..cols]);
        let (x, r) = (part(&x), part(&residual));
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let sum = || wide.iter().zip(&r).map(|(x, &r)| x + f64::from(r)).collect::<Vec<_>>();
        let epsilon = f64::from(EPSILON);
        let exact = match op {
            Op::Softmax | Op::LogSoftmax => rows::softmax(&x, 1.0, op == Op::LogSoftmax),
            Op::CausalSoftmax => {
                let scores = wide.iter().enumerate().map(|(column, &x)| match column + rows > row + cols {
                    true => f64::NEG_INFINITY,
                    false => x,
                });
                rows::softmax_of(&scores.collect::<Vec<_>>(), false)
            }
            Op::SoftmaxGradient => rows::softmax_gradient(&x, &r, 1.0, false),
            Op::LayerNormGradient => rows::norm_gradient(&wide, [&r, &w32], epsilon, true).0,
            Op::RmsNorm => rows::norm(&wide, [&w32, &zeros], epsilon, false),
            Op::LayerNorm => rows::norm(&wide, [&w32, &b32], epsilon, true),
            Op::AddRmsNorm => rows::norm(&sum(), [&w32, &zeros], epsilon, false),
            Op::CrossEntropy => rows::cross_entropy(&x, label(row, cols), [0.0; 2]).1,
        };
        results.extend_from_slice(&y[row * cols..][..cols]);
        references.extend(exact);
    }
    let [error, allowed] = rows::error(&results, &references);
    print!("| {name} {} | {rows} x {cols} | `{kernel}` | {error:.1e} ", T::DTYPE);
    if error.is_nan() || error > allowed || T::widen(&y).iter().any(|y| y.is_nan()) {
        println!("|");
        return Err(format!("the result is wrong: its relative error is {error:.1e}").into());
    }
    if device.is_emulator() {
        println!("| |");
        return Ok(());
    }
    let ours = Variant::new("tilewright", |stream: &Stream, set| {
        launch(op, stream, [&w, &b], &sets[set]).map(|_| ())
    });
    let options = Options { sets: sets.len(), ..Options::default() };
    for timing in compare(device, &[ours], &options)? {
        println!("| {:.0} |", bytes as f64 / timing.median() / 1e6);
    }
    Ok(())
}
