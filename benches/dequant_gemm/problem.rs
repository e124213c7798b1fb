//! A case with its tensors on a device.

use std::cell::RefCell;

use tilewright::ops::{DequantGemm, DequantGemmInt8, DequantPlan, DeviceWeights};
use tilewright::quant::{HalfType, Halves, Order, PackedHeader, PackedWeights, Scheme, Zeros};
use tilewright::{Device, Result, Stream, Tensor, f16};
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, dequantized_product, pick, relative_error, sample};
use tilewright_support::timing::sets;

use crate::case::{Activations, Case};

/// Rows of C that are compared with a product computed in f64.
const CHECKED_ROWS: usize = 2;
/// A byte of activations stands for this much.
const TOKEN: f32 = 1.0 / 64.0;

/// A product that can be computed with one of several copies of the weights, so many that none is in the cache when it is
/// used again.
pub struct Problem {
    case: Case,
    packed: PackedWeights,
    weights: Vec<DeviceWeights>,
    /// A's values, and as the kernel takes them.
    values: Vec<f16>,
    a: Left,
    c: RefCell<Tensor<f16>>,
    workspace: RefCell<Tensor<f32>>,
}

enum Left {
    Halves(Tensor<f16>),
    /// And the scales of their rows.
    Bytes(Tensor<i8>, Tensor<f32>),
}

impl Problem {
    pub fn new(device: &Device, case: Case) -> Result<Self> {
        let [m, n, k] = case.size;
        let packed = packed(&case)?;
        let copies = sets(device, packed.codes().len()).min(16);
        let weights = (0..copies).map(|_| DeviceWeights::upload(device, &packed)).collect::<Result<_>>()?;
        let mut values = normal::<f16>(2, m * k);
        let a = match case.activations {
            Activations::F16 => Left::Halves(Tensor::from_slice(device, &values, &[m, k])?),
            Activations::Int8 => {
                let bytes: Vec<i8> = values.iter().map(|x| (x.to_f32() * 20.0) as i8).collect();
                values = bytes.iter().map(|&byte| f16::from_f32(f32::from(byte) * TOKEN)).collect();
                let tokens = Tensor::filled(device, TOKEN, &[m])?;
                Left::Bytes(Tensor::from_slice(device, &bytes, &[m, k])?, tokens)
            }
        };
        let c = RefCell::new(Tensor::filled(device, f16::NAN, &[m, n])?);
        let mut problem = Problem {
            case,
            packed,
            weights,
            values,
            a,
            c,
            workspace: RefCell::new(Tensor::zeros(device, &[1])?),
        };
        let len = problem.plan()?.workspace_len();
        problem.workspace = RefCell::new(Tensor::zeros(device, &[len.max(1)])?);
        Ok(problem)
    }

    pub fn case(&self) -> &Case {
        &self.case
    }

    pub fn sets(&self) -> usize {
        self.weights.len()
    }

    /// Bytes of codes and scales.
    pub fn bytes(&self) -> f64 {
        self.weights[0].bytes() as f64
    }

    /// The kernel that is chosen, and the workspace that it takes.
    pub fn plan(&self) -> Result<DequantPlan> {
        let (mut c, w) = (self.c.borrow_mut(), &self.weights[0]);
        let c = c.view_mut();
        match &self.a {
            Left::Halves(a) => {
                let gemm = DequantGemm::new();
                Ok(gemm.plan(&a.view(), w, &c)?)
            }
            Left::Bytes(a, _) => {
                let gemm = DequantGemmInt8::new();
                Ok(gemm.plan(&a.view(), w, &c)?)
            }
        }
    }

    /// Queues the product with a copy of the weights.
    pub fn launch(&self, stream: &Stream, set: usize) -> Result<()> {
        let (mut c, mut workspace) = (self.c.borrow_mut(), self.workspace.borrow_mut());
        let (mut c, mut workspace, w) = (c.view_mut(), workspace.view_mut(), &self.weights[set]);
        match &self.a {
            Left::Halves(a) => DequantGemm::new().workspace(&mut workspace).run(stream, &a.view(), w, &mut c),
            Left::Bytes(a, tokens) => {
                let tokens = tokens.view();
                let mut gemm = DequantGemmInt8::new().tokens(&tokens).workspace(&mut workspace);
                gemm.run(stream, &a.view(), w, &mut c)
            }
        }
    }

    /// Computes it, and compares rows with a reference in f64.
    pub fn check(&self, stream: &Stream) -> tilewright_support::Result<()> {
        let [m, n, k] = self.case.size;
        self.launch(stream, 0)?;
        let rows = sample(m, CHECKED_ROWS);
        let want = dequantized_product(&Matrix::new(&self.values, m, k), &self.packed.unpack()?, &rows);
        let error = relative_error(&pick(&self.c.borrow().to_vec_on(stream)?, n, &rows), &want);
        match error < 1e-3 {
            true => Ok(()),
            false => Err(format!("{}: the error is {error:.1e}", self.case).into()),
        }
    }
}

/// Weights of random codes, with scales that give products of a size that f16 holds.
fn packed(case: &Case) -> Result<PackedWeights> {
    let [_, n, k] = case.size;
    let scheme = Scheme { format: case.format, group: case.group, zeros: Zeros::None, scales: HalfType::F16 };
    let order = match case.activations {
        Activations::F16 => Order::B16,
        Activations::Int8 => Order::B8,
    };
    let header = PackedHeader { version: PackedWeights::VERSION, scheme, order, n, k };
    // Codes of e5m2 are below 2 here: with scales for its largest number f16 has few bits of the weights.
    let most = f64::from(case.format.range().1).clamp(1.0, 448.0);
    let scales = Halves::round(
        HalfType::F16,
        (0..header.groups() * header.padded_n()).map(|i| (i % 5 + 4) as f64 / (64.0 * most)),
    );
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Without the codes of fp8 that are no numbers.
        (state >> 40) as u8 & if case.format.is_integer() || case.format.bits() < 8 { 0xff } else { 0xbb }
    };
    let codes = (0..header.code_bytes()).map(|_| byte()).collect();
    PackedWeights::new("w", header, codes, scales, None)
}
