//! Products of 16-bit activations and narrow weights.

use tilewright::ops::{Activation, DequantGemm, DeviceWeights, HalfElement};
use tilewright::quant::{Format, Group, HalfType, Order, QuantizedWeights, Scheme, Zeros};
use tilewright::{Device, Error, Stream, bf16, f16};
use tilewright_support::Real;
use tilewright_support::activation::{self, STEEPEST};
use tilewright_support::random::normal;

use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(2) {
        0 => of_halves::<f16>(random, device, call),
        _ => of_halves::<bf16>(random, device, call),
    }
}

pub fn scheme(random: &mut Random, scales: HalfType) -> Scheme {
    loop {
        let (format, group) = (random.pick(&Format::ALL), random.pick(&Group::ALL));
        let zeros = random.pick(&Zeros::ALL);
        if zeros != Zeros::Packed || format.is_integer() {
            return Scheme { format, group, zeros, scales };
        }
    }
}

/// Whether an error says that there is no kernel for such weights.
pub fn lacks_kernel(error: &Error) -> bool {
    matches!(error, Error::Weights { .. })
}

fn of_halves<T: Real + Number + HalfElement>(
    random: &mut Random,
    device: &Device,
    call: &mut Call,
) -> Outcome {
    let [m, n, k] = [random.size(140), random.size(150).max(1), random.size(300).max(1)];
    let scheme = scheme(random, T::HALF);
    let a_place = Place::any(random, &[m, k]);
    let (c_place, bias_place) = (Place::any(random, &[m, n]), Place::any(random, &[n]));
    let alpha = random.pick(&[1.0f32, 1.0, -0.5, 3.0]);
    let with_bias = random.one_in(2);
    let (activation, own, forced) = (random.pick(&Activation::ALL), random.one_in(2), random.next());
    call.set(format!(
        "DequantGemm<{}>: {scheme:?}, [n, k] [{n}, {k}], A {a_place:?}, C {c_place:?}, bias {with_bias} {bias_place:?}, alpha \
         {alpha}, activation {activation}, workspace of its own {own}",
        T::DTYPE
    ));

    let shift = if scheme.zeros == Zeros::None { 0.0 } else { 0.75 };
    let values: Vec<f32> = normal::<f32>(forced, n * k).into_iter().map(|x| x + shift).collect();
    let quantized = QuantizedWeights::quantize("w", &values, [n, k], scheme)?;
    let w = DeviceWeights::upload(device, &quantized.pack(Order::B16)?)?;
    let a = Placed::new(device, a_place, &normal::<T>(forced.wrapping_add(1), m * k))?;
    let bias = Placed::new(device, bias_place, &normal::<T>(forced.wrapping_add(2), n))?;
    let mut c = Placed::<T>::poisoned(device, c_place)?;
    let stream = Stream::new(device)?;
    {
        let (a, bias, mut c) = (a.view()?, bias.view()?, c.view_mut()?);
        let gemm = DequantGemm::<T>::new().alpha(alpha);
        let plain = if with_bias { gemm.bias(&bias) } else { gemm };
        let gemm = plain.activation(activation);
        let names: Vec<_> = match gemm.candidates(&a, &w, &c) {
            Err(error) if lacks_kernel(&error) => return call.refused(error),
            all => all?.iter().filter(|all| all.rejection().is_none()).map(|all| all.name()).collect(),
        };
        if names.is_empty() {
            return match gemm.plan(&a, &w, &c) {
                Err(error) if lacks_kernel(&error) => call.refused(error),
                plan => Err(format!("no candidate, and yet {plan:?}").into()),
            };
        }
        let name = names[(forced / 2) as usize % names.len()];
        let gemm = if forced.is_multiple_of(2) { gemm.kernel(name) } else { gemm };
        call.add(if forced.is_multiple_of(2) { format!(", kernel {name}") } else { String::new() });
        let memory = Place::packed(&[gemm.workspace_len(&a, &w, &c)?]);
        let mut memory = Placed::new(device, memory.clone(), &vec![f32::NAN; memory.count()])?;
        {
            let mut workspace = memory.view_mut()?;
            let mut gemm = if own { gemm } else { gemm.workspace(&mut workspace) };
            gemm.run(&stream, &a, &w, &mut c)?;
        }
        stream.synchronize()?;
        // Fails where anything around it was written.
        memory.read()?;
    }

    let (out, a, bias) = (T::widen(&c.read()?), T::widen(&a.values()?), T::widen(&bias.values()?));
    let weights = quantized.dequantize();
    for (at, &got) in out.iter().enumerate() {
        let (row, col) = (at / n, at % n);
        let terms = || (0..k).map(|x| f64::from(a[row * k + x]) * weights[col * k + x]);
        let (sum, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
        let bias = if with_bias { f64::from(bias[col]) } else { 0.0 };
        let x = f64::from(alpha) * sum + bias;
        let exact = activation::exact(activation, x);
        let before = f64::from(alpha.abs()) * size * (3.0 * T::ROUNDING + 1e-6) + 1e-6 * bias.abs() + 1e-6;
        let bound = STEEPEST * before + T::ROUNDING * exact.abs();
        let off = (f64::from(got) - exact).abs();
        if off.is_nan() || off > bound {
            return Err(format!("C[{row}, {col}] is {got}, must be {exact} within {bound:.2e}").into());
        }
    }
    Ok(())
}
