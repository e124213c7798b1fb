//! Mamba-2's layer between its projections, on the GPU or, where there is none, on the emulator: causal convolution, scan, its gradients, and its step of one
//! token. The results' errors, and the speed on a GPU.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::Parser;
use tilewright::ops::{CausalConv1d, Ssd, SsdGradient, SsdStep};
use tilewright::{Device, Stream, Tensor, bf16};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::timing::{Options, Variant, compare};
use tilewright_support::{Real, Result};

/// Computes the causal convolution, the scan, its gradients and the decoding step of Mamba-2, in bf16. Checks the results, and measures the speed if there is a GPU.
#[derive(Parser)]
#[command(name = "ssd", override_usage = "ssd [OPTIONS] [BATCH LENGTH HEADS]")]
struct Arguments {
    /// Sequences, tokens of each, and heads of 64 columns [default: a layer]
    #[arg(num_args = 3, value_names = ["BATCH", "LENGTH", "HEADS"], value_parser = clap::value_parser!(u32).range(1..))]
    shape: Vec<u32>,
    /// Tokens of a chunk, a multiple of 64 [default: as many as fill the device]
    #[arg(long)]
    chunk: Option<usize>,
}

/// Columns of a head.
const P: usize = 64;
/// Columns of B and C.
const N: usize = 128;
/// Taps of the convolution.
const WIDTH: usize = 4;
/// What A of every head is.
const A: f32 = -1.0;

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    show(&device);
    let [batch, length, heads] = match arguments.shape[..] {
        [batch, length, heads] => [batch, length, heads].map(|n| n as usize),
        _ if device.is_emulator() => [1, 200, 2],
        _ => [8, 4096, 80],
    };
    println!("\n| operator | batch x length x heads | kernel | error | TFLOP/s | GB/s |");
    println!("| --- | --- | --- | ---: | ---: | ---: |");
    let layer = Layer::new(&device, [batch, length, heads], arguments.chunk)?;
    layer.conv()?;
    layer.scan()?;
    layer.gradient()?;
    layer.step()
}

/// The tensors of a layer.
struct Layer {
    device: Device,
    size: [usize; 3],
    chunk: Option<usize>,
    x: Vec<bf16>,
    dt: Vec<bf16>,
    b: Vec<bf16>,
    c: Vec<bf16>,
}

impl Layer {
    fn new(device: &Device, [batch, length, heads]: [usize; 3], chunk: Option<usize>) -> Result<Self> {
        let tokens = batch * length;
        let numbers = |seed, len: usize, by: f32| {
            let values = normal::<f32>(seed, len.min(1 << 22));
            values.iter().map(|x| bf16::from_f32(x * by)).cycle().take(len).collect::<Vec<_>>()
        };
        Ok(Layer {
            device: device.clone(),
            size: [batch, length, heads],
            chunk,
            x: numbers(1, tokens * heads * P, 1.0),
            dt: numbers(2, tokens * heads, 1.0),
            b: numbers(3, tokens * N, 0.3),
            c: numbers(4, tokens * N, 0.3),
        })
    }

    /// Prints a line, with the speed where there is a GPU; fails where the error is above what is allowed.
    fn line(
        &self,
        [name, kernel]: [&str; 2],
        error: f64,
        [flops, bytes]: [f64; 2],
        launch: impl Fn(&Stream) -> tilewright::Result<()>,
    ) -> Result<()> {
        let [batch, length, heads] = self.size;
        print!("| {name} bf16 | {batch} x {length} x {heads} | `{kernel}` | {error:.1e} ");
        if error.is_nan() || error > 0.02 {
            println!("|");
            return Err(format!("the result is wrong: its relative error is {error:.1e}").into());
        }
        if self.device.is_emulator() {
            println!("| | |");
            return Ok(());
        }
        let ours = Variant::new("tilewright", |stream: &Stream, _| launch(stream));
        for timing in compare(&self.device, &[ours], &Options::default())? {
            println!("| {:.0} | {:.0} |", flops / timing.median() / 1e9, bytes / timing.median() / 1e6);
        }
        Ok(())
    }

    /// The causal convolution of x.
    fn conv(&self) -> Result<()> {
        let [batch, length, heads] = self.size;
        let channels = heads * P;
        let weights = normal::<bf16>(5, channels * WIDTH);
        let x = Tensor::from_slice(&self.device, &self.x, &[batch, length, channels])?;
        let w = Tensor::from_slice(&self.device, &weights, &[channels, WIDTH])?;
        let y = RefCell::new(Tensor::filled(&self.device, bf16::NAN, &[batch, length, channels])?);
        let launch = |stream: &Stream| {
            CausalConv1d::new().run(stream, &x.view(), &w.view(), &mut y.borrow_mut().view_mut())
        };
        launch(&self.device.default_stream())?;
        let out = y.borrow().to_vec()?;
        // Of some channels of the first sequence.
        let mut error = Error::default();
        for c in (0..channels).step_by(channels.div_ceil(16)) {
            for t in 0..length {
                let taps = (0..WIDTH.min(t + 1)).map(|k| {
                    f64::from(weights[c * WIDTH + WIDTH - 1 - k].to_f32())
                        * f64::from(self.x[(t - k) * channels + c].to_f32())
                });
                error.add(out[t * channels + c], taps.sum());
            }
        }
        let kernel =
            CausalConv1d::new().plan(&x.view(), &w.view(), &y.borrow_mut().view_mut())?.kernel().name();
        let elements = (batch * length * channels) as f64;
        self.line(["causal_conv1d", kernel], error.relative(), [8.0 * elements, 4.0 * elements], launch)
    }

