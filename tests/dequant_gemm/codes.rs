//! Formats, groups and zeros; codes at the ends of a format; sums that need no rounding.

use tilewright::ops::{DequantGemm, DeviceWeights};
use tilewright::quant::{Format, Group, HalfType, Halves, Order, QuantizedWeights, ZeroPoints, Zeros};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::suite::{Outcome, picked};

use crate::case::{Activations, check, kernels, weights};

/// The modes of zeros that a format has kernels for.
pub fn zeros(format: Format) -> Vec<Zeros> {
    match format {
        Format::NF4 | Format::FP4 | Format::E4M3 | Format::E5M2 => vec![Zeros::None],
        _ => vec![Zeros::None, Zeros::Original, Zeros::Rescaled, Zeros::Packed],
    }
}

/// All schemes, on the chosen kernel for few rows, and on every kernel for groups of 32 and, as some take no smaller ones, of 128.
pub fn of_every_scheme(device: &Device) -> Outcome {
    fn all<T: Activations>(device: &Device) -> Outcome {
        for format in Format::ALL {
            for group in Group::ALL {
                for zeros in zeros(format) {
                    let w = weights::<T>([96, 200], (format, group, zeros))?;
                    check::<T>(device, 3, &w, None)?;
                    if matches!(group, Group::K32 | Group::K128) {
                        let of = format!("{format:?} {group:?} {zeros:?}");
                        for name in kernels::<T>(device, 20, &w)? {
                            if picked(device, (name, &of), 3) {
                                check::<T>(device, 20, &w, Some(name))?;
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }
    all::<f16>(device)?;
    all::<bf16>(device)
}

/// Weights of one code alone: of each code, for formats of up to 4 bits, and of both ends of the others.
pub fn extremes(device: &Device) -> Outcome {
    for format in Format::ALL {
        let codes: Vec<u8> = match format {
            // The largest finite numbers, of both signs.
            Format::E4M3 => vec![0x7e, 0xfe, 0x01, 0x81],
            Format::E5M2 => vec![0x7b, 0xfb, 0x01, 0x81],
            Format::I8 => vec![0x7f, 0x80, 0xff, 0],
            _ => (0..1 << format.bits()).collect(),
        };
        for code in codes {
            let (n, k) = (64, 64);
            let scales = Halves::round(HalfType::F16, vec![0.015_625; n]);
            let codes = vec![code; n * k];
            let w = QuantizedWeights::new("w", format, Group::Row, [n, k], codes, scales, ZeroPoints::None)?;
            check::<f16>(device, 2, &w, None)?;
        }
    }
    Ok(())
}

/// Small integers as activations, powers of two as scales, large ones too: nothing is rounded, and nothing may differ.
pub fn exact(device: &Device) -> Outcome {
    for group in [Group::K64, Group::K128] {
        for packed_zeros in [false, true] {
            exact_in(device, (Format::U4, group), packed_zeros, 0.5)?;
        }
        exact_in(device, (Format::I4, group), false, 0.5)?;
    }
    // The first is decoded as what is plain, as those above are; the others are not: 1024 of them are more than f16 has.
    for scale in [32.0, 64.0, 4096.0] {
        exact_in(device, (Format::U4, Group::K128), false, scale)?;
    }
    Ok(())
}

fn exact_in(device: &Device, (format, group): (Format, Group), packed_zeros: bool, scale: f64) -> Outcome {
    let (m, n, k) = (9, 130, 320);
    let a: Vec<f16> = (0..m * k).map(|i| f16::from_f32((i % 7) as f32 - 3.0)).collect();
    let codes: Vec<u8> = (0..n * k).map(|i| (i * 5 % 16) as u8).collect();
    let groups = group.count(k);
    let scales = (0..n * groups).map(|i| if i % 2 == 0 { scale } else { scale / 2.0 });
    let scales = Halves::round(HalfType::F16, scales);
    let zeros = match packed_zeros {
        true => ZeroPoints::Packed((0..n * groups).map(|i| (i % 16) as i16).collect()),
        false => ZeroPoints::None,
    };
    let alpha = (0.5 / scale) as f32;
    let w = QuantizedWeights::new("w", format, group, [n, k], codes, scales, zeros)?;
    let packed = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
    let at = Tensor::from_slice(device, &a, &[m, k])?;
    let wide = w.dequantize();
    for name in kernels::<f16>(device, m, &w)? {
        let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
        let mut gemm = DequantGemm::new().kernel(name).alpha(alpha);
        gemm.run(&Stream::new(device)?, &at.view(), &packed, &mut c.view_mut())?;
        for (i, got) in c.to_vec()?.into_iter().enumerate() {
            let (row, col) = (i / n, i % n);
            let terms = (0..k).map(|x| a[row * k + x].to_f64() * wide[col * k + x]);
            let want = f16::from_f64(terms.sum::<f64>() * f64::from(alpha));
            if got != want {
                return Err(format!("{name}: ({row}, {col}) is {got}, not {want}").into());
            }
        }
    }
    Ok(())
}
