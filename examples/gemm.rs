//! Multiplies matrices, checks the results and, on a GPU, shows the speed beside cuBLAS.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tilewright::ops::{Gemm, HalfElement};
use tilewright::{Device, Stream, Tensor, TensorView, bf16, f16};
use tilewright_support::cublas::{self, CublasLt};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, pick, product, relative_error, sample};
use tilewright_support::timing::{Options, Variant, compare, sets};
use tilewright_support::{Real, Result};

/// Multiplies random matrices, C = A B, and checks the result. On a GPU it measures the speed too, beside cuBLAS if that is
/// installed; without one the emulator multiplies smaller ones.
#[derive(Parser)]
#[command(name = "gemm", override_usage = "gemm [OPTIONS] [M N K]")]
struct Arguments {
    /// Rows of C, columns of C, and the length of the sums [default: several shapes]
    #[arg(num_args = 3, value_names = ["M", "N", "K"], value_parser = clap::value_parser!(u32).range(1..))]
    shape: Vec<u32>,
    /// Element type of A, B and C
    #[arg(long = "type", value_enum, default_value = "f16")]
    dtype: Type,
    /// How A and B lie in memory: n by rows, t transposed
    #[arg(long, value_enum, default_value = "nt")]
    layout: Layout,
    /// Forces a kernel by its name
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Shows how all kernels rate for the shapes, and computes nothing
    #[arg(long)]
    list: bool,
    /// Runs on the emulator, and shows what it counts
    #[arg(long)]
    profile: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F16,
    Bf16,
}

#[derive(Clone, Copy, ValueEnum)]
enum Layout {
    Nn,
    Nt,
    Tn,
    Tt,
}

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Layout::Nn => "NN",
            Layout::Nt => "NT",
            Layout::Tn => "TN",
            Layout::Tt => "TT",
        }
    }

    /// Whether A and B lie transposed.
    fn transposed(self) -> [bool; 2] {
        match self {
            Layout::Nn => [false, false],
            Layout::Nt => [false, true],
            Layout::Tn => [true, false],
            Layout::Tt => [true, true],
        }
    }
}

const SHAPES: [[usize; 3]; 6] = [
    [8192, 8192, 8192],
    [4096, 4096, 4096],
    [2048, 2048, 2048],
    [1024, 1024, 1024],
    [128, 4096, 4096],
    [16, 4096, 4096],
];

/// What the emulator computes in a moment.
const EMULATED: [[usize; 3]; 4] = [[512, 512, 512], [256, 256, 256], [128, 512, 512], [16, 512, 512]];

/// Rows of C that are compared with a product computed in f64.
const CHECKED_ROWS: usize = 32;

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = if arguments.profile { Device::emulator() } else { Device::default()? };
    show(&device);
    let cublas = CublasLt::new(&device);
    match &cublas {
        Ok(library) => println!("cuBLAS: {}", library.version()),
        Err(_) if device.is_emulator() => {}
        Err(reason) => println!("cuBLAS: not compared with, {reason}"),
    }
    let shapes = match arguments.shape[..] {
        [m, n, k] => vec![[m, n, k].map(|size| size as usize)],
        _ if device.is_emulator() => EMULATED.to_vec(),
        _ => SHAPES.to_vec(),
    };
    for shape in shapes {
        let task = Task { device: &device, cublas: cublas.as_ref().ok(), arguments, shape };
        match arguments.dtype {
            Type::F16 => task.run::<f16>()?,
            Type::Bf16 => task.run::<bf16>()?,
        }
    }
    Ok(())
}

/// One product.
struct Task<'a> {
    device: &'a Device,
    cublas: Option<&'a CublasLt>,
    arguments: &'a Arguments,
    /// M, N and K.
    shape: [usize; 3],
}

/// The matrices of a product on the device.
struct Matrices<T> {
    a: Tensor<T>,
    b: Tensor<T>,
    c: RefCell<Tensor<T>>,
}

