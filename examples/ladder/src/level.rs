//! The levels, and how one is run: its error against f64, its time on a GPU.

use ladder_device::attention::D;
use tilewright::{Arch, Device, Element, Result, Stream, Tensor, TensorView, TensorViewMut, f16};

use crate::data::{
    attention, normal, normal_f16, pick, product, relative_error, sample, softmax, transposed,
};
use crate::launch;
use crate::time::{Resource, median_ms};

/// Rows that are compared with f64 where matrices are large.
const SAMPLED: usize = 32;

type In<'a, 'b, T> = &'a TensorView<'b, T>;
type Out<'a, 'b, T> = &'a mut TensorViewMut<'b, T>;
type Multiply<T> = fn(&Stream, In<'_, '_, T>, In<'_, '_, T>, Out<'_, '_, T>) -> Result<()>;
type Rowwise = fn(&Stream, In<'_, '_, f32>, Out<'_, '_, f32>) -> Result<()>;
type Attend = fn(&Stream, [In<'_, '_, f16>; 3], Out<'_, '_, f16>) -> Result<()>;

/// What a level computes, and the launch that does.
#[derive(Clone, Copy)]
pub enum Work {
    /// z = x + y.
    Add(Multiply<f32>),
    /// y = softmax(x).
    Softmax(Rowwise),
    /// C = A B of f32, all row-major.
    Gemm(Multiply<f32>),
    /// C = A B of f32 rounded to tf32, B column-major.
    GemmTf32(Multiply<f32>),
    /// C = A B of f16, B column-major.
    GemmF16(Multiply<f16>),
    /// O = softmax(Q Kᵀ / √D) V.
    Attention(Attend),
}

/// A level of the ladder.
#[derive(Clone, Copy)]
pub struct Level {
    /// Its kernel's name.
    pub name: &'static str,
    /// What it is compiled for.
    pub arch: Arch,
    /// N and K of a product are multiples of this.
    pub lines: usize,
    /// What it computes.
    pub work: Work,
}

impl Level {
    const fn new(name: &'static str, arch: Arch, lines: usize, work: Work) -> Self {
        Level { name, arch, lines, work }
    }
}

/// All levels, from the first.
pub const LEVELS: [Level; 12] = [
    Level::new("vector_add", Arch::Sm80, 1, Work::Add(launch::vector_add)),
    Level::new("row_softmax", Arch::Sm80, 1, Work::Softmax(launch::row_softmax)),
    Level::new("gemm_naive", Arch::Sm80, 1, Work::Gemm(launch::gemm_naive)),
    Level::new("gemm_shared", Arch::Sm80, 1, Work::Gemm(launch::gemm_shared)),
    Level::new("gemm_registers", Arch::Sm80, 1, Work::Gemm(launch::gemm_registers)),
    Level::new("gemm_vectors", Arch::Sm80, 1, Work::Gemm(launch::gemm_vectors)),
    Level::new("gemm_pipelined", Arch::Sm80, 4, Work::Gemm(launch::gemm_pipelined)),
    Level::new("gemm_tf32", Arch::Sm80, 4, Work::GemmTf32(launch::gemm_tf32)),
    Level::new("gemm_f16", Arch::Sm80, 8, Work::GemmF16(launch::gemm_f16)),
    Level::new("gemm_warp_specialised", Arch::Sm90a, 8, Work::GemmF16(launch::gemm_warp_specialised)),
    Level::new("attention_ampere", Arch::Sm80, 1, Work::Attention(launch::attention_ampere)),
    Level::new("attention_hopper", Arch::Sm90a, 1, Work::Attention(launch::attention_hopper)),
];

/// How large the problems are.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Numbers of a vector.
    pub vector: usize,
    /// Rows and columns of a softmax.
    pub softmax: [usize; 2],
    /// M, N and K of a product.
    pub gemm: [usize; 3],
    /// Heads, queries and keys of attention.
    pub attention: [usize; 3],
}

impl Sizes {
    /// Large ones for a GPU, small ones for the emulator.
    pub fn of(device: &Device) -> Self {
        if device.is_emulator() {
            Sizes { vector: 5000, softmax: [10, 1000], gemm: [160, 288, 96], attention: [2, 150, 200] }
        } else {
            Sizes { vector: 1 << 26, softmax: [1 << 15, 2048], gemm: [4096; 3], attention: [64, 4096, 4096] }
        }
    }
}

/// What came of a level.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// How far the result is from f64, relative to its length.
    pub error: f64,
    /// How far it may be.
    pub tolerance: f64,
    /// Milliseconds of a launch; none on the emulator, whose time says nothing.
    pub ms: Option<f64>,
    /// Bytes or operations of a launch.
    pub amount: f64,
    /// What they are compared with.
    pub resource: Resource,
}

impl Level {
    /// Runs the level once, compares, and on a GPU measures it.
    pub fn run(&self, device: &Device, sizes: &Sizes) -> Result<Outcome> {
        match self.work {
            Work::Add(launch) => add(device, sizes.vector, launch),
            Work::Softmax(launch) => rows(device, sizes.softmax, launch),
            Work::Gemm(launch) => gemm(device, sizes.gemm, F32, false, launch, (1e-5, Resource::F32)),
            Work::GemmTf32(launch) => gemm(device, sizes.gemm, F32, true, launch, (1e-3, Resource::Tf32)),
            Work::GemmF16(launch) => gemm(device, sizes.gemm, F16, true, launch, (1e-3, Resource::F16)),
            Work::Attention(launch) => heads(device, sizes.attention, launch),
        }
    }
}

