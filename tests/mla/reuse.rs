//! One operator for several devices, and what a graph may not keep of it.

use tilewright::ops::Mla;
use tilewright::{Device, Error, Stream, Tensor, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

/// From device to device and back: each has a plan and memory for parts of its own.
pub fn on_two_devices(device: &Device) -> Outcome {
    let other = Device::emulator_with_seed(5);
    let mut mla = Mla::new().splits(3);
    let mut results = Vec::new();
    for device in [device, &other, device, &other] {
        let cache = Tensor::from_slice(device, &normal::<f16>(1, 200 * 320), &[1, 200, 1, 320])?;
        let q = Tensor::from_slice(device, &normal::<f16>(2, 4 * 320), &[1, 1, 4, 320])?;
        let mut o = Tensor::filled(device, f16::NAN, &[1, 1, 4, 256])?;
        mla.run(&Stream::new(device)?, &q.view(), &cache.view(), &mut o.view_mut())?;
        results.push(o.to_vec()?);
    }
    let [here, there, here_again, there_again] = &results[..] else { return Err("four runs".into()) };
    assert_eq!((here, there), (here_again, there_again));
    assert!(here.iter().zip(there).all(|(x, y)| (x.to_f32() - y.to_f32()).abs() < 2e-3));
    Ok(())
}

/// Neither the making of a plan nor the memory that an operator makes for itself is captured.
pub fn plans_and_memory_in_a_capture(device: &Device) -> Outcome {
    let cache = Tensor::from_slice(device, &normal::<f16>(1, 200 * 320), &[1, 200, 1, 320])?;
    let q = Tensor::from_slice(device, &normal::<f16>(2, 4 * 320), &[1, 1, 4, 320])?;
    let mut o = Tensor::filled(device, f16::NAN, &[1, 1, 4, 256])?;
    let stream = Stream::new(device)?;
    let mut mla = Mla::new().splits(3);
    for name in ["self", "workspace"] {
        match stream.capture(|stream| mla.run(stream, &q.view(), &cache.view(), &mut o.view_mut())) {
            Err(Error::Argument { argument, .. }) if argument == name => {}
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
        mla.run(&stream, &q.view(), &cache.view(), &mut o.view_mut())?;
    }
    assert!(o.to_vec_on(&stream)?.iter().all(|x| !x.is_nan()));
    Ok(())
}
