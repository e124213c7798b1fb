//! Products of int8 activations against exact references.

use std::collections::BTreeSet;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tilewright::ops::{self, Activation, DequantGemmInt8, DeviceWeights, Int8Output};
use tilewright::quant::{Format, Group, HalfType, Halves, Order, QuantizedWeights, ZeroPoints, Zeros};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::activation::exact;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::Activations;

const FORMATS: [Format; 5] = [Format::U4, Format::I4, Format::U2, Format::I2, Format::I8];

/// So many numbers below `end`.
fn below(end: usize, seed: u64, count: usize) -> impl Iterator<Item = usize> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..count).map(move |_| random.random_range(0..end))
}

/// Activations of all values.
fn activations(count: usize) -> Vec<i8> {
    below(256, 1, count).map(|x| x as u8 as i8).collect()
}

/// Weights of all codes, with scales around a hundredth.
fn weights(
    [n, k]: [usize; 2],
    format: Format,
    group: Group,
    zeros: Zeros,
    scales: HalfType,
) -> QuantizedWeights {
    let codes = below(format.codes(), 2, n * k).map(|code| code as u8).collect();
    let groups = n * group.count(k);
    let drawn = below(format.codes(), 3, groups).map(|code| code as i16 + format.range().0 as i16);
    let zeros = match zeros {
        Zeros::Packed => ZeroPoints::Packed(drawn.collect()),
        Zeros::Original => ZeroPoints::Original(Halves::round(scales, drawn.map(f64::from))),
        _ => ZeroPoints::None,
    };
    let scales = Halves::round(scales, below(64, 4, groups).map(|x| (x + 32) as f64 / 8192.0));
    QuantizedWeights::new("w", format, group, [n, k], codes, scales, zeros).expect("weights")
}

/// The values of the codes less their zeros, \[N, K\]; and the scales.
fn integers(w: &QuantizedWeights) -> (Vec<i64>, Vec<f64>) {
    let ([_, k], scheme, groups) = (w.shape(), w.scheme(), w.groups());
    let group = |i: usize| i / k * groups + i % k / scheme.group.len(k);
    let zero = |i: usize| match w.zeros() {
        ZeroPoints::Packed(zeros) => i64::from(zeros[group(i)]),
        ZeroPoints::Original(zeros) => zeros.get(group(i)) as i64,
        _ => 0,
    };
    let value = |(i, &code): (usize, &u8)| scheme.format.value(code) as i64 - zero(i);
    let scales = (0..w.codes().len()).map(|i| f64::from(w.scales().get(group(i)))).collect();
    (w.codes().iter().enumerate().map(value).collect(), scales)
}

/// The sums \[M, N\] without scales, exact.
fn sums(a: &[i8], w: &QuantizedWeights) -> Vec<i64> {
    let ([_, k], (q, _)) = (w.shape(), integers(w));
    let rows = a.chunks(k).flat_map(|a| q.chunks(k).map(move |q| (a, q)));
    rows.map(|(a, q)| a.iter().zip(q).map(|(&a, q)| i64::from(a) * q).sum()).collect()
}

/// The product \[M, N\] with the weights' scales, and the sums of its groups' magnitudes.
fn scaled(a: &[i8], w: &QuantizedWeights) -> Vec<(f64, f64)> {
    let ([_, k], (q, s), group) = (w.shape(), integers(w), w.scheme().group.len(w.shape()[1]));
    let rows = a.chunks(k).flat_map(|a| q.chunks(k).zip(s.chunks(k)).map(move |(q, s)| (a, q, s)));
    rows.map(|(a, q, s)| {
        let groups = a.chunks(group).zip(q.chunks(group)).zip(s.chunks(group));
        let groups = groups
            .map(|((a, q), s)| s[0] * a.iter().zip(q).map(|(&a, q)| i64::from(a) * q).sum::<i64>() as f64);
        groups.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()))
    })
    .collect()
}