impl Task<'_> {
    fn run<T: HalfElement + Real>(&self) -> Result<()> {
        let [m, n, k] = self.shape;
        let [a_transposed, b_transposed] = self.arguments.layout.transposed();
        let a_shape = if a_transposed { [k, m] } else { [m, k] };
        let b_shape = if b_transposed { [n, k] } else { [k, n] };
        println!("\n{} {m} x {n} x {k} {}", T::DTYPE, self.arguments.layout.name());

        if self.arguments.list {
            let (a, b) = (Tensor::uninit(self.device, &a_shape)?, Tensor::uninit(self.device, &b_shape)?);
            let mut c = Tensor::uninit(self.device, &[m, n])?;
            let [a, b] = self.operands::<T>(&a, &b)?;
            for candidate in self.gemm::<T>().candidates(&a, &b, &c.view_mut())? {
                println!("  {candidate}");
            }
            return Ok(());
        }

        let (a, b) = (normal::<T>(1, m * k), normal::<T>(2, k * n));
        // As many copies as it takes to find none of them in the cache when it is used again, where that matters.
        let bytes = (m * k + k * n + m * n) * size_of::<T>();
        let copies = if self.device.is_emulator() { 1 } else { sets(self.device, bytes) };
        let make = |_| -> Result<_> {
            Ok(Matrices {
                a: Tensor::from_slice(self.device, &a, &a_shape)?,
                b: Tensor::from_slice(self.device, &b, &b_shape)?,
                c: RefCell::new(Tensor::filled(self.device, T::POISON, &[m, n])?),
            })
        };
        let matrices = (0..copies).map(make).collect::<Result<Vec<_>>>()?;

        let [first_a, first_b] = self.operands(&matrices[0].a, &matrices[0].b)?;
        let plan = self.gemm().plan(&first_a, &first_b, &matrices[0].c.borrow_mut().view_mut())?;
        println!("  kernel: {plan}");

        self.device.reset_profile();
        self.multiply(&self.device.default_stream(), &matrices[0])?;
        let a = if a_transposed { Matrix::new(&a, k, m).t() } else { Matrix::new(&a, m, k) };
        let b = if b_transposed { Matrix::new(&b, n, k).t() } else { Matrix::new(&b, k, n) };
        self.check(&a, &b, &matrices[0].c.borrow().to_vec()?)?;
        if self.arguments.profile {
            self.device.profile().iter().flatten().for_each(|kernel| println!("\n{kernel}"));
        }
        if self.device.is_emulator() { Ok(()) } else { self.measure(&matrices) }
    }

    /// What is asked of the operator.
    fn gemm<T: HalfElement>(&self) -> Gemm<'_, T> {
        match &self.arguments.kernel {
            Some(name) => Gemm::new().kernel(name),
            None => Gemm::new(),
        }
    }

    /// A as \[M, K\] and B as \[K, N\], whichever way they lie.
    fn operands<'t, T: HalfElement>(
        &self,
        a: &'t Tensor<T>,
        b: &'t Tensor<T>,
    ) -> Result<[TensorView<'t, T>; 2], tilewright::Error> {
        let [a_transposed, b_transposed] = self.arguments.layout.transposed();
        let view = |tensor: &'t Tensor<T>, transposed| match transposed {
            true => tensor.view().transpose(0, 1),
            false => Ok(tensor.view()),
        };
        Ok([view(a, a_transposed)?, view(b, b_transposed)?])
    }

    fn multiply<T: HalfElement>(
        &self,
        stream: &Stream,
        Matrices { a, b, c }: &Matrices<T>,
    ) -> tilewright::Result<()> {
        let [a, b] = self.operands(a, b)?;
        self.gemm().run(stream, &a, &b, &mut c.borrow_mut().view_mut())
    }

    /// Compares some of C's rows with the product in f64, and looks for elements that were not written.
    fn check<T: Real>(&self, a: &Matrix, b: &Matrix, c: &[T]) -> Result<()> {
        let [m, n, _] = self.shape;
        let rows = sample(m, CHECKED_ROWS);
        let error = relative_error(&pick(c, n, &rows), &product(a, b, &rows));
        // Every element is rounded once, and the sums differ by less than that.
        let allowed = 2.0 * T::ROUNDING;
        println!("  error: {error:.1e} of {} rows, at most {allowed:.1e} is right", rows.len());
        let unwritten = T::widen(c).iter().filter(|x| x.is_nan()).count();
        match unwritten {
            0 if error <= allowed => Ok(()),
            0 => Err(format!("the result is wrong: its relative error is {error:.1e}").into()),
            _ => Err(format!("the result is wrong: {unwritten} elements are not numbers").into()),
        }
    }

    fn measure<T: HalfElement>(&self, matrices: &[Matrices<T>]) -> Result<()> {
        let [m, n, k] = self.shape;
        let [a_transposed, b_transposed] = self.arguments.layout.transposed();
        let problem =
            cublas::Gemm { input: T::DTYPE, output: T::DTYPE, m, n, k, a_transposed, b_transposed, batch: 1 };
        let peer = self.cublas.and_then(|library| library.plan(&problem, 1).ok());
        let mut variants =
            vec![Variant::new("tilewright", |stream, set| self.multiply(stream, &matrices[set]))];
        if let Some(peer) = &peer {
            variants.push(Variant::new("cuBLAS", |stream, set| {
                let Matrices { a, b, c } = &matrices[set];
                // SAFETY: the matrices are as the problem says, and variants run one after the other.
                unsafe { peer.run(stream, 0, a.address(), b.address(), c.borrow_mut().address()) }
            }));
        }
        let options = Options { sets: matrices.len(), ..Options::default() };
        let timings = compare(self.device, &variants, &options)?;
        for timing in &timings {
            let (ms, flops) = (timing.median(), 2.0 * (m * n) as f64 * k as f64);
            println!("  {}: {ms:.4} ms, {:.1} TFLOP/s", timing.name, flops / ms / 1e9);
        }
        if let [ours, peer] = &timings[..] {
            println!("  speed of cuBLAS's: {:.2}", peer.median() / ours.median());
        }
        Ok(())
    }
}