/// Random elements, and what stands where a kernel has yet to write.
type Elements<T> = (fn(u64, usize) -> Vec<T>, T);
const F32: Elements<f32> = (normal, f32::NAN);
const F16: Elements<f16> = (normal_f16, f16::NAN);

/// What a launch takes on a GPU.
fn timed(device: &Device, launch: impl FnMut(&Stream) -> Result<()>) -> Result<Option<f64>> {
    if device.is_emulator() { Ok(None) } else { median_ms(device, launch).map(Some) }
}

fn add(device: &Device, n: usize, launch: Multiply<f32>) -> Result<Outcome> {
    let (x, y) = (normal(1, n), normal(2, n));
    let reference: Vec<f64> = x.iter().zip(&y).map(|(&x, &y)| f64::from(x) + f64::from(y)).collect();
    let (x, y) = (Tensor::from_slice(device, &x, &[n])?, Tensor::from_slice(device, &y, &[n])?);
    let mut z = Tensor::filled(device, f32::NAN, &[n])?;
    launch(&device.default_stream(), &x.view(), &y.view(), &mut z.view_mut())?;
    Ok(Outcome {
        error: relative_error(&z.to_vec()?, &reference),
        tolerance: 1e-7,
        ms: timed(device, |stream| launch(stream, &x.view(), &y.view(), &mut z.view_mut()))?,
        amount: (3 * 4 * n) as f64,
        resource: Resource::Memory,
    })
}

fn rows(device: &Device, [rows, cols]: [usize; 2], launch: Rowwise) -> Result<Outcome> {
    let data = normal(1, rows * cols);
    let picked = sample(rows, SAMPLED);
    let reference: Vec<f64> = pick(&data, cols, &picked).into_iter().map(f64::from).collect();
    let x = Tensor::from_slice(device, &data, &[rows, cols])?;
    let mut y = Tensor::filled(device, f32::NAN, &[rows, cols])?;
    launch(&device.default_stream(), &x.view(), &mut y.view_mut())?;
    Ok(Outcome {
        error: relative_error(&pick(&y.to_vec()?, cols, &picked), &softmax(&reference, cols)),
        tolerance: 1e-6,
        ms: timed(device, |stream| launch(stream, &x.view(), &mut y.view_mut()))?,
        amount: (2 * 4 * rows * cols) as f64,
        resource: Resource::Memory,
    })
}

fn gemm<T: Element + Into<f64>>(
    device: &Device,
    [m, n, k]: [usize; 3],
    (random, nan): Elements<T>,
    transpose: bool,
    launch: Multiply<T>,
    (tolerance, resource): (f64, Resource),
) -> Result<Outcome> {
    let (a, b) = (random(1, m * k), random(2, k * n));
    let picked = sample(m, SAMPLED);
    let reference = product(&a, &b, k, n, &picked);
    let a = Tensor::from_slice(device, &a, &[m, k])?;
    let b = if transpose {
        Tensor::from_slice(device, &transposed(&b, n), &[n, k])?
    } else {
        Tensor::from_slice(device, &b, &[k, n])?
    };
    let view = || if transpose { b.view().transpose(0, 1) } else { Ok(b.view()) };
    let mut c = Tensor::filled(device, nan, &[m, n])?;
    launch(&device.default_stream(), &a.view(), &view()?, &mut c.view_mut())?;
    Ok(Outcome {
        error: relative_error(&pick(&c.to_vec()?, n, &picked), &reference),
        tolerance,
        ms: timed(device, |stream| launch(stream, &a.view(), &view()?, &mut c.view_mut()))?,
        amount: 2.0 * m as f64 * n as f64 * k as f64,
        resource,
    })
}

fn heads(device: &Device, [heads, queries, keys]: [usize; 3], launch: Attend) -> Result<Outcome> {
    let shapes = [[heads, queries, D], [heads, keys, D], [heads, keys, D]];
    let data: Vec<_> =
        (1..).zip(&shapes).map(|(seed, shape)| normal_f16(seed, shape.iter().product())).collect();
    // Of the last head.
    let last: Vec<_> = data.iter().map(|x| &x[(heads - 1) * (x.len() / heads)..]).collect();
    let picked = sample(queries, SAMPLED);
    let reference = attention([last[0], last[1], last[2]], D, &picked);
    let tensors: Vec<_> = data
        .iter()
        .zip(&shapes)
        .map(|(data, shape)| Tensor::from_slice(device, data, shape))
        .collect::<Result<_>>()?;
    let views: Vec<_> = tensors.iter().map(Tensor::view).collect();
    let inputs = [&views[0], &views[1], &views[2]];
    let mut o = Tensor::filled(device, f16::NAN, &shapes[0])?;
    launch(&device.default_stream(), inputs, &mut o.view_mut())?;
    let found = o.view().select(0, heads - 1)?.to_vec()?;
    Ok(Outcome {
        error: relative_error(&pick(&found, D, &picked), &reference),
        tolerance: 1e-3,
        ms: timed(device, |stream| launch(stream, inputs, &mut o.view_mut()))?,
        amount: 4.0 * (heads * queries * keys * D) as f64,
        resource: Resource::F16,
    })
}
