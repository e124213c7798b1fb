//! Data, and comparisons.

use candle_core::{DType, Device, Result, Tensor};
use rand::distr::Uniform;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Where operators run: on a GPU, if this is built for one and there is one, or on the CPU.
pub fn device() -> Device {
    #[cfg(feature = "cuda")]
    if candle_core::utils::cuda_is_available() {
        static GPU: std::sync::OnceLock<Device> = std::sync::OnceLock::new();
        return GPU.get_or_init(|| Device::new_cuda(0).expect("a GPU that can be used")).clone();
    }
    Device::Cpu
}

/// Numbers from -1 to 1, the same for the same seed.
pub fn random(shape: &[usize], seed: u64, dtype: DType) -> Result<Tensor> {
    let random = StdRng::seed_from_u64(seed);
    let values: Vec<f32> =
        random.sample_iter(Uniform::new(-1.0, 1.0).expect("a range")).take(shape.iter().product()).collect();
    Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(&device())
}

/// The same numbers in f32 on the CPU, where references are computed.
pub fn wide(tensor: &Tensor) -> Result<Tensor> {
    tensor.to_device(&Device::Cpu)?.to_dtype(DType::F32)
}

/// Every element is within `tolerance` of the expected one, and of that much of it.
#[track_caller]
pub fn close(actual: &Tensor, expected: &Tensor, tolerance: f32) {
    assert_eq!(actual.dims(), expected.dims());
    let values = |tensor: &Tensor| -> Result<Vec<f32>> { wide(tensor)?.flatten_all()?.to_vec1() };
    let (actual, expected) = (values(actual).unwrap(), values(expected).unwrap());
    assert!(expected.iter().any(|x| x.abs() > tolerance), "nothing to compare");
    for (i, (a, e)) in actual.iter().zip(&expected).enumerate() {
        let most = tolerance * (1.0 + e.abs());
        assert!((a - e).abs() <= most, "element {i} is {a}, not {e} within {most}");
    }
}

/// Roundings of results in bf16, of sums of rounded weights.
pub const BF16: f32 = 0.015;
/// The same of f16.
pub const F16: f32 = 0.002;
