//! One operator for several devices, and what a graph may not keep of it.

use tilewright::ops::Attention;
use tilewright::{Device, Error, Stream, Tensor, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

/// From device to device and back: results stay what they are, in memory of the device's own.
pub fn on_two_devices(device: &Device) -> Outcome {
    let other = Device::emulator_with_seed(5);
    let mut attention = Attention::new().splits(3);
    let mut results = Vec::new();
    for device in [device, &other, device, &other] {
        let x = Tensor::from_slice(device, &normal::<f16>(1, 2 * 300 * 64), &[1, 2, 300, 64])?;
        let (x, q) = (x.view(), x.view().narrow(2, 7, 1)?);
        let mut o = Tensor::filled(device, f16::NAN, &[1, 2, 1, 64])?;
        attention.run(&Stream::new(device)?, &q, &x, &x, &mut o.view_mut())?;
        results.push(o.to_vec()?);
    }
    let [here, there, here_again, there_again] = &results[..] else { return Err("four runs".into()) };
    assert_eq!((here, there), (here_again, there_again));
    assert!(here.iter().zip(there).all(|(x, y)| (x.to_f32() - y.to_f32()).abs() < 2e-3));
    Ok(())
}

/// The memory that an operator makes for itself is not captured, before and after it is made.
pub fn own_memory_in_a_capture(device: &Device) -> Outcome {
    let x = Tensor::from_slice(device, &normal::<f16>(1, 300 * 64), &[1, 1, 300, 64])?;
    let (x, q) = (x.view(), x.view().narrow(2, 7, 1)?);
    let mut o = Tensor::filled(device, f16::NAN, &[1, 1, 1, 64])?;
    let stream = Stream::new(device)?;
    let mut attention = Attention::new().splits(3);
    for _ in 0..2 {
        match stream.capture(|stream| attention.run(stream, &q, &x, &x, &mut o.view_mut())) {
            Err(Error::Argument { argument, .. }) if argument == "workspace" => {}
            other => return Err(format!("not an error about the workspace: {other:?}").into()),
        }
        attention.run(&stream, &q, &x, &x, &mut o.view_mut())?;
    }
    assert!(o.to_vec_on(&stream)?.iter().all(|x| !x.is_nan()));
    Ok(())
}
