//! Computes attention on the GPU or, where there is none, on the emulator; checks the results, and shows the speed on a GPU.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tilewright::ops::{Attention, HalfElement};
use tilewright::{Device, Stream, Tensor, TensorView, TensorViewMut, bf16, f16};
use tilewright_support::attention::{Head, Scores};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::reference::{pick, relative_error, sample};
use tilewright_support::timing::{Options, Variant, compare, sets};
use tilewright_support::{Real, Result};

/// Computes O = softmax(Q Kᵀ / sqrt(D)) V on random tensors [batch, length, heads, D]: prefill, full and causal, and decode, one
/// query over many keys. Checks the results, and measures the speed if there is a GPU.
#[derive(Parser)]
#[command(name = "attention", override_usage = "attention [OPTIONS] [BATCH HEADS KV_HEADS QUERIES KEYS D]")]
struct Arguments {
    /// Sequences, heads, heads of keys and values, queries, keys, and head dimension [default: several shapes]
    #[arg(num_args = 6, value_names = ["BATCH", "HEADS", "KV_HEADS", "QUERIES", "KEYS", "D"], value_parser = clap::value_parser!(u32).range(1..))]
    shape: Vec<u32>,
    /// Element type
    #[arg(long = "type", value_enum, default_value = "bf16")]
    dtype: Type,
    /// Forces a kernel by its name
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Shows how all kernels rate for the shapes, and computes nothing
    #[arg(long)]
    list: bool,
    /// Figures to show beside ours: a file with lines such as `4 16 16 4096 4096 128 causal 0.477`, a shape, its mask, and the
    /// milliseconds that PyTorch's SDPA takes
    #[arg(long, value_name = "FILE")]
    sdpa: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F16,
    Bf16,
}

/// Sequences, heads, heads of keys and values, queries, keys, head dimension.
type Shape = [usize; 6];

const SHAPES: [Shape; 9] = [
    [16, 16, 16, 1024, 1024, 128],
    [4, 16, 16, 4096, 4096, 128],
    [1, 16, 16, 16384, 16384, 128],
    [4, 32, 8, 4096, 4096, 128],
    [4, 32, 32, 4096, 4096, 64],
    [4, 8, 8, 4096, 4096, 256],
    [1, 32, 8, 1, 8192, 128],
    [16, 32, 8, 1, 8192, 128],
    [64, 32, 8, 1, 8192, 128],
];

/// What the emulator computes in a moment.
const EMULATED: [Shape; 4] =
    [[1, 4, 1, 256, 256, 128], [2, 2, 2, 200, 200, 64], [1, 2, 2, 130, 130, 256], [2, 8, 2, 1, 1000, 128]];

/// Up to so many queries it is decode, whose speed is that at which keys and values are read.
const DECODE: usize = 16;

/// Queries of the first and the last head that are compared with a result computed in f64.
const CHECKED_QUERIES: usize = 32;

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    show(&device);
    let shapes = match arguments.shape[..] {
        [batch, heads, kv_heads, queries, keys, columns] => {
            vec![[batch, heads, kv_heads, queries, keys, columns].map(|size| size as usize)]
        }
        _ if device.is_emulator() => EMULATED.to_vec(),
        _ => SHAPES.to_vec(),
    };
    let sdpa = arguments.sdpa.as_deref().map_or(Ok(Vec::new()), figures)?;
    for shape in shapes {
        let [.., queries, _, _] = shape;
        // One query sees all keys with and without the mask.
        for causal in [false, true].into_iter().take(if queries == 1 { 1 } else { 2 }) {
            let task = Task { device: &device, arguments, shape, causal, sdpa: &sdpa };
            match arguments.dtype {
                Type::F16 => task.run::<f16>()?,
                Type::Bf16 => task.run::<bf16>()?,
            }
        }
    }
    Ok(())
}

/// A peer's figure: the shape, whether it is causal, milliseconds.
type Figure = (Shape, bool, f64);

