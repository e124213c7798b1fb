//! Quantises weights, packs them, writes and reads a file, multiplies, checks, and on a GPU shows the speed beside cuBLAS with
//! dense f16 weights.

use std::cell::RefCell;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Parser;
use tilewright::ops::{DequantGemm, DequantGemmInt8, DequantPlan, DeviceWeights};
use tilewright::quant::{
    Format, Group, HalfType, Order, PackedHeader, PackedWeights, QuantizedWeights, Scheme, Zeros,
};
use tilewright::{DType, Device, Stream, Tensor, TensorViewMut, f16};
use tilewright_support::Result;
use tilewright_support::cublas::{self, CublasLt};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, dequantized_product, pick, relative_error, sample};
use tilewright_support::timing::{Options, Variant, compare, sets};

/// Multiplies activations by narrow weights, C = A Wᵀ, and checks the result. On a GPU it measures the speed too, beside cuBLAS
/// with dense weights if that is installed; without one the emulator multiplies smaller ones.
#[derive(Parser)]
#[command(name = "dequant_gemm", override_usage = "dequant_gemm [OPTIONS] [N K]")]
struct Arguments {
    /// Rows and columns of W [default: several shapes]
    #[arg(num_args = 2, value_names = ["N", "K"], value_parser = clap::value_parser!(u32).range(1..))]
    shape: Vec<u32>,
    /// The weights' format: u4, i4, u2, i2, u1, i1, i8, nf4, fp4, e4m3 or e5m2
    #[arg(long, default_value = "u4", value_parser = known::<Format>)]
    format: Format,
    /// Weights that share a scale: 32, 64, 128 or row
    #[arg(long, default_value = "128", value_parser = known::<Group>)]
    group: Group,
    /// The mode of zeros: none, original, rescaled or packed
    #[arg(long, default_value = "none", value_parser = known::<Zeros>)]
    zeros: Zeros,
    /// Rows of A, separated by commas
    #[arg(short, value_delimiter = ',')]
    m: Vec<usize>,
    /// Multiplies activations of int8, with a scale a row, instead of f16
    #[arg(long)]
    int8: bool,
    /// Forces a kernel by its name
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
}

fn known<T: FromStr<Err = ()>>(word: &str) -> std::result::Result<T, String> {
    word.parse().map_err(|()| format!("`{word}` is not one of them"))
}

/// N, K.
const SHAPES: [[usize; 2]; 3] = [[4096, 4096], [28672, 8192], [8192, 8192]];
const ROWS: [usize; 9] = [1, 8, 16, 32, 64, 128, 256, 1024, 4096];
/// Rows of C that are compared with a product computed in f64.
const CHECKED_ROWS: usize = 3;

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::default()?;
    show(&device);
    let cublas = CublasLt::new(&device).ok();
    let shapes = match (arguments.shape.as_slice(), device.is_emulator()) {
        (&[n, k], _) => vec![[n as usize, k as usize]],
        (_, true) => vec![[320, 512]],
        _ => SHAPES.to_vec(),
    };
    let rows = match (arguments.m.as_slice(), device.is_emulator()) {
        ([], true) => vec![1, 16, 64],
        ([], false) => ROWS.to_vec(),
        (rows, _) => rows.to_vec(),
    };
    for [n, k] in shapes {
        let packed = through_a_file(arguments, n, k)?;
        println!("W [{n}, {k}], {}, {}, zeros {}", arguments.format, arguments.group, arguments.zeros);
        println!(
            "{:>6} {:>10} {:>9} {:>9} {:>11} {:>7} {:>9}",
            "M", "error", "µs", "GB/s", "dense µs", "ratio", "kernel"
        );
        for &m in &rows {
            multiply(&device, cublas.as_ref(), arguments, &packed, m)?;
        }
    }
    Ok(())
}