fn upload(device: &Device, w: &QuantizedWeights) -> tilewright::Result<DeviceWeights> {
    DeviceWeights::upload(device, &w.pack(Order::B8)?)
}

/// The kernels that can compute a product.
fn kernels<C: Int8Output>(
    device: &Device,
    m: usize,
    w: &DeviceWeights,
) -> tilewright::Result<Vec<&'static str>> {
    let [n, k] = w.shape();
    let (a, mut c) = (Tensor::<i8>::zeros(device, &[m, k])?, Tensor::<C>::zeros(device, &[m, n])?);
    let all = DequantGemmInt8::<C>::new().candidates(&a.view(), w, &c.view_mut())?;
    Ok(all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()).collect())
}

fn same(name: &str, got: &[i32], want: &[i64]) -> Result<(), String> {
    match got.iter().zip(want).position(|(&got, &want)| i64::from(got) != want) {
        None => Ok(()),
        Some(i) => Err(format!("{name}: element {i} is {}, not {}", got[i], want[i])),
    }
}

/// Sums on every kernel: none differs.
fn check_sums(device: &Device, m: usize, w: &QuantizedWeights) -> Outcome {
    let ([n, k], on) = (w.shape(), upload(device, w)?);
    let a = activations(m * k);
    let (at, want) = (Tensor::from_slice(device, &a, &[m, k])?, sums(&a, w));
    for name in kernels::<i32>(device, m, &on)? {
        let mut c = Tensor::filled(device, i32::MIN, &[m, n])?;
        DequantGemmInt8::new().kernel(name).run(&Stream::new(device)?, &at.view(), &on, &mut c.view_mut())?;
        same(&format!("{name}, {m} x {n} x {k}, {:?}", w.scheme()), &c.to_vec()?, &want)?;
    }
    Ok(())
}

fn near<T: Activations>(name: &str, c: &[T], want: impl Iterator<Item = (f64, f64)>) -> Result<(), String> {
    for (i, (got, (want, size))) in T::widen(c).into_iter().zip(want).enumerate() {
        let allowed = T::ROUNDING * want.abs() + 1e-6 * size + 1e-6;
        let off = (f64::from(got) - want).abs();
        if off.is_nan() || off > allowed {
            return Err(format!("{name}: element {i} is {got}, not {want} (within {allowed})"));
        }
    }
    Ok(())
}

/// The scaled product on every kernel, with scales of A's rows.
fn check_scaled<T: Activations + Int8Output>(device: &Device, m: usize, w: &QuantizedWeights) -> Outcome {
    let ([n, k], on) = (w.shape(), upload(device, w)?);
    let a = activations(m * k);
    let tokens: Vec<f32> = below(32, 5, m).map(|x| (x + 1) as f32 / 4096.0).collect();
    let (at, want) = (Tensor::from_slice(device, &a, &[m, k])?, scaled(&a, w));
    let tokens_at = Tensor::from_slice(device, &tokens, &[m])?;
    for name in kernels::<T>(device, m, &on)? {
        let mut c = Tensor::filled(device, T::POISON, &[m, n])?;
        let view = tokens_at.view();
        let mut gemm = DequantGemmInt8::new().kernel(name).tokens(&view);
        gemm.run(&Stream::new(device)?, &at.view(), &on, &mut c.view_mut())?;
        let want = want.iter().enumerate().map(|(i, &(x, size))| {
            let token = f64::from(tokens[i / n]);
            (token * x, token * size)
        });
        near(&format!("{name}, {m} x {n} x {k}, {:?}", w.scheme()), &c.to_vec()?, want)?;
    }
    Ok(())
}

/// The modes of zeros that a format has kernels for.
fn zeros(format: Format) -> &'static [Zeros] {
    match format {
        Format::U4 => &[Zeros::None, Zeros::Packed, Zeros::Original],
        _ => &[Zeros::None],
    }
}

