//! The attention and the MLP of a transformer's block on several GPUs, by tensor parallelism over NCCL; checked against one GPU, and timed. Without GPUs it says
//! so, and checks small ones on the emulator.

use std::process::ExitCode;
use std::sync::Barrier;

use clap::Parser;
use tilewright::ops::{Activation, Attention, Gated, Gemm};
use tilewright::parallel::{Chunks, Communicator, CommunicatorOptions, RowParallel};
use tilewright::{Device, Event, Stream, Tensor, TensorView, TensorViewMut, bf16};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::reference::relative_error;
use tilewright_support::{Real, Result};

/// Divides the weights of a block's attention and MLP among GPUs, by columns and then by rows, and hides the sums' all-reduce under products. Prints milliseconds
/// of each layer, and what share of the collectives' time is hidden.
#[derive(Parser)]
#[command(
    name = "tensor_parallel",
    override_usage = "tensor_parallel [OPTIONS] [ROWS HIDDEN INNER HEADS KV_HEADS]"
)]
struct Arguments {
    /// Tokens, hidden size, the MLP's inner size, heads, and heads of keys and values, of 128 columns [default: several shapes]
    #[arg(num_args = 5, value_names = ["ROWS", "HIDDEN", "INNER", "HEADS", "KV_HEADS"])]
    shape: Vec<usize>,
    /// Chunks of rows [default: by estimate]
    #[arg(long)]
    chunks: Option<usize>,
    /// CTAs of a collective's kernel
    #[arg(long, default_value_t = CommunicatorOptions::default().ctas)]
    ctas: u32,
}

/// Tokens, hidden size, inner size, heads, heads of keys and values.
type Shape = [usize; 5];

/// Llama 3's of 8B and 70B parameters: a prompt of 4096 tokens, a batch of 64 that decodes.
const SHAPES: [Shape; 4] = [
    [4096, 4096, 14336, 32, 8],
    [4096, 8192, 28672, 64, 8],
    [16384, 8192, 28672, 64, 8],
    [64, 8192, 28672, 64, 8],
];
const EMULATED: Shape = [48, 128, 256, 4, 4];
/// Columns of a head.
const D: usize = 128;
/// Rounds that are timed, and graphs in each.
const ROUNDS: usize = 15;
const LAUNCHES: usize = 4;

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    show(&device);
    let devices: Vec<Device> = match device.is_emulator() {
        true => vec![device.clone(); 4],
        false => (0..8).map_while(|i| Device::cuda(i).ok()).collect(),
    };
    println!("ranks: up to {}, bf16, all-reduce in {} CTAs", devices.len(), arguments.ctas);
    let shapes = match arguments.shape[..] {
        [rows, hidden, inner, heads, kv_heads] => vec![[rows, hidden, inner, heads, kv_heads]],
        _ if device.is_emulator() => vec![EMULATED],
        _ => SHAPES.to_vec(),
    };
    for shape in shapes {
        println!("\ntokens, hidden, inner, heads, KV heads: {shape:?}");
        let weights = Weights::new(shape);
        let mut one: Option<Vec<Measured>> = None;
        for count in [1, 2, 4, 8].into_iter().filter(|&count| count <= devices.len()) {
            let results = on_ranks(&devices[..count], arguments, &weights)?;
            for (layer, result) in LAYERS.iter().zip(&results) {
                let single = one.as_ref().map(|one| &one[*layer as usize]);
                result.show(*layer, count, single)?;
            }
            one.get_or_insert(results);
        }
    }
    if device.is_emulator() {
        println!("\nskipped: the times, which need GPUs");
    }
    Ok(())
}

/// The two parts of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layer {
    Attention,
    Mlp,
}
const LAYERS: [Layer; 2] = [Layer::Attention, Layer::Mlp];

/// What of a layer is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// All, the collectives beside products.
    Hidden,
    /// All, one after the other.
    InTurn,
    /// No collectives.
    Products,
    /// Nothing else.
    Collectives,
}
const MODES: [Mode; 4] = [Mode::Hidden, Mode::InTurn, Mode::Products, Mode::Collectives];