    /// The scan of all tokens.
    fn scan(&self) -> Result<()> {
        let [batch, length, heads] = self.size;
        let at = |data: &[bf16], count, cols| {
            Tensor::from_slice(&self.device, data, &[batch, length, count, cols])
        };
        let (x, b, c) = (at(&self.x, heads, P)?, at(&self.b, 1, N)?, at(&self.c, 1, N)?);
        let dt = Tensor::from_slice(&self.device, &self.dt, &[batch, length, heads])?;
        let a = Tensor::filled(&self.device, A, &[heads])?;
        let y = RefCell::new(Tensor::filled(&self.device, bf16::NAN, &[batch, length, heads, P])?);
        let (x, b, c, dt, a) = (x.view(), b.view(), c.view(), dt.view(), a.view());
        let scan = || {
            let scan = Ssd::new().softplus();
            match self.chunk {
                Some(tokens) => scan.chunk(tokens),
                None => scan,
            }
        };
        let need = scan().workspace_len(&x, &dt, &a, [&b, &c], &y.borrow_mut().view_mut())?;
        let room = RefCell::new(Tensor::<f32>::zeros(&self.device, &[need])?);
        let launch = |stream: &Stream| {
            let (mut room, mut y) = (room.borrow_mut(), y.borrow_mut());
            let mut room = room.view_mut();
            let scan = scan();
            scan.workspace(&mut room).run(stream, &x, &dt, &a, [&b, &c], &mut y.view_mut())
        };
        launch(&self.device.default_stream())?;
        let out = y.borrow().to_vec()?;
        // Of a column of the first and the last head of the first sequence.
        let mut error = Error::default();
        for (h, p) in [(0, 5), (heads - 1, 40)] {
            let mut state = vec![0.0; N];
            for t in 0..length {
                let place = t * heads + h;
                error.add(out[place * P + p], self.token(t, place, p, &mut state));
            }
        }
        let kernel = scan().plan(&x, &dt, &a, [&b, &c], &y.borrow_mut().view_mut())?.kernel().name();
        let elements = (batch * length * heads * P) as f64;
        // As others count it: chunks of 256 tokens, half of whose pairs count.
        self.line(
            ["scan", kernel],
            error.relative(),
            [elements * (256 + 4 * N) as f64, 4.0 * elements],
            launch,
        )
    }

    /// One token of a column: its state goes on, and gives its result.
    fn token(&self, t: usize, place: usize, p: usize, state: &mut [f64]) -> f64 {
        let dt = f64::from(self.dt[place].to_f32()).exp().ln_1p();
        let (kept, x) = ((dt * f64::from(A)).exp(), f64::from(self.x[place * P + p].to_f32()));
        let step = |(h, n): (&mut f64, usize)| {
            *h = kept * *h + dt * x * f64::from(self.b[t * N + n].to_f32());
            *h * f64::from(self.c[t * N + n].to_f32())
        };
        state.iter_mut().zip(0..N).map(step).sum()
    }

