//! Computes attention on the GPU or, where there is none, on the emulator; checks the results, and shows the speed on a GPU.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tilewright::ops::{Attention, AttentionElement, kernels};
use tilewright::{Device, Stream, Tensor, TensorView, TensorViewMut, bf16, f16};
use tilewright_support::attention::{Head, Scores};
use tilewright_support::random::normal;
use tilewright_support::reference::{pick, relative_error, sample};
use tilewright_support::timing::{Options, Variant, compare, sets};
use tilewright_support::{Real, Result};

/// Computes O = softmax(Q Kᵀ / sqrt(D)) V on random tensors [batch, length, heads, D], full and causal, checks the
/// results, and measures the speed if there is a GPU.
#[derive(Parser)]
#[command(name = "attention", override_usage = "attention [OPTIONS] [BATCH HEADS KV_HEADS LENGTH D]")]
struct Arguments {
    /// Sequences, heads, heads of keys and values, length, and head dimension [default: several shapes]
    #[arg(num_args = 5, value_names = ["BATCH", "HEADS", "KV_HEADS", "LENGTH", "D"], value_parser = clap::value_parser!(u32).range(1..))]
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
}

#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F16,
    Bf16,
}

/// Sequences, heads, heads of keys and values, length, head dimension.
type Shape = [usize; 5];

const SHAPES: [Shape; 6] = [
    [16, 16, 16, 1024, 128],
    [4, 16, 16, 4096, 128],
    [1, 16, 16, 16384, 128],
    [4, 32, 8, 4096, 128],
    [4, 32, 32, 4096, 64],
    [4, 8, 8, 4096, 256],
];

/// What the emulator computes in a moment.
const EMULATED: [Shape; 3] = [[1, 4, 1, 256, 128], [2, 2, 2, 200, 64], [1, 2, 2, 130, 256]];

/// Queries of the first and the last head that are compared with a result computed in f64.
const CHECKED_QUERIES: usize = 32;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    println!("device: {device:?}");
    println!("kernels: {} embedded", kernels().entries().len());
    if device.is_emulator() {
        println!("speed: not measured, the emulator's says nothing of a GPU's");
    }
    let shapes = match arguments.shape[..] {
        [batch, heads, kv_heads, length, columns] => {
            vec![[batch, heads, kv_heads, length, columns].map(|size| size as usize)]
        }
        _ if device.is_emulator() => EMULATED.to_vec(),
        _ => SHAPES.to_vec(),
    };
    for shape in shapes {
        for causal in [false, true] {
            let task = Task { device: &device, arguments, shape, causal };
            match arguments.dtype {
                Type::F16 => task.run::<f16>()?,
                Type::Bf16 => task.run::<bf16>()?,
            }
        }
    }
    Ok(())
}

/// One attention.
struct Task<'a> {
    device: &'a Device,
    arguments: &'a Arguments,
    shape: Shape,
    causal: bool,
}

/// Its tensors on the device, [batch, length, heads, head dimension].
struct Tensors<T> {
    q: Tensor<T>,
    k: Tensor<T>,
    v: Tensor<T>,
    o: RefCell<Tensor<T>>,
}

impl<T: AttentionElement> Tensors<T> {
    /// Q, K and V as [batch, heads, length, head dimension].
    fn inputs(&self) -> tilewright::Result<[TensorView<'_, T>; 3]> {
        let Tensors { q, k, v, .. } = self;
        Ok([q.view().transpose(1, 2)?, k.view().transpose(1, 2)?, v.view().transpose(1, 2)?])
    }
}

/// O as [batch, heads, length, head dimension].
fn heads<T: AttentionElement>(o: &mut Tensor<T>) -> tilewright::Result<TensorViewMut<'_, T>> {
    o.view_mut().transpose(1, 2)
}