/// A layer's results, and milliseconds of each mode on the slowest rank.
struct Measured {
    y: Vec<bf16>,
    chunks: usize,
    ms: Option<[f64; 4]>,
}

impl Measured {
    fn show(&self, layer: Layer, ranks: usize, one: Option<&Measured>) -> Result<()> {
        let mut text = format!("{layer:<9?} {ranks} rank{}", if ranks == 1 { " " } else { "s" });
        if let Some(one) = one {
            let error =
                relative_error(&self.y, &bf16::widen(&one.y).into_iter().map(f64::from).collect::<Vec<_>>());
            if error.is_nan() || error > 4.0 * bf16::ROUNDING {
                return Err(format!("{text}: error {error:.1e} beside one rank").into());
            }
            text += &format!(", error {error:.1e} beside one");
        }
        if let Some([hidden, in_turn, products, collectives]) = self.ms {
            text += &format!(": {hidden:.3} ms");
            if ranks > 1 {
                let share = (products + collectives - hidden) / collectives * 100.0;
                text += &format!(
                    ", products {products:.3}, collectives {collectives:.3}, in turn {in_turn:.3}; {} chunks, {share:.0} % hidden",
                    self.chunks
                );
            }
            if let Some([one, ..]) = one.and_then(|one| one.ms) {
                text += &format!("; {:.2} times one", one / hidden);
            }
        }
        println!("  {text}");
        Ok(())
    }
}

/// The block's input and weights, as rows that ranks have in order.
struct Weights {
    shape: Shape,
    x: Vec<bf16>,
    /// Rows of queries' heads, of keys' and of values', [out, hidden].
    qkv: [Vec<bf16>; 3],
    /// [heads D, hidden].
    out: Vec<bf16>,
    /// [inner, hidden] each.
    gate_up: [Vec<bf16>; 2],
    /// [inner, hidden].
    down: Vec<bf16>,
}

impl Weights {
    fn new(shape: Shape) -> Self {
        let [rows, hidden, inner, heads, kv_heads] = shape;
        let draw = |seed, rows: usize, depth: usize| -> Vec<bf16> {
            let scale = (depth as f32).powf(-0.5);
            let values: Vec<f32> =
                normal::<f32>(seed, rows * hidden).into_iter().map(|x| x * scale).collect();
            bf16::round(&values)
        };
        Weights {
            shape,
            x: draw(1, rows, 1),
            qkv: [draw(2, heads * D, hidden), draw(3, kv_heads * D, hidden), draw(4, kv_heads * D, hidden)],
            out: draw(5, heads * D, heads * D),
            gate_up: [draw(6, inner, hidden), draw(7, inner, hidden)],
            down: draw(8, inner, inner),
        }
    }
}

/// A rank's part of the block.
struct Block {
    shape: Shape,
    ranks: usize,
    x: Tensor<bf16>,
    qkv_weight: Tensor<bf16>,
    out_weight: Tensor<bf16>,
    gate_up_weight: Tensor<bf16>,
    down_weight: Tensor<bf16>,
    qkv: Tensor<bf16>,
    heads: Tensor<bf16>,
    gate_up: Tensor<bf16>,
    inner: Tensor<bf16>,
    y: Tensor<bf16>,
}

