//! One product: run, and compared with its reference element by element.

use tilewright::ops::{DequantGemm, DeviceWeights, HalfElement};
use tilewright::quant::{Format, Group, Order, QuantizedWeights, Scheme, Zeros};
use tilewright::{Device, Stream, Tensor};
use tilewright_support::Real;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

/// Element types of activations.
pub trait Activations: Real + HalfElement {}
impl<T: Real + HalfElement> Activations for T {}

/// Random weights of a scheme, shifted where it has zeros.
pub fn weights<T: Activations>(
    [n, k]: [usize; 2],
    (format, group, zeros): (Format, Group, Zeros),
) -> tilewright::Result<QuantizedWeights> {
    let shift = if zeros == Zeros::None { 0.0 } else { 0.75 };
    let wide: Vec<f32> = normal::<f32>(11, n * k).into_iter().map(|x| x + shift).collect();
    QuantizedWeights::quantize("w", &wide, [n, k], Scheme { format, group, zeros, scales: T::HALF })
}

/// The product and the sums of its terms' magnitudes, \[M, N\].
pub fn reference<T: Activations>(a: &[T], w: &QuantizedWeights) -> Vec<(f64, f64)> {
    let ([_, k], a, w) = (w.shape(), T::widen(a), w.dequantize());
    let rows = a.chunks(k).flat_map(|a| w.chunks(k).map(move |w| (a, w)));
    rows.map(|(a, w)| {
        let terms = || a.iter().zip(w).map(|(&a, &w)| f64::from(a) * w);
        (terms().sum(), terms().map(f64::abs).sum())
    })
    .collect()
}

/// Compares C with `f` of the reference: weights and the result are rounded.
pub fn compare<T: Activations>(
    c: &[T],
    want: &[(f64, f64)],
    f: impl Fn(usize, f64) -> f64,
) -> Result<(), String> {
    for (i, (got, &(want, magnitude))) in T::widen(c).into_iter().zip(want).enumerate() {
        let want = f(i, want);
        let allowed = T::ROUNDING * (want.abs() + 3.0 * magnitude) + 1e-6;
        let off = (f64::from(got) - want).abs();
        if off.is_nan() || off > allowed {
            return Err(format!("element {i} is {got}, not {want} (within {allowed})"));
        }
    }
    Ok(())
}

/// Runs A Wᵀ on the kernel of this name, or on the one that is chosen, and compares it.
pub fn check<T: Activations>(
    device: &Device,
    m: usize,
    w: &QuantizedWeights,
    kernel: Option<&str>,
) -> Outcome {
    let [n, k] = w.shape();
    let a = normal::<T>(7, m * k);
    let at = Tensor::from_slice(device, &a, &[m, k])?;
    let mut c = Tensor::filled(device, T::POISON, &[m, n])?;
    let packed = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
    let mut gemm = DequantGemm::<T>::new();
    if let Some(name) = kernel {
        gemm = gemm.kernel(name);
    }
    gemm.run(&Stream::new(device)?, &at.view(), &packed, &mut c.view_mut())?;
    let outcome = compare(&c.to_vec()?, &reference(&a, w), |_, x| x);
    outcome.map_err(|error| format!("{m} x {n} x {k}, {:?}, kernel {kernel:?}: {error}", w.scheme()).into())
}

/// The kernels that can compute a product.
pub fn kernels<T: Activations>(
    device: &Device,
    m: usize,
    w: &QuantizedWeights,
) -> tilewright::Result<Vec<&'static str>> {
    let [n, k] = w.shape();
    let (a, mut c) = (Tensor::<T>::zeros(device, &[m, k])?, Tensor::<T>::zeros(device, &[m, n])?);
    let packed = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
    let all = DequantGemm::<T>::new().candidates(&a.view(), &packed, &c.view_mut())?;
    Ok(all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()).collect())
}
