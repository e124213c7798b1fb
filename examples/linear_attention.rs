//! Computes linear attention on the GPU or, where there is none, on the emulator; checks the results, and shows the speed on a GPU.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tilewright::ops::{HalfElement, LinearAttention};
use tilewright::{Device, Stream, Tensor, TensorView, bf16, f16};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::recurrence::{Row, State, gradients};
use tilewright_support::reference::relative_error;
use tilewright_support::timing::{Options, Variant, compare};
use tilewright_support::{Real, Result};

/// Computes oₜ = qₜ Sₜ / sqrt(D), Sₜ = αₜ Sₜ₋₁ + kₜᵀ vₜ on random tensors [batch, length, heads, D]: without decays, retention, gated linear attention, and the gated
/// delta rule; and the gradients of all but the last. Checks the results, and measures the speed if there is a GPU.
#[derive(Parser)]
#[command(name = "linear_attention", override_usage = "linear_attention [OPTIONS] [BATCH LENGTH HEADS D]")]
struct Arguments {
    /// Sequences, their length, heads, and head dimension [default: several shapes]
    #[arg(num_args = 4, value_names = ["BATCH", "LENGTH", "HEADS", "D"], value_parser = clap::value_parser!(u32).range(1..))]
    shape: Vec<u32>,
    /// Element type
    #[arg(long = "type", value_enum, default_value = "bf16")]
    dtype: Type,
    /// Shows how all kernels rate for the shapes, and computes nothing
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F16,
    Bf16,
}

/// How a state decays, and what is written to it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Plain,
    Retention,
    ChannelGates,
    GatedDelta,
}

const FORMS: [Form; 4] = [Form::Plain, Form::Retention, Form::ChannelGates, Form::GatedDelta];

/// Sequences, length, heads, head dimension.
type Shape = [usize; 4];

const SHAPES: [Shape; 3] = [[8, 4096, 16, 128], [1, 32768, 8, 128], [4, 8192, 16, 64]];
/// What the emulator computes in a moment.
const EMULATED: [Shape; 2] = [[1, 200, 2, 128], [2, 130, 1, 64]];

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    show(&device);
    let shapes = match arguments.shape[..] {
        [batch, length, heads, columns] => vec![[batch, length, heads, columns].map(|size| size as usize)],
        _ if device.is_emulator() => EMULATED.to_vec(),
        _ => SHAPES.to_vec(),
    };
    for shape in shapes {
        for form in FORMS {
            match arguments.dtype {
                Type::F16 => Task::<f16>::new(&device, shape, form)?.run(arguments.list)?,
                Type::Bf16 => Task::<bf16>::new(&device, shape, form)?.run(arguments.list)?,
            }
        }
    }
    Ok(())
}

/// One linear attention with its tensors.
struct Task<'d, T> {
    device: &'d Device,
    shape: Shape,
    form: Form,
    host: [Vec<T>; 3],
    tensors: [Tensor<T>; 3],
    /// Decays of heads, gates of rows, gates of channels, β.
    gates: [(Vec<f32>, Tensor<f32>); 4],
    o: RefCell<Tensor<T>>,
    /// The gradients by Q, K and V. That by O is V.
    gradients: RefCell<[Tensor<T>; 3]>,
    workspace: RefCell<Tensor<f32>>,
}

impl<'d, T: HalfElement + Real> Task<'d, T> {
    fn new(device: &'d Device, shape: Shape, form: Form) -> Result<Self> {
        let [batch, length, heads, columns] = shape;
        let lines = batch * length * heads;
        let key = 1.0 / (columns as f32).sqrt();
        let random = |seed, by: f32| -> Vec<T> {
            T::round(&normal::<f32>(seed, lines * columns).iter().map(|x| x * by).collect::<Vec<_>>())
        };
        let host = [random(1, 1.0), random(2, key), random(3, 1.0)];
        let tensor = |data: &Vec<T>| Tensor::from_slice(device, data, &shape);
        let tensors = [tensor(&host[0])?, tensor(&host[1])?, tensor(&host[2])?];
        let of = |wanted: bool, seed, shape: &[usize], f: &dyn Fn(usize, f32) -> f32| {
            let shape = if wanted { shape.to_vec() } else { vec![0; shape.len()] };
            let values = normal::<f32>(seed, shape.iter().product());
            let values: Vec<f32> = values.into_iter().enumerate().map(|(i, x)| f(i, x)).collect();
            let tensor = Tensor::from_slice(device, &values, &shape)?;
            Ok::<_, tilewright::Error>((values, tensor))
        };
        let retention = |i: usize, _: f32| (-(-5.0 - i as f32).exp2()).ln_1p();
        let (channels, delta) = (form == Form::ChannelGates, form == Form::GatedDelta);
        let rows = [batch, length, heads];
        let gates = [
            of(form == Form::Retention, 4, &[heads], &retention)?,
            of(delta, 5, &rows, &|_, x| -0.1 * x.abs())?,
            of(channels, 6, &shape, &|_, x| -0.05 * x.abs())?,
            of(delta, 7, &rows, &|_, x| 1.0 / (1.0 + (-x).exp()))?,
        ];
        let o = RefCell::new(Tensor::filled(device, T::POISON, &shape)?);
        let poison = || Tensor::filled(device, T::POISON, &shape);
        let gradients = RefCell::new([poison()?, poison()?, poison()?]);
        let workspace = RefCell::new(Tensor::zeros(device, &[0])?);
        Ok(Task { device, shape, form, host, tensors, gates, o, gradients, workspace })
    }

