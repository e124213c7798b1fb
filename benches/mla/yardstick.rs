//! What the card can do at the moment: a product of large matrices.

use tilewright::{DType, Device, Result, Stream, Tensor, f16};
use tilewright_support::cublas::{CublasLt, Gemm, Plan};
use tilewright_support::random::normal;

const SIZE: usize = 8192;

/// cuBLAS's own choice for C = A Bᵀ of 8192 x 8192 matrices of f16.
pub struct Yardstick<'a> {
    plan: Plan<'a>,
    matrices: [Tensor<f16>; 3],
}

impl<'a> Yardstick<'a> {
    pub fn new(device: &Device, library: &'a CublasLt) -> tilewright_support::Result<Self> {
        let asked = Gemm {
            input: DType::F16,
            output: DType::F16,
            m: SIZE,
            n: SIZE,
            k: SIZE,
            a_transposed: false,
            b_transposed: true,
            batch: 1,
        };
        let random = |seed| Tensor::from_slice(device, &normal::<f16>(seed, SIZE * SIZE), &[SIZE, SIZE]);
        let matrices = [random(1)?, random(2)?, Tensor::uninit(device, &[SIZE, SIZE])?];
        Ok(Self { plan: library.plan(&asked, 1)?, matrices })
    }

    /// Queues it.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        let [a, b, c] = self.matrices.each_ref().map(Tensor::address);
        // SAFETY: the matrices are as was asked of cuBLAS, and one computation runs at a time.
        unsafe { self.plan.run(stream, 0, a, b, c) }
    }

    /// Its TFLOP/s, if it takes so long.
    pub fn rate(ms: f64) -> f64 {
        2.0 * (SIZE as f64).powi(3) / ms / 1e9
    }
}