/// Every format, group and mode of zeros, on every kernel.
pub fn of_every_scheme(device: &Device) -> Outcome {
    for format in FORMATS {
        for &zeros in zeros(format) {
            for group in Group::ALL {
                let w = |k, scales| weights([96, k], format, group, zeros, scales);
                if group != Group::K32 || zeros == Zeros::None {
                    check_sums(device, 20, &w(208, HalfType::F16))?;
                }
                if matches!(group, Group::K128 | Group::Row) {
                    check_scaled::<f16>(device, 20, &w(400, HalfType::F16))?;
                    check_scaled::<bf16>(device, 3, &w(208, HalfType::BF16))?;
                }
            }
        }
    }
    Ok(())
}

/// Codes and activations that are all lowest and all highest: the largest sums there are.
pub fn extremes(device: &Device) -> Outcome {
    let (m, n, k) = (2, 64, 1040);
    for format in FORMATS {
        for code in [0, format.codes() / 2 - 1, format.codes() / 2, format.codes() - 1] {
            for a in [i8::MIN, -1, i8::MAX] {
                let (scales, a) = (Halves::round(HalfType::F16, vec![1.0; n]), vec![a; m * k]);
                let codes = vec![code as u8; n * k];
                let none = ZeroPoints::None;
                let w = QuantizedWeights::new("w", format, Group::Row, [n, k], codes, scales, none)?;
                let at = Tensor::from_slice(device, &a, &[m, k])?;
                let mut c = Tensor::filled(device, i32::MIN, &[m, n])?;
                let on = upload(device, &w)?;
                DequantGemmInt8::new().run(&Stream::new(device)?, &at.view(), &on, &mut c.view_mut())?;
                same(&format!("{format}, code {code}, activations {}", a[0]), &c.to_vec()?, &sums(&a, &w))?;
            }
        }
    }
    Ok(())
}

/// Sizes around the kernels' tiles.
pub fn ragged(device: &Device) -> Outcome {
    for (m, n, k) in [(1, 1, 16), (2, 63, 80), (17, 65, 128), (33, 129, 336), (97, 260, 144), (131, 64, 272)]
    {
        for (zeros, group) in [(Zeros::None, Group::Row), (Zeros::Packed, Group::K128)] {
            let w = weights([n, k], Format::U4, group, zeros, HalfType::F16);
            check_sums(device, m, &w)?;
            check_scaled::<f16>(device, m, &w)?;
        }
    }
    Ok(())
}

/// Few tiles of much depth: CTAs divide them, and sums stay exact; scaled ones are the same bits each time.
pub fn divided(device: &Device) -> Outcome {
    let (m, n, k) = (5, 320, 3072);
    for group in [Group::Row, Group::K128] {
        let w = weights([n, k], Format::I4, group, Zeros::None, HalfType::F16);
        check_sums(device, m, &w)?;
        check_scaled::<f16>(device, m, &w)?;
        let on = upload(device, &w)?;
        let at = Tensor::from_slice(device, &activations(m * k), &[m, k])?;
        let (stream, mut gemm) = (Stream::new(device)?, DequantGemmInt8::<f16>::new());
        let mut first: Option<Vec<f16>> = None;
        for _ in 0..3 {
            let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
            gemm.run(&stream, &at.view(), &on, &mut c.view_mut())?;
            let c = c.to_vec_on(&stream)?;
            if first.get_or_insert_with(|| c.clone()) != &c {
                return Err("the same call gave other bits".into());
            }
        }
    }
    Ok(())
}

/// Scales of A's rows, a bias and each activation, on every kernel.
pub fn epilogues(device: &Device) -> Outcome {
    let mut seen = BTreeSet::new();
    for format in FORMATS {
        for &zeros in zeros(format) {
            for group in [Group::K128, Group::Row] {
                epilogues_of::<f16>(device, (format, group, zeros), &mut seen)?;
                epilogues_of::<bf16>(device, (format, group, zeros), &mut seen)?;
            }
        }
    }
    let fits = |bytes| bytes <= device.shared_memory_per_cta();
    let runnable = ops::kernels().filter(|kernel| device.runs(kernel.arch) && fits(kernel.shared_bytes));
    let these = runnable.map(|kernel| kernel.name).filter(|name| name.starts_with("dequant_gemm_int8"));
    assert_eq!(seen, these.collect::<BTreeSet<_>>());
    Ok(())
}

