//! Functions of elements, transposition, rotary embedding, gated units and rows of a table, on the GPU or, where there is none, on the emulator: the results' errors, and the speed
//! on a GPU.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::Parser;
use tilewright::ops::{
    Activation, Binary, Elementwise, Embedding, Gated, Pairs, PointwisePlan, Rope, Transpose, Unary,
};
use tilewright::{Device, Stream, Tensor, f16};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::timing::{Options, Variant, compare, sets};
use tilewright_support::{Real, Result, activation, rows};

/// Computes a layer's small steps for some tokens: rows of a vocabulary's table, rotary embedding of 40 heads of 128 columns, SwiGLU of
/// 14336 columns, a bias of all tokens, a hyperbolic tangent, and the columns of all tokens one after the other; all f16. Checks the results, and measures the speed if there is a GPU.
#[derive(Parser)]
#[command(name = "pointwise")]
struct Arguments {
    /// Tokens [default: 8192, or 16 on the emulator]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    tokens: Option<u32>,
}

/// Columns of the gated unit; columns of a head, and heads.
const GATED: usize = 14336;
const HEAD: usize = 128;
const HEADS: usize = 40;
/// Rows of the table.
const VOCABULARY: usize = 1024;

/// What is computed.
#[derive(Clone, Copy)]
enum Op {
    Embedding,
    Rope,
    SwiGlu,
    AddRow,
    Tanh,
    Transpose,
}

/// A call's tensors: what is read, and the result.
struct Tensors {
    x: Tensor<f16>,
    indices: Tensor<i32>,
    y: RefCell<Tensor<f16>>,
}

impl Op {
    /// Rows of x for so many tokens, its columns, and those of the result.
    fn shape(self, tokens: usize) -> [usize; 3] {
        match self {
            Op::Embedding => [VOCABULARY, HEADS * HEAD, HEADS * HEAD],
            Op::Rope | Op::AddRow | Op::Tanh => [tokens, HEADS * HEAD, HEADS * HEAD],
            // The result's rows are x's columns.
            Op::Transpose => [HEADS * HEAD, tokens, HEADS * HEAD],
            Op::SwiGlu => [tokens, 2 * GATED, GATED],
        }
    }

    /// Queues it; gives the kernel.
    fn launch(
        self,
        stream: &Stream,
        Tensors { x, indices, y }: &Tensors,
    ) -> tilewright::Result<PointwisePlan> {
        let (x, mut y) = (x.view(), y.borrow_mut());
        let mut y = y.view_mut();
        match self {
            Op::Embedding => {
                Embedding::new().run(stream, &x, &indices.view(), &mut y)?;
                Embedding::new().plan(&x, &indices.view(), &y)
            }
            Op::Rope => {
                let shape = [y.shape()[0], HEADS, HEAD];
                let (x, mut y, rope) = (x.reshape(&shape)?, y.reshape(&shape)?, Rope::new(Pairs::Halves));
                rope.run(stream, &x, &mut y)?;
                rope.plan(&x, &y).map(|plan| *plan)
            }
            Op::AddRow => {
                let (row, add) = (x.clone().select(0, 0)?, Elementwise::new(Binary::Add));
                add.run(stream, [&x, &row], &mut y)?;
                add.plan([&x, &row], &y)
            }
            Op::Tanh => {
                let tanh = Elementwise::new(Unary::Tanh);
                tanh.run(stream, [&x], &mut y)?;
                tanh.plan([&x], &y)
            }
            Op::Transpose => {
                let transpose = Transpose::new(&[1, 0]);
                transpose.run(stream, &x, &mut y)?;
                transpose.plan(&x, &y)
            }
            Op::SwiGlu => {
                let swiglu = Gated::new(Activation::Silu);
                swiglu.run_packed(stream, &x, &mut y)?;
                swiglu.plan_packed(&x, &y).map(|plan| *plan)
            }
        }
    }