/// Quantises random weights, packs them, and writes and reads a safetensors file: what comes back is what was packed.
fn through_a_file(arguments: &Arguments, n: usize, k: usize) -> Result<PackedWeights> {
    let Arguments { format, group, zeros, .. } = *arguments;
    let scheme = Scheme { format, group, zeros, scales: HalfType::F16 };
    // A quarter of a million values, again and again.
    let few = normal::<f32>(1, (n * k).min(1 << 18));
    let wide: Vec<f32> = few.iter().cycle().take(n * k).copied().collect();
    let order = if arguments.int8 { Order::B8 } else { Order::B16 };
    let packed = QuantizedWeights::quantize("layer.weight", &wide, [n, k], scheme)?.pack(order)?;
    let path = std::env::temp_dir().join(format!("dequant_gemm-{}.safetensors", std::process::id()));
    std::fs::write(&path, PackedWeights::to_safetensors([&packed])?)?;
    let bytes = std::fs::read(&path)?;
    std::fs::remove_file(&path)?;
    let back = PackedWeights::from_safetensors("layer.weight", &bytes)?;
    if back != packed {
        return Err("the file's weights are not those that were written".into());
    }
    let PackedHeader { version, .. } = back.header();
    println!("{} MB in the packed form, version {version}", bytes.len() / 1_000_000);
    Ok(back)
}

/// Activations on a device, and what multiplies them.
enum Activations {
    Halves(Tensor<f16>),
    /// And the scales of their rows.
    Bytes(Tensor<i8>, Tensor<f32>),
}

/// What activations of int8 stand for is this much of them.
const TOKEN: f32 = 1.0 / 64.0;

impl Activations {
    /// Those of the given values, which of int8 are multiples of [`TOKEN`].
    fn new(device: &Device, int8: bool, a: &[f16], [m, k]: [usize; 2]) -> tilewright::Result<Self> {
        if !int8 {
            return Ok(Activations::Halves(Tensor::from_slice(device, a, &[m, k])?));
        }
        let bytes: Vec<i8> = a.iter().map(|a| (a.to_f32() / TOKEN) as i8).collect();
        let tokens = Tensor::filled(device, TOKEN, &[m])?;
        Ok(Activations::Bytes(Tensor::from_slice(device, &bytes, &[m, k])?, tokens))
    }

    fn run(
        &self,
        stream: &Stream,
        w: &DeviceWeights,
        c: &mut TensorViewMut<'_, f16>,
        workspace: &mut TensorViewMut<'_, f32>,
        kernel: Option<&str>,
    ) -> tilewright::Result<()> {
        match self {
            Activations::Halves(a) => {
                let gemm = DequantGemm::new().workspace(workspace);
                let mut gemm = if let Some(name) = kernel { gemm.kernel(name) } else { gemm };
                gemm.run(stream, &a.view(), w, c)
            }
            Activations::Bytes(a, tokens) => {
                let tokens = tokens.view();
                let gemm = DequantGemmInt8::new().tokens(&tokens).workspace(workspace);
                let mut gemm = if let Some(name) = kernel { gemm.kernel(name) } else { gemm };
                gemm.run(stream, &a.view(), w, c)
            }
        }
    }

    /// The kernel, and the workspace that it takes.
    fn plan(
        &self,
        w: &DeviceWeights,
        c: &TensorViewMut<'_, f16>,
        kernel: Option<&str>,
    ) -> tilewright::Result<DequantPlan> {
        match self {
            Activations::Halves(a) => {
                let gemm = DequantGemm::new();
                let gemm = if let Some(name) = kernel { gemm.kernel(name) } else { gemm };
                Ok(gemm.plan(&a.view(), w, c)?)
            }
            Activations::Bytes(a, _) => {
                let gemm = DequantGemmInt8::new();
                let gemm = if let Some(name) = kernel { gemm.kernel(name) } else { gemm };
                Ok(gemm.plan(&a.view(), w, c)?)
            }
        }
    }
}