/// Reads a peer's figures.
fn figures(file: &Path) -> Result<Vec<Figure>> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let figure = |(number, line): (usize, &str)| {
        let words: Vec<_> = line.split_whitespace().collect();
        let parsed = || {
            let (&ms, words) = words.split_last()?;
            let (&mask, shape) = words.split_last()?;
            let shape: Vec<usize> = shape.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
            let causal = ["full", "causal"].iter().position(|known| *known == mask)? == 1;
            Some((shape.try_into().ok()?, causal, ms.parse().ok()?))
        };
        parsed().ok_or_else(|| {
            let allowed = "it must be six sizes, `full` or `causal`, and milliseconds";
            format!("{}, line {}: `{line}`; {allowed}", file.display(), number + 1).into()
        })
    };
    lines.map(figure).collect()
}

/// One attention.
struct Task<'a> {
    device: &'a Device,
    arguments: &'a Arguments,
    shape: Shape,
    causal: bool,
    sdpa: &'a [Figure],
}

/// Its tensors on the device, [batch, length, heads, head dimension].
struct Tensors<T> {
    q: Tensor<T>,
    k: Tensor<T>,
    v: Tensor<T>,
    o: RefCell<Tensor<T>>,
    /// For parts of the keys, where they are divided.
    workspace: RefCell<Tensor<f32>>,
}

impl<T: HalfElement> Tensors<T> {
    /// Q, K and V as [batch, heads, length, head dimension].
    fn inputs(&self) -> tilewright::Result<[TensorView<'_, T>; 3]> {
        let Tensors { q, k, v, .. } = self;
        Ok([q.view().transpose(1, 2)?, k.view().transpose(1, 2)?, v.view().transpose(1, 2)?])
    }
}

/// O as [batch, heads, length, head dimension].
fn heads<T: HalfElement>(o: &mut Tensor<T>) -> tilewright::Result<TensorViewMut<'_, T>> {
    o.view_mut().transpose(1, 2)
}