    /// The scan's gradients, of a dy that is x.
    fn gradient(&self) -> Result<()> {
        let [batch, length, heads] = self.size;
        let at = |data: &[bf16], count, cols| {
            Tensor::from_slice(&self.device, data, &[batch, length, count, cols])
        };
        let (x, b, c) = (at(&self.x, heads, P)?, at(&self.b, 1, N)?, at(&self.c, 1, N)?);
        let dt = Tensor::from_slice(&self.device, &self.dt, &[batch, length, heads])?;
        let a = Tensor::filled(&self.device, A, &[heads])?;
        let nan = |shape: &[usize]| Tensor::filled(&self.device, bf16::NAN, shape).map(RefCell::new);
        let (dx, d_dt) = (nan(x.shape())?, nan(dt.shape())?);
        let (d_b, d_c) = (nan(b.shape())?, nan(c.shape())?);
        let d_a = RefCell::new(Tensor::<f32>::zeros(&self.device, &[heads])?);
        let (x, b, c, dt, a) = (x.view(), b.view(), c.view(), dt.view(), a.view());
        let workspace = RefCell::new(Tensor::<f32>::zeros(&self.device, &[0])?);
        // What `of` says of the gradients, all but those of D and of states.
        let with = |of: &dyn Fn(SsdGradient<'_, bf16>) -> tilewright::Result<()>| {
            let (mut dx, mut d_dt, mut d_a) = (dx.borrow_mut(), d_dt.borrow_mut(), d_a.borrow_mut());
            let (mut d_b, mut d_c) = (d_b.borrow_mut(), d_c.borrow_mut());
            let (mut dx, mut d_dt, mut d_a) = (dx.view_mut(), d_dt.view_mut(), d_a.view_mut());
            let (mut d_b, mut d_c) = (d_b.view_mut(), d_c.view_mut());
            let gradient = SsdGradient::new().softplus().dx(&mut dx).d_dt(&mut d_dt).d_a(&mut d_a);
            of(match self.chunk {
                Some(tokens) => gradient.d_b(&mut d_b).d_c(&mut d_c).chunk(tokens),
                None => gradient.d_b(&mut d_b).d_c(&mut d_c),
            })
        };
        let need = RefCell::new((0, ""));
        with(&|of| {
            let kernel = of.plan(&x, &dt, &a, [&b, &c], &x)?.kernel().name();
            *need.borrow_mut() = (of.workspace_len(&x, &dt, &a, [&b, &c], &x)?, kernel);
            Ok(())
        })?;
        let (need, kernel) = *need.borrow();
        *workspace.borrow_mut() = Tensor::zeros(&self.device, &[need])?;
        let launch = |stream: &Stream| {
            with(&|of| {
                let mut workspace = workspace.borrow_mut();
                of.workspace(&mut workspace.view_mut()).run(stream, &x, &dt, &a, [&b, &c], &x)
            })
        };
        launch(&self.device.default_stream())?;
        let out = dx.borrow().to_vec()?;
        // dx of a column of the first and the last head of the first sequence: from the last token on.
        let mut error = Error::default();
        for (h, p) in [(0, 5), (heads - 1, 40)] {
            let mut state = vec![0.0; N];
            for t in (0..length).rev() {
                let place = t * heads + h;
                let dt = f64::from(self.dt[place].to_f32()).exp().ln_1p();
                let dy = f64::from(self.x[place * P + p].to_f32());
                let sum = state.iter_mut().zip(0..N).map(|(g, n)| {
                    *g += dy * f64::from(self.c[t * N + n].to_f32());
                    let dx = dt * *g * f64::from(self.b[t * N + n].to_f32());
                    *g *= (dt * f64::from(A)).exp();
                    dx
                });
                error.add(out[place * P + p], sum.sum());
            }
        }
        let elements = (batch * length * heads * P) as f64;
        // As the scan is counted: four products of pairs of tokens, five of states.
        let flops = elements * (2 * 256 + 2 * 256 * N / P + 10 * N) as f64;
        self.line(["gradient", kernel], error.relative(), [flops, 6.0 * elements], launch)
    }

    /// The step of the first token of each sequence, from a state of zeros.
    fn step(&self) -> Result<()> {
        let [batch, _, heads] = self.size;
        let at = |data: &[bf16], count, cols| {
            Tensor::from_slice(&self.device, &data[..batch * count * cols], &[batch, count, cols])
        };
        let (x, b, c) = (at(&self.x, heads, P)?, at(&self.b, 1, N)?, at(&self.c, 1, N)?);
        let dt = Tensor::from_slice(&self.device, &self.dt[..batch * heads], &[batch, heads])?;
        let a = Tensor::filled(&self.device, A, &[heads])?;
        let y = RefCell::new(Tensor::filled(&self.device, bf16::NAN, &[batch, heads, P])?);
        let state = RefCell::new(Tensor::<f32>::zeros(&self.device, &[batch, heads, P, N])?);
        let (x, b, c, dt, a) = (x.view(), b.view(), c.view(), dt.view(), a.view());
        let launch = |stream: &Stream| {
            let (mut y, mut state) = (y.borrow_mut(), state.borrow_mut());
            let step = SsdStep::new().softplus();
            step.run(stream, &x, &dt, &a, [&b, &c], &mut y.view_mut(), &mut state.view_mut())
        };
        launch(&self.device.default_stream())?;
        let out = y.borrow().to_vec()?;
        let mut error = Error::default();
        for h in 0..heads {
            error.add(out[h * P + 7], self.token(0, h, 7, &mut vec![0.0; N]));
        }
        let kernel = {
            let (mut y, mut state) = (y.borrow_mut(), state.borrow_mut());
            let plan = SsdStep::new().plan(&x, &dt, &a, [&b, &c], &y.view_mut(), &state.view_mut())?;
            plan.kernel().name()
        };
        let elements = (batch * heads * P * N) as f64;
        self.line(["step", kernel], error.relative(), [5.0 * elements, 8.0 * elements], launch)
    }
}

/// The largest difference, beside the largest result.
#[derive(Default)]
struct Error {
    most: f64,
    largest: f64,
}

impl Error {
    fn add(&mut self, got: bf16, exact: f64) {
        let error = (f64::from(bf16::widen(&[got])[0]) - exact).abs();
        // A NaN stays.
        self.most = if error.is_nan() {
            error
        } else if self.most.is_nan() {
            self.most
        } else {
            self.most.max(error)
        };
        self.largest = self.largest.max(exact.abs());
    }
    fn relative(&self) -> f64 {
        self.most / self.largest
    }
}