fn multiply(
    device: &Device,
    cublas: Option<&CublasLt>,
    arguments: &Arguments,
    packed: &PackedWeights,
    m: usize,
) -> Result<()> {
    let (n, k) = (packed.header().n, packed.header().k);
    let mut a = normal::<f16>(2, m * k);
    if arguments.int8 {
        let rounded = |a: &f16| f16::from_f32((a.to_f32() / (3.0 * TOKEN)).round_ties_even() * TOKEN);
        a = a.iter().map(rounded).collect();
    }
    let activations = Activations::new(device, arguments.int8, &a, [m, k])?;
    let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
    let count = if device.is_emulator() { 1 } else { sets(device, packed.codes().len()).min(16) };
    let weights: Vec<_> =
        (0..count).map(|_| DeviceWeights::upload(device, packed)).collect::<tilewright::Result<_>>()?;
    let stream = Stream::new(device)?;
    let kernel = arguments.kernel.as_deref();
    let plan = activations.plan(&weights[0], &c.view_mut(), kernel)?;
    let (name, len) = (plan.kernel().name(), plan.workspace_len());
    let mut memory = Tensor::<f32>::zeros(device, &[len.max(1)])?;
    activations.run(&stream, &weights[0], &mut c.view_mut(), &mut memory.view_mut(), kernel)?;
    let rows = sample(m, CHECKED_ROWS);
    let want = dequantized_product(&Matrix::new(&a, m, k), &packed.unpack()?, &rows);
    let error = relative_error(&pick(&c.to_vec_on(&stream)?, n, &rows), &want);
    if error.is_nan() || error >= 1e-3 {
        return Err(format!("{m} rows: the relative error is {error:.1e}").into());
    }
    if device.is_emulator() {
        println!("{m:>6} {error:>10.1e} {:>9} {:>9} {:>11} {:>7} {name}", "-", "-", "-", "-");
        return Ok(());
    }
    let (c, memory) = (&RefCell::new(c), &RefCell::new(memory));
    let (activations, weights) = (&activations, &weights);
    let dense = (4 * device.l2_bytes()).div_ceil(2 * n * k).clamp(1, 8);
    let few = normal::<f16>(3, 1 << 18);
    let wide: Vec<f16> = few.iter().cycle().take(n * k).copied().collect();
    let dense: Vec<_> =
        (0..dense).map(|_| Tensor::from_slice(device, &wide, &[n, k])).collect::<tilewright::Result<_>>()?;
    let (f16, no, yes) = (DType::F16, false, true);
    let problem =
        cublas::Gemm { input: f16, output: f16, m, n, k, a_transposed: no, b_transposed: yes, batch: 1 };
    let plan = cublas.map(|cublas| cublas.plan(&problem, 1)).transpose()?;
    let mut variants = vec![Variant::new("narrow", move |stream, set| {
        let (mut c, mut memory) = (c.borrow_mut(), memory.borrow_mut());
        let w = &weights[set % weights.len()];
        activations.run(stream, w, &mut c.view_mut(), &mut memory.view_mut(), kernel)
    })];
    if let Some(plan) = &plan {
        let (dense, a) = (&dense, Tensor::from_slice(device, &a, &[m, k])?);
        variants.push(Variant::new("dense", move |stream, set| {
            let (a, b, c) = (a.address(), dense[set % dense.len()].address(), c.borrow().address());
            // SAFETY: matrices of the problem's sizes, used by this stream alone.
            unsafe { plan.run(stream, 0, a, b, c) }
        }));
    }
    let options = Options { sets: count, warm_up: Duration::from_millis(200), ..Options::default() };
    let timings = compare(device, &variants, &options)?;
    let ms = timings[0].median();
    let rate = weights[0].bytes() as f64 / ms / 1e6;
    print!("{m:>6} {error:>10.1e} {:>9.1} {rate:>9.0}", ms * 1e3);
    match timings.get(1).map(|dense| dense.median()) {
        Some(dense) => println!(" {:>11.1} {:>6.2}× {name}", dense * 1e3, dense / ms),
        None => println!(" {:>11} {:>7} {name}", "-", "-"),
    }
    Ok(())
}