impl Task<'_> {
    fn run<T: AttentionElement + Real>(&self) -> Result<()> {
        let [batch, heads_of_q, kv_heads, length, columns] = self.shape;
        let mask = if self.causal { "causal" } else { "full" };
        println!(
            "\n{} batch {batch}, heads {heads_of_q}/{kv_heads}, length {length}, head dimension {columns}, {mask}",
            T::DTYPE
        );
        let of = |heads| [batch, length, heads, columns];
        let [q, k, v] = [(1, heads_of_q), (2, kv_heads), (3, kv_heads)]
            .map(|(seed, heads)| normal::<T>(seed, batch * length * heads * columns));
        // As many copies as it takes to find none of them in the cache when it is used again, where that matters.
        let bytes = (2 * q.len() + k.len() + v.len()) * size_of::<T>();
        let copies = if self.device.is_emulator() { 1 } else { sets(self.device, bytes) };
        let make = |_| -> Result<_> {
            Ok(Tensors {
                q: Tensor::from_slice(self.device, &q, &of(heads_of_q))?,
                k: Tensor::from_slice(self.device, &k, &of(kv_heads))?,
                v: Tensor::from_slice(self.device, &v, &of(kv_heads))?,
                o: RefCell::new(Tensor::filled(self.device, T::POISON, &of(heads_of_q))?),
            })
        };
        let tensors = (0..copies).map(make).collect::<Result<Vec<_>>>()?;
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

    fn attend<T: AttentionElement>(&self, stream: &Stream, tensors: &Tensors<T>) -> tilewright::Result<()> {
        let [q, k, v] = tensors.inputs()?;
        self.attention().run(stream, &q, &k, &v, &mut heads(&mut tensors.o.borrow_mut())?)
    }

    fn scores(&self) -> Scores {
        Scores { causal: self.causal, ..Scores::new(self.shape[4]) }
    }

    /// Compares some rows with the result in f64, and looks for elements that were not written.
    fn check<T: Real>(&self, inputs: [&Vec<T>; 3], o: &[T]) -> Result<()> {
        let [batch, heads, kv_heads, length, columns] = self.shape;
        let queries = sample(length, CHECKED_QUERIES);
        // The lines of one head.
        let lines = |data: &[T], b: usize, of: usize, h: usize| -> Vec<T> {
            let line = |i: usize| &data[((b * length + i) * of + h) * columns..][..columns];
            (0..length).flat_map(line).copied().collect()
        };
        let mut error = 0f64;
        for (b, h) in [(0, 0), (batch - 1, heads - 1)] {
            let kv = h / (heads / kv_heads);
            let [q, k, v] = [(0, heads, h), (1, kv_heads, kv), (2, kv_heads, kv)]
                .map(|(which, of, h)| lines(inputs[which], b, of, h));
            let head = Head::new([&q, &k, &v], length, length, [columns; 2]);
            let exact: Vec<_> =
                head.rows(&queries, &self.scores()).into_iter().flat_map(|row| row.o).collect();
            let off = relative_error(&pick(&lines(o, b, heads, h), columns, &queries), &exact);
            error = if off.is_nan() { off } else { error.max(off) };
        }
        // Weights are rounded once, and the result is.
        let allowed = 2.0 * T::ROUNDING;
        println!("  error: {error:.1e} of {} rows, at most {allowed:.1e} is right", 2 * queries.len());
        let unwritten = T::widen(o).iter().filter(|x| x.is_nan()).count();
        match unwritten {
            0 if error <= allowed => Ok(()),
            0 => Err(format!("the result is wrong: its relative error is {error:.1e}").into()),
            _ => Err(format!("the result is wrong: {unwritten} elements are not numbers").into()),
        }
    }

    fn measure<T: AttentionElement>(&self, tensors: &[Tensors<T>]) -> Result<()> {
        let [batch, heads, _, length, columns] = self.shape;
        let seen: usize = (0..length).map(|i| self.scores().seen(i, length, length).len()).sum();
        let flops = 4.0 * (batch * heads) as f64 * seen as f64 * columns as f64;
        let ours = Variant::new("tilewright", |stream, set| self.attend(stream, &tensors[set]));
        let options = Options { sets: tensors.len(), ..Options::default() };
        for timing in compare(self.device, &[ours], &options)? {
            let ms = timing.median();
            println!("  {}: {ms:.4} ms, {:.1} TFLOP/s", timing.name, flops / ms / 1e9);
        }
        Ok(())
    }
}