impl Task<'_> {
    fn run<T: HalfElement + Real>(&self) -> Result<()> {
        let [batch, heads_of_q, kv_heads, queries, keys, columns] = self.shape;
        let mask = if self.causal { "causal" } else { "full" };
        println!(
            "\n{} batch {batch}, heads {heads_of_q}/{kv_heads}, queries {queries}, keys {keys}, head dimension {columns}, {mask}",
            T::DTYPE
        );
        let (of_q, of_k) = ([batch, queries, heads_of_q, columns], [batch, keys, kv_heads, columns]);
        let [q, k, v] =
            [(1, of_q), (2, of_k), (3, of_k)].map(|(seed, of)| normal::<T>(seed, of.iter().product()));
        // As many copies as it takes to find none of them in the cache when it is used again, where that matters.
        let bytes = (2 * q.len() + k.len() + v.len()) * size_of::<T>();
        let copies = if self.device.is_emulator() { 1 } else { sets(self.device, bytes) };
        let make = |_| -> Result<_> {
            Ok(Tensors {
                q: Tensor::from_slice(self.device, &q, &of_q)?,
                k: Tensor::from_slice(self.device, &k, &of_k)?,
                v: Tensor::from_slice(self.device, &v, &of_k)?,
                o: RefCell::new(Tensor::filled(self.device, T::POISON, &of_q)?),
                workspace: RefCell::new(Tensor::zeros(self.device, &[0])?),
            })
        };
        let mut tensors = (0..copies).map(make).collect::<Result<Vec<_>>>()?;
        {
            let [q, k, v] = tensors[0].inputs()?;
            let mut o = tensors[0].o.borrow_mut();
            if self.arguments.list {
                for candidate in self.attention().candidates(&q, &k, &v, &heads(&mut o)?)? {
                    println!("  {candidate}");
                }
                return Ok(());
            }
            println!("  kernel: {}", self.attention().plan(&q, &k, &v, &heads(&mut o)?)?);
        }
        for tensors in &mut tensors {
            let len = {
                let ([q, k, v], mut o) = (tensors.inputs()?, tensors.o.borrow_mut());
                self.attention().workspace_len(&q, &k, &v, &heads(&mut o)?)?
            };
            tensors.workspace = RefCell::new(Tensor::uninit(self.device, &[len])?);
        }
        self.attend(&self.device.default_stream(), &tensors[0])?;
        self.check([&q, &k, &v], &tensors[0].o.borrow().to_vec()?)?;
        if self.device.is_emulator() { Ok(()) } else { self.measure(&tensors) }
    }

    /// What is asked of the operator.
    fn attention(&self) -> Attention<'_> {
        let attention = if self.causal { Attention::new().causal() } else { Attention::new() };
        match &self.arguments.kernel {
            Some(name) => attention.kernel(name),
            None => attention,
        }
    }

    fn attend<T: HalfElement>(&self, stream: &Stream, tensors: &Tensors<T>) -> tilewright::Result<()> {
        let [q, k, v] = tensors.inputs()?;
        let mut workspace = tensors.workspace.borrow_mut();
        let mut workspace = workspace.view_mut();
        let attention: Attention<'_> = self.attention();
        let mut attention =
            if workspace.is_empty() { attention } else { attention.workspace(&mut workspace) };
        attention.run(stream, &q, &k, &v, &mut heads(&mut tensors.o.borrow_mut())?)
    }

    fn scores(&self) -> Scores {
        Scores { causal: self.causal, ..Scores::new(self.shape[5]) }
    }

    /// Compares some rows with the result in f64, and looks for elements that were not written.
    fn check<T: Real>(&self, inputs: [&Vec<T>; 3], o: &[T]) -> Result<()> {
        let [batch, heads, kv_heads, queries, keys, columns] = self.shape;
        let rows = sample(queries, CHECKED_QUERIES);
        // The lines of one head.
        let lines = |data: &[T], b: usize, (length, of): (usize, usize), h: usize| -> Vec<T> {
            let line = |i: usize| &data[((b * length + i) * of + h) * columns..][..columns];
            (0..length).flat_map(line).copied().collect()
        };
        let mut error = 0f64;
        for (b, h) in [(0, 0), (batch - 1, heads - 1)] {
            let kv = h / (heads / kv_heads);
            let [q, k, v] = [(0, (queries, heads), h), (1, (keys, kv_heads), kv), (2, (keys, kv_heads), kv)]
                .map(|(which, of, h)| lines(inputs[which], b, of, h));
            let head = Head::new([&q, &k, &v], queries, keys, [columns; 2]);
            let exact: Vec<_> = head.rows(&rows, &self.scores()).into_iter().flat_map(|row| row.o).collect();
            let off = relative_error(&pick(&lines(o, b, (queries, heads), h), columns, &rows), &exact);
            error = if off.is_nan() { off } else { error.max(off) };
        }
        // Weights are rounded once, and the result is.
        let allowed = 2.0 * T::ROUNDING;
        println!("  error: {error:.1e} of {} rows, at most {allowed:.1e} is right", 2 * rows.len());
        let unwritten = T::widen(o).iter().filter(|x| x.is_nan()).count();
        match unwritten {
            0 if error <= allowed => Ok(()),
            0 => Err(format!("the result is wrong: its relative error is {error:.1e}").into()),
            _ => Err(format!("the result is wrong: {unwritten} elements are not numbers").into()),
        }
    }

    fn measure<T: HalfElement>(&self, tensors: &[Tensors<T>]) -> Result<()> {
        let [batch, heads, kv_heads, queries, keys, columns] = self.shape;
        let seen: usize = (0..queries).map(|i| self.scores().seen(i, queries, keys).len()).sum();
        let flops = 4.0 * (batch * heads) as f64 * seen as f64 * columns as f64;
        let bytes = (2 * batch * kv_heads * keys * columns * size_of::<T>()) as f64;
        let rate = |ms: f64| match queries {
            0..=DECODE => format!("{:.0} GB/s of keys and values", bytes / ms / 1e6),
            _ => format!("{:.1} TFLOP/s", flops / ms / 1e9),
        };
        let ours = Variant::new("tilewright", |stream, set| self.attend(stream, &tensors[set]));
        let options = Options { sets: tensors.len(), ..Options::default() };
        for timing in compare(self.device, &[ours], &options)? {
            let ms = timing.median();
            println!("  {}: {ms:.4} ms, {}", timing.name, rate(ms));
            let figure =
                self.sdpa.iter().find(|(shape, causal, _)| (*shape, *causal) == (self.shape, self.causal));
            if let Some((_, _, sdpa)) = figure {
                println!(
                    "  SDPA, as given: {sdpa:.4} ms, {}: ours is {:.2} times as fast",
                    rate(*sdpa),
                    sdpa / ms
                );
            }
        }
        Ok(())
    }
}