    fn inputs(&self) -> [TensorView<'_, T>; 3] {
        self.tensors.each_ref().map(|tensor| tensor.view())
    }

    /// What is asked of the operator.
    fn operator(&self) -> LinearAttention<'_> {
        let [decay, rows, channels, beta] = self.gates.each_ref().map(|(_, tensor)| tensor.view());
        match self.form {
            Form::Plain => LinearAttention::new(),
            Form::Retention => LinearAttention::new().decay(&decay),
            Form::ChannelGates => LinearAttention::new().channel_gates(&channels),
            Form::GatedDelta => LinearAttention::new().gates(&rows).delta(&beta),
        }
    }

    fn run(&self, list: bool) -> Result<()> {
        let [batch, length, heads, columns] = self.shape;
        println!(
            "\n{} batch {batch}, length {length}, heads {heads}, head dimension {columns}, {:?}",
            T::DTYPE,
            self.form
        );
        let [q, k, v] = self.inputs();
        if list {
            for candidate in self.operator().candidates(&q, &k, &v, &self.o.borrow_mut().view_mut())? {
                println!("  {candidate}");
            }
            return Ok(());
        }
        println!("  kernel: {}", self.operator().plan(&q, &k, &v, &self.o.borrow_mut().view_mut())?);
        let len = self.operator().workspace_len(&q, &k, &v, &self.o.borrow_mut().view_mut())?;
        self.workspace.replace(Tensor::zeros(self.device, &[len.max(self.gradient_workspace_len()?)])?);
        self.launch(&self.device.default_stream())?;
        self.check(&self.o.borrow().to_vec()?)?;
        if self.form != Form::GatedDelta {
            self.launch_gradient(&self.device.default_stream())?;
            self.check_gradient()?;
        }
        if self.device.is_emulator() { Ok(()) } else { self.measure() }
    }

    fn launch(&self, stream: &Stream) -> tilewright::Result<()> {
        let [q, k, v] = self.inputs();
        let mut workspace = self.workspace.borrow_mut();
        let mut workspace = workspace.view_mut();
        let operator: LinearAttention<'_> = self.operator();
        let mut operator = operator.workspace(&mut workspace);
        operator.run(stream, &q, &k, &v, &mut self.o.borrow_mut().view_mut())
    }

    fn gradient_workspace_len(&self) -> tilewright::Result<usize> {
        if self.form == Form::GatedDelta {
            return Ok(0);
        }
        let [q, k, v] = self.inputs();
        let mut gradients = self.gradients.borrow_mut();
        let [d_q, d_k, d_v] = &mut *gradients;
        let outputs = [&d_q.view_mut(), &d_k.view_mut(), &d_v.view_mut()];
        self.operator().gradient().workspace_len([&q, &k, &v], &v, outputs)
    }

    fn launch_gradient(&self, stream: &Stream) -> tilewright::Result<()> {
        let [q, k, v] = self.inputs();
        let mut gradients = self.gradients.borrow_mut();
        let [d_q, d_k, d_v] = &mut *gradients;
        let outputs = [&mut d_q.view_mut(), &mut d_k.view_mut(), &mut d_v.view_mut()];
        let mut workspace = self.workspace.borrow_mut();
        let mut workspace = workspace.view_mut();
        self.operator().gradient().workspace(&mut workspace).run(stream, [&q, &k, &v], &v, outputs)
    }

    /// A row of a head, and its line among all.
    fn row(&self, b: usize, h: usize, r: usize) -> (Row, usize) {
        let [_, length, heads, columns] = self.shape;
        let [(decay, _), (rows, _), (channels, _), (beta, _)] = &self.gates;
        let line = (b * length + r) * heads + h;
        let of = |data: &[T]| T::widen(&data[line * columns..][..columns]);
        let gate = match self.form {
            Form::Plain => vec![0.0; columns],
            Form::Retention => vec![decay[h]; columns],
            Form::ChannelGates => channels[line * columns..][..columns].to_vec(),
            Form::GatedDelta => vec![rows[line]; columns],
        };
        let [q, k, v] = self.host.each_ref().map(|data| of(data));
        (Row { q, k, v, gate, beta: beta.get(line).copied() }, line)
    }

    /// Compares the gradients of the last head with those of the recurrence in f64.
    fn check_gradient(&self) -> Result<()> {
        let [batch, length, heads, columns] = self.shape;
        let (rows, lines): (Vec<Row>, Vec<usize>) =
            (0..length).map(|r| self.row(batch - 1, heads - 1, r)).unzip();
        let d_o: Vec<Vec<f32>> = rows.iter().map(|row| row.v.clone()).collect();
        let (exact, _) = gradients([columns; 2], &rows, &d_o, [None; 2], 1.0 / (columns as f64).sqrt());
        let by = |i: usize| -> Vec<f64> {
            exact.iter().flat_map(|row| [&row.q, &row.k, &row.v][i].iter().copied()).collect()
        };
        let allowed = 2.0 * T::ROUNDING;
        for (i, gradient) in self.gradients.borrow().iter().enumerate() {
            let all = gradient.to_vec()?;
            let ours: Vec<T> =
                lines.iter().flat_map(|&line| &all[line * columns..][..columns]).copied().collect();
            let error = relative_error(&ours, &by(i));
            println!(
                "  error of the gradient by {}: {error:.1e}, at most {allowed:.1e} is right",
                ["Q", "K", "V"][i]
            );
            let right = error <= allowed;
            if !right {
                return Err(format!("the gradient is wrong: its relative error is {error:.1e}").into());
            }
        }
        Ok(())
    }

    /// Compares the first and the last head with the recurrence in f64.
    fn check(&self, o: &[T]) -> Result<()> {
        let [batch, length, heads, columns] = self.shape;
        let mut error = 0f64;
        for (b, h) in [(0, 0), (batch - 1, heads - 1)] {
            let mut state = State::new([columns; 2], None);
            let (mut exact, mut ours) = (Vec::new(), Vec::new());
            for r in 0..length {
                let (row, line) = self.row(b, h, r);
                exact.extend(state.step(&row, 1.0 / (columns as f64).sqrt()));
                ours.extend_from_slice(&o[line * columns..][..columns]);
            }
            let off = relative_error(&ours, &exact);
            error = if off.is_nan() { off } else { error.max(off) };
        }
        // Scores, states where they are multiplied, and results are rounded; what corrects is so once more.
        let allowed = T::ROUNDING * if self.form == Form::GatedDelta { 3.0 } else { 1.5 };
        println!("  error: {error:.1e} of {} rows, at most {allowed:.1e} is right", 2 * length);
        if error <= allowed {
            return Ok(());
        }
        Err(format!("the result is wrong: its relative error is {error:.1e}").into())
    }

    fn measure(&self) -> Result<()> {
        let [batch, length, heads, columns] = self.shape;
        // Of the recurrence: the state is written to and multiplied once a row; backward the state and its gradient are written to, and
        // multiplied three times.
        let each = (batch * length * heads * columns * columns) as f64;
        let forward = Variant::new("tilewright", |stream: &Stream, _| self.launch(stream));
        self.time(forward, 4.0 * each)?;
        if self.form == Form::GatedDelta {
            return Ok(());
        }
        self.time(
            Variant::new("its gradients", |stream: &Stream, _| self.launch_gradient(stream)),
            10.0 * each,
        )
    }

    fn time(&self, variant: Variant<'_>, flops: f64) -> Result<()> {
        for timing in compare(self.device, &[variant], &Options::default())? {
            let ms = timing.median();
            println!("  {}: {ms:.4} ms, {:.1} TFLOP/s of the recurrence", timing.name, flops / ms / 1e9);
        }
        Ok(())
    }
}