fn epilogues_of<T: Activations + Int8Output>(
    device: &Device,
    (format, group, zeros): (Format, Group, Zeros),
    seen: &mut BTreeSet<&'static str>,
) -> Outcome {
    let (m, n, k) = (5, 72, 256);
    let w = weights([n, k], format, group, zeros, T::HALF);
    let (on, a, bias) = (upload(device, &w)?, activations(m * k), normal::<T>(8, n));
    let want = scaled(&a, &w);
    let tokens: Vec<f32> = below(32, 5, m).map(|x| (x + 1) as f32 / 4096.0).collect();
    let (at, bias_at) = (Tensor::from_slice(device, &a, &[m, k])?, Tensor::from_slice(device, &bias, &[n])?);
    let tokens_at = Tensor::from_slice(device, &tokens, &[m])?;
    let (at, tokens_view, bias_view, bias) = (at.view(), tokens_at.view(), bias_at.view(), T::widen(&bias));
    let stream = Stream::new(device)?;
    for name in kernels::<T>(device, m, &on)? {
        seen.insert(name);
        for activation in Activation::ALL {
            let mut c = Tensor::filled(device, T::POISON, &[m, n])?;
            let gemm = DequantGemmInt8::new().tokens(&tokens_view).bias(&bias_view).activation(activation);
            gemm.kernel(name).run(&stream, &at, &on, &mut c.view_mut())?;
            let want = want.iter().enumerate().map(|(i, &(x, size))| {
                let (token, bias) = (f64::from(tokens[i / n]), f64::from(bias[i % n]));
                (exact(activation, token * x + bias), 2.0 * (token * size + bias.abs()))
            });
            near(&format!("{name}, {activation}"), &c.to_vec_on(&stream)?, want)?;
        }
    }
    Ok(())
}

/// A's rows apart, one scale for all of them, a bias, an activation, and C of any strides with poison around it.
pub fn anywhere(device: &Device) -> Outcome {
    let (m, n, k) = (19, 70, 144);
    let (a, bias) = (activations(m * k), normal::<f16>(8, n));
    let pitch = k + 32;
    let block: Vec<i8> =
        (0..m * pitch).map(|i| if i % pitch < k { a[i / pitch * k + i % pitch] } else { 77 }).collect();
    let block = Tensor::from_slice(device, &block, &[m, pitch])?;
    let bias_at = Tensor::from_slice(device, &bias, &[n])?;
    let token = Tensor::filled(device, 0.007_812_5f32, &[1])?;
    let (token, bias_view) = (token.view().broadcast(&[m])?, bias_at.view());
    let rows = |pitch| Place::by_rows([1, m, n], pitch);
    for group in [Group::Row, Group::K128] {
        let w = weights([n, k], Format::U4, group, Zeros::Packed, HalfType::F16);
        let (on, want) = (upload(device, &w)?, scaled(&a, &w));
        for to in [rows(n), rows(n + 10), rows(128), Place::by_columns([1, m, n], m + 1)] {
            let mut c = Guarded::<f16>::at(device, to)?;
            let gemm = DequantGemmInt8::new().tokens(&token).bias(&bias_view);
            let mut gemm = gemm.activation(Activation::Silu);
            let a = block.view().narrow(1, 0, k)?;
            gemm.run(&Stream::new(device)?, &a, &on, &mut c.view_mut()?.select(0, 0)?)?;
            let (c, touched) = c.read()?;
            let want = want
                .iter()
                .enumerate()
                .map(|(i, &(x, size))| (exact(Activation::Silu, x / 128.0 + bias[i % n].to_f64()), size));
            near(&format!("C at {to:?}"), &c, want)?;
            if touched > 0 {
                return Err(format!("C at {to:?}: {touched} elements around it were written").into());
            }
        }
    }
    Ok(())
}