impl Block {
    fn new(device: &Device, weights: &Weights, rank: usize, ranks: usize) -> Result<Self> {
        let Weights { shape, x, qkv, out, gate_up, down } = weights;
        let [rows, hidden, inner, heads, kv_heads] = *shape;
        for (name, size) in [("INNER", inner), ("HEADS", heads), ("KV_HEADS", kv_heads)] {
            if !size.is_multiple_of(ranks) {
                return Err(format!("{name} is {size}; it must be a multiple of {ranks}, the ranks").into());
            }
        }
        let own = |of: &[&Vec<bf16>]| -> Result<Tensor<bf16>> {
            let part = |of: &&Vec<bf16>| {
                let each = of.len() / ranks;
                of[rank * each..(rank + 1) * each].to_vec()
            };
            let data = of.iter().flat_map(part).collect::<Vec<_>>();
            Ok(Tensor::from_slice(device, &data, &[data.len() / hidden, hidden])?)
        };
        let room = |columns: usize| Tensor::filled(device, bf16::POISON, &[rows, columns]);
        Ok(Block {
            shape: *shape,
            ranks,
            x: Tensor::from_slice(device, x, &[rows, hidden])?,
            qkv_weight: own(&[&qkv[0], &qkv[1], &qkv[2]])?,
            out_weight: own(&[out])?,
            gate_up_weight: own(&[&gate_up[0], &gate_up[1]])?,
            down_weight: own(&[down])?,
            qkv: room((heads + 2 * kv_heads) * D / ranks)?,
            heads: room(heads * D / ranks)?,
            gate_up: room(2 * inner / ranks)?,
            inner: room(inner / ranks)?,
            y: room(hidden)?,
        })
    }

    /// The chunks that hide a layer's collective best.
    fn chunks(&self, communicator: &Communicator, layer: Layer) -> tilewright::Result<Chunks> {
        let (x, w) = match layer {
            Layer::Attention => (&self.heads, &self.out_weight),
            Layer::Mlp => (&self.inner, &self.down_weight),
        };
        let [rows, hidden, ..] = self.shape;
        let y = TensorViewMut::without_memory(communicator.device(), &[rows, hidden], &[hidden, 1], 16)?;
        RowParallel::new(Gemm::new()).chunks(communicator, &x.view(), &w.view(), &y)
    }

    /// Queues a layer, or a part of it.
    fn queue(
        &mut self,
        communicator: &mut Communicator,
        stream: &Stream,
        (layer, mode): (Layer, Mode),
        chunks: &Chunks,
    ) -> tilewright::Result<()> {
        if mode == Mode::Collectives {
            return communicator.all_reduce(stream, &mut self.y.view_mut());
        }
        match layer {
            Layer::Attention => self.attend(stream)?,
            Layer::Mlp => self.gate(stream)?,
        }
        let (x, w) = match layer {
            Layer::Attention => (self.heads.view(), self.out_weight.view()),
            Layer::Mlp => (self.inner.view(), self.down_weight.view()),
        };
        let y = &mut self.y.view_mut();
        let one = Chunks::one(chunks.rows());
        match mode {
            Mode::Products => Gemm::new().run(stream, &x, &w, y),
            Mode::InTurn => RowParallel::new(Gemm::new()).run(communicator, stream, &one, &x, &w, y),
            _ => RowParallel::new(Gemm::new()).run(communicator, stream, chunks, &x, &w, y),
        }
    }

    /// Queries, keys and values of this rank's heads, and their attention.
    fn attend(&mut self, stream: &Stream) -> tilewright::Result<()> {
        let [rows, _, _, heads, kv_heads] = self.shape;
        let (heads, kv_heads) = (heads / self.ranks, kv_heads / self.ranks);
        let weight = self.qkv_weight.view().transpose(0, 1)?;
        Gemm::new().run(stream, &self.x.view(), &weight, &mut self.qkv.view_mut())?;
        let qkv = &self.qkv;
        let part = |first: usize, heads: usize| -> tilewright::Result<TensorView<'_, bf16>> {
            let columns = qkv.view().narrow(1, first * D, heads * D)?;
            columns.reshape(&[1, rows, heads, D])?.transpose(1, 2)
        };
        let (q, k, v) = (part(0, heads)?, part(heads, kv_heads)?, part(heads + kv_heads, kv_heads)?);
        let o: TensorViewMut<'_, bf16> = self.heads.view_mut();
        let mut o = o.reshape(&[1, rows, heads, D])?.transpose(1, 2)?;
        Attention::new().causal().run(stream, &q, &k, &v, &mut o)
    }

    /// The gated unit of this rank's columns.
    fn gate(&mut self, stream: &Stream) -> tilewright::Result<()> {
        let weight = self.gate_up_weight.view().transpose(0, 1)?;
        Gemm::new().run(stream, &self.x.view(), &weight, &mut self.gate_up.view_mut())?;
        Gated::new(Activation::Silu).run_packed(stream, &self.gate_up.view(), &mut self.inner.view_mut())
    }
}

