//! Reductions, argmax and the largest elements of rows, on the GPU or, where there is none, on the emulator: the results' errors, and the speed on a GPU.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tilewright::ops::{Argmax, FloatElement, Reduce, ReducedFrom, Reduction, TopK};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::timing::{Options, Variant, compare, sets};
use tilewright_support::{Real, Result};

/// Computes sums, norms and maxima of rows, of columns and of whole matrices, the places of the largest elements of rows, and the 50 largest. Checks the results, and
/// measures the speed if there is a GPU.
#[derive(Parser)]
#[command(name = "reduce", override_usage = "reduce [OPTIONS] [ROWS COLUMNS]")]
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

/// What is done to a matrix.
#[derive(Clone, Copy, PartialEq)]
enum Op {
    Over(Reduction, &'static [usize]),
    Argmax,
    TopK,
}

const OPS: [(Op, &str); 7] = [
    (Op::Over(Reduction::Sum, &[1]), "sum of rows"),
    (Op::Over(Reduction::Norm, &[1]), "norm of rows"),
    (Op::Over(Reduction::Sum, &[0]), "sum of columns"),
    (Op::Over(Reduction::Max, &[0]), "max of columns"),
    (Op::Over(Reduction::Sum, &[0, 1]), "sum of all"),
    (Op::Argmax, "argmax of rows"),
    (Op::TopK, "top_k of rows"),
];

const SHAPES: [[usize; 2]; 6] =
    [[8192, 8192], [65536, 1024], [1024, 131072], [8191, 8191], [32, 4096], [1, 131072]];
/// What the emulator computes in a moment.
const EMULATED: [[usize; 2]; 4] = [[64, 1024], [16, 4096], [7, 8191], [1, 131072]];

/// The largest elements that are found, of rows that have as many.
const FOUND: usize = 50;
/// The longest rows whose largest elements are found.
const LONGEST: usize = 1 << 18;

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
        for (op, name) in OPS.into_iter().filter(|&(op, _)| op != Op::TopK || shape[1] <= LONGEST) {
            match arguments.dtype {
                Type::F16 => line::<f16>(&device, op, name, shape)?,
                Type::Bf16 => line::<bf16>(&device, op, name, shape)?,
                Type::F32 => line::<f32>(&device, op, name, shape)?,
            }
        }
    }
    Ok(())
}

/// The tensors of calls: results go to the same ones.
struct Tensors<T> {
    x: Vec<Tensor<T>>,
    y: RefCell<Tensor<f32>>,
    workspace: RefCell<Tensor<f32>>,
    places: RefCell<Tensor<i32>>,
    found: RefCell<(Tensor<T>, Tensor<u32>)>,
}

/// Queues the operator; gives the kernel's name.
fn launch<T: FloatElement>(
    op: Op,
    stream: &Stream,
    tensors: &Tensors<T>,
    set: usize,
) -> tilewright::Result<&'static str>
where
    f32: ReducedFrom<T>,
{
    let x = tensors.x[set].view();
    Ok(match op {
        Op::Over(reduction, dims) => {
            let (mut y, mut workspace) = (tensors.y.borrow_mut(), tensors.workspace.borrow_mut());
            let (mut y, mut workspace) = (y.view_mut(), workspace.view_mut());
            let mut reduce = Reduce::new(reduction).workspace(&mut workspace);
            reduce.run(stream, &x, dims, &mut y)?;
            reduce.plan(&x, dims, &y)?.kernel().name()
        }
        Op::Argmax => {
            let mut places = tensors.places.borrow_mut();
            Argmax::new().run(stream, &x, &mut places.view_mut())?;
            Argmax::new().plan(&x, &places.view_mut())?.kernel().name()
        }
        Op::TopK => {
            let (values, indices) = &mut *tensors.found.borrow_mut();
            let (mut values, mut indices) = (values.view_mut(), indices.view_mut());
            TopK::new().run(stream, &x, &mut values, &mut indices)?;
            TopK::new().plan(&x, &values, &indices)?.kernel().name()
        }
    })
}

