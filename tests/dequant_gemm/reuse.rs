//! One operator for several devices, and what a graph may not keep of it.

use tilewright::ops::{DequantGemm, DequantGemmInt8, DeviceWeights};
use tilewright::quant::{Format, Group, Order, Zeros};
use tilewright::{Device, Error, Stream, Tensor, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::weights;

/// Of which some tiles are divided by all kernels that take these weights.
const SIZE: [usize; 3] = [5, 320, 1536];

fn upload(device: &Device, order: Order) -> tilewright::Result<DeviceWeights> {
    let [_, n, k] = SIZE;
    let group = if order == Order::B16 { Group::K64 } else { Group::Row };
    let w = weights::<f16>([n, k], (Format::I4, group, Zeros::None))?;
    DeviceWeights::upload(device, &w.pack(order)?)
}

fn halves(device: &Device) -> tilewright::Result<Tensor<f16>> {
    let [m, _, k] = SIZE;
    Tensor::from_slice(device, &normal::<f16>(7, m * k), &[m, k])
}

fn bytes(device: &Device) -> tilewright::Result<Tensor<i8>> {
    let [m, _, k] = SIZE;
    Tensor::from_slice(device, &(0..m * k).map(|i| (i * 7 % 11) as i8 - 5).collect::<Vec<_>>(), &[m, k])
}

/// From device to device and back: results stay what they are, in memory of the device's own.
pub fn on_two_devices(device: &Device) -> Outcome {
    let other = Device::emulator_with_seed(5);
    let [m, n, _] = SIZE;
    let (mut wide, mut narrow) = (DequantGemm::new(), DequantGemmInt8::new());
    let mut results = Vec::new();
    for device in [device, &other, device, &other] {
        let stream = Stream::new(device)?;
        let (w16, w8) = (upload(device, Order::B16)?, upload(device, Order::B8)?);
        let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
        let mut sums = Tensor::filled(device, -1i32, &[m, n])?;
        let (a, b) = (halves(device)?, bytes(device)?);
        let lens = [
            wide.workspace_len(&a.view(), &w16, &c.view_mut())?,
            narrow.workspace_len(&b.view(), &w8, &sums.view_mut())?,
        ];
        assert!(lens.iter().all(|&len| len > 0), "no tile is divided: {lens:?}");
        wide.run(&stream, &a.view(), &w16, &mut c.view_mut())?;
        narrow.run(&stream, &b.view(), &w8, &mut sums.view_mut())?;
        results.push((c.to_vec()?, sums.to_vec()?));
    }
    let [here, there, here_again, there_again] = &results[..] else { return Err("four runs".into()) };
    assert_eq!((here, there), (here_again, there_again));
    assert_eq!(here.1, there.1);
    assert!(here.0.iter().zip(&there.0).all(|(x, y)| (x.to_f32() - y.to_f32()).abs() < 0.2));
    Ok(())
}

/// The memory that operators make for themselves is not captured, before and after it is made.
pub fn own_memory_in_a_capture(device: &Device) -> Outcome {
    let [m, n, _] = SIZE;
    let stream = Stream::new(device)?;
    let (w16, w8) = (upload(device, Order::B16)?, upload(device, Order::B8)?);
    let (a16, a8) = (halves(device)?, bytes(device)?);
    let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
    let mut sums = Tensor::filled(device, -1i32, &[m, n])?;
    let (mut wide, mut narrow) = (DequantGemm::new(), DequantGemmInt8::new());
    let mut both = |stream: &Stream| {
        [
            wide.run(stream, &a16.view(), &w16, &mut c.view_mut()),
            narrow.run(stream, &a8.view(), &w8, &mut sums.view_mut()),
        ]
    };
    for _ in 0..2 {
        let mut refused = Vec::new();
        stream.capture(|stream| {
            refused.extend(both(stream));
            Ok(())
        })?;
        for result in refused {
            match result {
                Err(Error::Argument { argument, .. }) if argument == "workspace" => {}
                other => return Err(format!("not an error about the workspace: {other:?}").into()),
            }
        }
        both(&stream).into_iter().collect::<tilewright::Result<()>>()?;
    }
    stream.synchronize()?;
    Ok(())
}

/// What is read and the workspace lie apart.
pub fn workspace_apart(device: &Device) -> Outcome {
    let [m, n, k] = SIZE;
    let (w, a) = (upload(device, Order::B16)?, halves(device)?);
    let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
    // SAFETY: no call may use it.
    let mut inside =
        unsafe { tilewright::TensorViewMut::from_raw_parts(device, a.address(), &[m * k / 2], &[1])? };
    let mut gemm = DequantGemm::new().workspace(&mut inside);
    match gemm.run(&Stream::new(device)?, &a.view(), &w, &mut c.view_mut()) {
        Err(Error::Overlap { written: "workspace", other: "a" }) => Ok(()),
        other => Err(format!("not an error about the workspace: {other:?}").into()),
    }
}