/// The layers on a group, each rank in a thread: the first rank's results, which are all ranks', and the slowest one's times.
fn on_ranks(devices: &[Device], arguments: &Arguments, weights: &Weights) -> Result<Vec<Measured>> {
    let options = CommunicatorOptions::default().ctas(arguments.ctas);
    let ranks = Communicator::all(devices, options)?;
    let barrier = &Barrier::new(devices.len());
    let results = std::thread::scope(|scope| {
        let compute = |mut rank: Communicator| move || measure(&mut rank, arguments, weights, barrier);
        let threads: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(compute(rank))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| "a rank panicked")?);
        joined.collect::<Result<Vec<_>>>()
    })?;
    let slowest = |mut all: Measured, one: Measured| {
        all.ms = all.ms.zip(one.ms).map(|(all, one)| std::array::from_fn(|i| all[i].max(one[i])));
        all
    };
    let mut ranks = results.into_iter();
    let first = ranks.next().unwrap_or_default();
    Ok(ranks.fold(first, |all, one| all.into_iter().zip(one).map(|(all, one)| slowest(all, one)).collect()))
}

fn measure(
    rank: &mut Communicator,
    arguments: &Arguments,
    weights: &Weights,
    barrier: &Barrier,
) -> Result<Vec<Measured>> {
    let (device, ranks) = (rank.device().clone(), rank.ranks());
    let stream = Stream::new(&device)?;
    let mut block = Block::new(&device, weights, rank.rank(), ranks)?;
    let mut measured = Vec::new();
    for layer in LAYERS {
        let chunks = match arguments.chunks {
            Some(count) => Chunks::new(weights.shape[0], count, ranks)?,
            None => block.chunks(rank, layer)?,
        };
        block.y.fill(&stream, bf16::POISON)?;
        block.queue(rank, &stream, (layer, Mode::Hidden), &chunks)?;
        let y = block.y.to_vec_on(&stream)?;
        let ms = if device.is_emulator() {
            None
        } else {
            Some(times(rank, &stream, &mut block, layer, &chunks, barrier)?)
        };
        measured.push(Measured { y, chunks: chunks.count(), ms });
    }
    Ok(measured)
}

/// Milliseconds of each mode: medians of rounds that all ranks begin together, the modes in turns.
fn times(
    rank: &mut Communicator,
    stream: &Stream,
    block: &mut Block,
    layer: Layer,
    chunks: &Chunks,
    barrier: &Barrier,
) -> Result<[f64; 4]> {
    let mut graphs = Vec::new();
    for mode in MODES {
        // Kernels are loaded, and NCCL connects, before the capture.
        block.queue(rank, stream, (layer, mode), chunks)?;
        stream.synchronize()?;
        graphs.push(stream.capture(|stream| block.queue(rank, stream, (layer, mode), chunks))?);
    }
    let (from, to) = (Event::new(rank.device())?, Event::new(rank.device())?);
    let mut ms = [const { Vec::new() }; 4];
    for round in 0..ROUNDS + 2 {
        for (graph, ms) in graphs.iter().zip(&mut ms) {
            // SAFETY: the block's tensors outlive the graphs, and nothing else uses them.
            unsafe { graph.launch(stream)? };
            stream.synchronize()?;
            barrier.wait();
            stream.record(&from)?;
            for _ in 0..LAUNCHES {
                // SAFETY: as above.
                unsafe { graph.launch(stream)? };
            }
            stream.record(&to)?;
            let taken = f64::from(from.elapsed_ms(&to)?) / LAUNCHES as f64;
            if round >= 2 {
                ms.push(taken);
            }
        }
    }
    Ok(ms.map(|mut ms| {
        ms.sort_by(f64::total_cmp);
        ms[ms.len() / 2]
    }))
}