/// The results and what they must be: of places, the elements that lie there.
fn results<T: FloatElement + Real>(
    op: Op,
    tensors: &Tensors<T>,
    x: &[f32],
    cols: usize,
) -> Result<[Vec<f64>; 2]> {
    let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    let largest = |count: usize| {
        let sorted = x.chunks(cols).map(|row| {
            let mut row = wide(row);
            row.sort_by(|a, b| b.total_cmp(a));
            row.truncate(count);
            row
        });
        sorted.collect::<Vec<_>>().concat()
    };
    let at = |places: &[u32], each: usize| {
        let place = |(i, &place): (usize, &u32)| f64::from(x[i / each * cols + place as usize]);
        places.iter().enumerate().map(place).collect::<Vec<_>>()
    };
    Ok(match op {
        Op::Over(reduction, dims) => {
            let count = match dims {
                [1] => x.len() / cols,
                [0] => cols,
                _ => 1,
            };
            let mut all = vec![if reduction == Reduction::Max { f64::NEG_INFINITY } else { 0.0 }; count];
            for (i, &x) in x.iter().enumerate() {
                let (x, result) = (
                    f64::from(x),
                    match dims {
                        [1] => i / cols,
                        [0] => i % cols,
                        _ => 0,
                    },
                );
                let result = &mut all[result];
                match reduction {
                    Reduction::Max => *result = result.max(x),
                    Reduction::Norm => *result += x * x,
                    _ => *result += x,
                }
            }
            if reduction == Reduction::Norm {
                all.iter_mut().for_each(|result| *result = result.sqrt());
            }
            [wide(&tensors.y.borrow().to_vec()?), all]
        }
        Op::Argmax => {
            let places: Vec<u32> = tensors.places.borrow().to_vec()?.iter().map(|&x| x as u32).collect();
            [at(&places, 1), largest(1)]
        }
        Op::TopK => {
            let places = tensors.found.borrow().1.to_vec()?;
            [at(&places, FOUND.min(cols)), largest(FOUND)]
        }
    })
}

/// Computes, checks and measures one operator: a line of the table.
fn line<T: FloatElement + Real>(device: &Device, op: Op, name: &str, [rows, cols]: [usize; 2]) -> Result<()>
where
    f32: ReducedFrom<T>,
{
    let x = normal::<T>(1, rows * cols);
    let bytes = rows * cols * size_of::<T>();
    let copies = if device.is_emulator() { 1 } else { sets(device, bytes) };
    let x_on_device = (0..copies).map(|_| Tensor::from_slice(device, &x, &[rows, cols]));
    let x_on_device = x_on_device.collect::<tilewright::Result<Vec<_>>>()?;
    let kept: Vec<usize> = match op {
        Op::Over(_, dims) => {
            [rows, cols].into_iter().enumerate().filter(|(i, _)| !dims.contains(i)).map(|(_, n)| n).collect()
        }
        _ => vec![0],
    };
    let found = FOUND.min(cols);
    let mut y = Tensor::filled(device, f32::NAN, &kept)?;
    let len = match op {
        Op::Over(reduction, dims) => {
            Reduce::new(reduction).workspace_len(&x_on_device[0].view(), dims, &y.view_mut())?
        }
        _ => 0,
    };
    let tensors = Tensors {
        x: x_on_device,
        y: RefCell::new(y),
        workspace: RefCell::new(Tensor::zeros(device, &[len])?),
        places: RefCell::new(Tensor::zeros(device, &[rows])?),
        found: RefCell::new((Tensor::zeros(device, &[rows, found])?, Tensor::zeros(device, &[rows, found])?)),
    };
    let kernel = launch(op, &device.default_stream(), &tensors, 0)?;
    let [is, must_be] = results(op, &tensors, &T::widen(&x), cols)?;
    // As a share of what sums of so many normal numbers are like, or of the results.
    let size = match op {
        Op::Over(Reduction::Sum, _) => ((rows * cols / is.len()) as f64).sqrt(),
        _ => must_be.iter().fold(0.0, |size: f64, x| size.max(x.abs())),
    };
    let error = is.iter().zip(&must_be).map(|(is, must)| (is - must).abs() / size).fold(0.0, f64::max);
    let nan = is.iter().any(|x| x.is_nan());
    print!("| {name} {} | {rows} x {cols} | `{kernel}` | {error:.1e} ", T::DTYPE);
    if nan || error > 1e-4 || is.len() != must_be.len() {
        println!("|");
        return Err(format!("the result is wrong: its relative error is {error:.1e}").into());
    }
    if device.is_emulator() {
        println!("| |");
        return Ok(());
    }
    let ours =
        Variant::new("tilewright", |stream: &Stream, set| launch(op, stream, &tensors, set).map(|_| ()));
    let options = Options { sets: tensors.x.len(), ..Options::default() };
    for timing in compare(device, &[ours], &options)? {
        println!("| {:.0} |", bytes as f64 / timing.median() / 1e6);
    }
    Ok(())
}
