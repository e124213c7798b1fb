//! Calls that are refused.

use tilewright::ops::{DequantGemm, DeviceWeights};
use tilewright::quant::{Format, Group, Halves, Order, QuantizedWeights, ZeroPoints, Zeros};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::suite::Outcome;

use crate::case::{kernels, weights};

/// Each error names the argument or the weights, and C stays as it was.
pub fn name_it(device: &Device) -> Outcome {
    let (n, k) = (64, 96);
    let upload = |format, zeros| -> tilewright::Result<DeviceWeights> {
        let w = weights::<f16>([n, k], (format, Group::K32, zeros))?;
        DeviceWeights::upload(device, &w.pack(Order::B16)?)
    };
    let (plain, shifted) = (upload(Format::U4, Zeros::None)?, upload(Format::NF4, Zeros::Original)?);
    let wide = {
        let w = weights::<bf16>([n, k], (Format::U4, Group::K32, Zeros::None))?;
        DeviceWeights::upload(device, &w.pack(Order::B16)?)?
    };
    let stream = Stream::new(device)?;
    let a = Tensor::filled(device, f16::ONE, &[2, k])?;
    let short = Tensor::filled(device, f16::ONE, &[2, k - 1])?;
    let mut c = Tensor::filled(device, f16::NAN, &[2, n])?;
    let mut narrow = Tensor::filled(device, f16::NAN, &[2, n - 1])?;
    let expect = |result: tilewright::Result<()>, words: &[&str]| match result {
        Err(error) if words.iter().all(|word| error.to_string().contains(word)) => Ok(()),
        other => Err(format!("not an error about {words:?}: {other:?}")),
    };
    let run = || DequantGemm::<f16>::new();
    expect(run().run(&stream, &short.view(), &plain, &mut c.view_mut()), &["`a`", "[2, 95]", "[2, 96]"])?;
    expect(run().run(&stream, &a.view(), &plain, &mut narrow.view_mut()), &["`c`", "[2, 63]", "[2, 64]"])?;
    expect(
        run().run(&stream, &a.view(), &shifted, &mut c.view_mut()),
        &["nf4", "`w`", "groups of 32", "none"],
    )?;
    expect(run().run(&stream, &a.view(), &wide, &mut c.view_mut()), &["u4", "`w`", "bf16", "f16"])?;
    expect(
        run().kernel("none such").run(&stream, &a.view(), &plain, &mut c.view_mut()),
        &["kernel", "none such"],
    )?;
    let b8 = weights::<f16>([n, k], (Format::U4, Group::K32, Zeros::None))?.pack(Order::B8)?;
    let b8 = DeviceWeights::upload(device, &b8)?;
    expect(run().run(&stream, &a.view(), &b8, &mut c.view_mut()), &["order", "b8", "b16"])?;
    for (format, code) in [(Format::E4M3, 0xff), (Format::E5M2, 0x7c)] {
        let mut codes = vec![0; n * k];
        codes[n * k - 1] = code;
        let scales = Halves::F16(vec![f16::ONE; n]);
        let w = QuantizedWeights::new("w", format, Group::Row, [n, k], codes, scales, ZeroPoints::None)?;
        let upload = DeviceWeights::upload(device, &w.pack(Order::B16)?);
        expect(upload.map(|_| ()), &["codes", &format!("{code:#04x}"), "NaN"])?;
    }
    assert!(c.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    Ok(())
}

/// Kernels that scale sums of 128 take no groups of 64, and say so.
pub fn small_groups(device: &Device) -> Outcome {
    let (m, n, k) = (2, 64, 128);
    let of = |group| weights::<f16>([n, k], (Format::U4, group, Zeros::None));
    let small = DeviceWeights::upload(device, &of(Group::K64)?.pack(Order::B16)?)?;
    let (stream, a) = (Stream::new(device)?, Tensor::filled(device, f16::ONE, &[m, k])?);
    let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
    let mut names = kernels::<f16>(device, m, &of(Group::K128)?)?;
    names.retain(|name| name.contains("sums"));
    if names.is_empty() {
        return Err("no kernel scales sums".into());
    }
    for name in names {
        let result = DequantGemm::new().kernel(name).run(&stream, &a.view(), &small, &mut c.view_mut());
        match result {
            Err(error) if error.to_string().contains("groups of less than a row in multiples of 128") => {}
            other => return Err(format!("{name}: not an error about groups: {other:?}").into()),
        }
    }
    assert!(c.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    Ok(())
}