    /// The result for a token, of the row of x that it has, and of the first row.
    fn exact(self, x: &[f64], first: &[f64], token: usize) -> Vec<f64> {
        match self {
            Op::Embedding | Op::Transpose => x.to_vec(),
            Op::AddRow => x.iter().zip(first).map(|(x, first)| x + first).collect(),
            Op::Tanh => x.iter().map(|x| x.tanh()).collect(),
            Op::SwiGlu => {
                let (gate, up) = x.split_at(GATED);
                gate.iter()
                    .zip(up)
                    .map(|(&gate, up)| activation::exact(Activation::Silu, gate) * up)
                    .collect()
            }
            Op::Rope => {
                let rotated = |(i, &x): (usize, &f64), head: &[f64]| {
                    let pair = i % (HEAD / 2);
                    let angle = token as f64 * 1e4f64.powf(-2.0 * pair as f64 / HEAD as f64);
                    let other = if i < HEAD / 2 { -head[i + HEAD / 2] } else { head[pair] };
                    x * angle.cos() + other * angle.sin()
                };
                let head =
                    |head: &[f64]| head.iter().enumerate().map(|x| rotated(x, head)).collect::<Vec<_>>();
                x.chunks(HEAD).flat_map(head).collect()
            }
        }
    }
}

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    show(&device);
    let tokens =
        arguments.tokens.map_or(if device.is_emulator() { 16 } else { 8192 }, |tokens| tokens as usize);
    println!("\n| operator | tokens x columns | kernel | error | GB/s |\n| --- | --- | --- | ---: | ---: |");
    for (op, name) in [
        (Op::Embedding, "embedding"),
        (Op::Rope, "rope"),
        (Op::SwiGlu, "swiglu"),
        (Op::AddRow, "add a row"),
        (Op::Tanh, "tanh"),
        (Op::Transpose, "transpose"),
    ] {
        line(&device, op, name, tokens)?;
    }
    Ok(())
}

/// Computes, checks and measures one operator: a line of the table.
fn line(device: &Device, op: Op, name: &str, tokens: usize) -> Result<()> {
    let [count, cols, to] = op.shape(tokens);
    let values = normal::<f16>(1, count * cols);
    let places: Vec<i32> = (0..tokens).map(|token| (token * 7919 % VOCABULARY) as i32).collect();
    // What is read for each token, and what is written.
    let read = if matches!(op, Op::Transpose) { to } else { cols };
    let bytes = tokens * (read + to) * size_of::<f16>();
    let make = |_| -> Result<_> {
        Ok(Tensors {
            x: Tensor::from_slice(device, &values, &[count, cols])?,
            indices: Tensor::from_slice(device, &places, &[tokens])?,
            y: RefCell::new(Tensor::filled(device, f16::NAN, &[tokens, to])?),
        })
    };
    let copies = if device.is_emulator() { 1 } else { sets(device, bytes) };
    let sets = (0..copies).map(make).collect::<Result<Vec<_>>>()?;
    let plan = op.launch(&device.default_stream(), &sets[0])?;

    let y = sets[0].y.borrow().to_vec()?;
    let (mut results, mut references) = (Vec::new(), Vec::new());
    for token in [0, tokens / 2, tokens - 1] {
        let wide = |x: &[f16]| f16::widen(x).into_iter().map(f64::from).collect::<Vec<_>>();
        let x = match op {
            Op::Transpose => wide(&values[token..].iter().copied().step_by(cols).collect::<Vec<_>>()),
            Op::Embedding => wide(&values[places[token] as usize * cols..][..cols]),
            _ => wide(&values[token * cols..][..cols]),
        };
        results.extend_from_slice(&y[token * to..][..to]);
        references.extend(op.exact(&x, &wide(&values[..cols]), token));
    }
    let [error, allowed] = rows::error(&results, &references);
    print!("| {name} | {tokens} x {to} | `{}` | {error:.1e} ", plan.kernel().name());
    if error.is_nan() || error > allowed || f16::widen(&y).iter().any(|y| y.is_nan()) {
        println!("|");
        return Err(format!("the result is wrong: its relative error is {error:.1e}").into());
    }
    if device.is_emulator() {
        println!("| |");
        return Ok(());
    }
    let ours = Variant::new("tilewright", |stream: &Stream, set| op.launch(stream, &sets[set]).map(|_| ()));
    for timing in compare(device, &[ours], &Options { sets: sets.len(), ..Options::default() })? {
        println!("| {:.0} |", bytes as f64 / timing.median() / 1e6);
    }
    Ok(())
}