/// Each refused call names the argument or the weights, and C stays as it was.
pub fn errors(device: &Device) -> Outcome {
    let (m, n, k) = (2, 64, 256);
    let of = |format, group, zeros| upload(device, &weights([n, k], format, group, zeros, HalfType::F16));
    let stream = Stream::new(device)?;
    let a = Tensor::filled(device, 1i8, &[m, k + 16])?;
    let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
    let mut counts = Tensor::filled(device, -1i32, &[m, n])?;
    let expect = |result: tilewright::Result<()>, words: &[&str]| match result {
        Err(error) if words.iter().all(|word| error.to_string().contains(word)) => Ok(()),
        other => Err(format!("not an error about {words:?}: {other:?}")),
    };
    let right = a.view().narrow(1, 0, k)?;
    let run = || DequantGemmInt8::<f16>::new();
    let plain = of(Format::U4, Group::K128, Zeros::None)?;
    let mut view = c.view_mut();
    expect(run().run(&stream, &a.view(), &plain, &mut view), &["`a`", "[2, 272]", "[2, 256]"])?;
    let shifted = a.view().narrow(1, 1, k)?;
    expect(run().run(&stream, &shifted, &plain, &mut view), &["`a`", "16 bytes"])?;
    let small = of(Format::U4, Group::K32, Zeros::Packed)?;
    expect(run().run(&stream, &right, &small, &mut view), &["group", "groups of 32", "128"])?;
    let mut sums = counts.view_mut();
    let whole = DequantGemmInt8::<i32>::new;
    expect(whole().run(&stream, &right, &small, &mut sums), &["group", "groups of 32", "64"])?;
    let shifted = of(Format::I4, Group::K128, Zeros::Packed)?;
    expect(run().run(&stream, &right, &shifted, &mut view), &["zeros", "i4", "packed", "none"])?;
    let one = of(Format::U1, Group::K128, Zeros::None)?;
    expect(run().run(&stream, &right, &one, &mut view), &["format", "u1", "u4"])?;
    let fractions = {
        let zeros = ZeroPoints::Original(Halves::round(HalfType::F16, vec![7.5; 2 * n]));
        let scales = Halves::round(HalfType::F16, vec![1.0; 2 * n]);
        let w = QuantizedWeights::new("w", Format::U4, Group::K128, [n, k], vec![3; n * k], scales, zeros)?;
        upload(device, &w)?
    };
    expect(run().run(&stream, &right, &fractions, &mut view), &["zeros", "integers", "15"])?;
    let b16 = weights([n, k], Format::U4, Group::K128, Zeros::None, HalfType::F16).pack(Order::B16)?;
    let b16 = DeviceWeights::upload(device, &b16)?;
    expect(run().run(&stream, &right, &b16, &mut view), &["order", "b16", "b8"])?;
    let wide = upload(device, &weights([n, k], Format::U4, Group::K128, Zeros::None, HalfType::BF16))?;
    expect(run().run(&stream, &right, &wide, &mut view), &["scales", "bf16", "f16"])?;
    let tokens = Tensor::filled(device, 1.0f32, &[m + 1])?;
    let tokens = tokens.view();
    expect(run().tokens(&tokens).run(&stream, &right, &plain, &mut view), &["`tokens`", "[3]", "[2]"])?;
    expect(run().kernel("none such").run(&stream, &right, &plain, &mut view), &["kernel", "none such"])?;
    let odd = upload(device, &weights([n, 40], Format::U4, Group::Row, Zeros::None, HalfType::F16))?;
    let narrow = a.view().narrow(1, 0, 40)?;
    expect(run().run(&stream, &narrow, &odd, &mut view), &["`a`", "multiple of 16 columns"])?;
    assert!(c.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    assert!(counts.to_vec_on(&stream)?.iter().all(|&x| x == -1));
    Ok(())
}
