//! Errors that come with a real device. The host library's own tests have the others.

use tilewright::ops::{Attention, attention};
use tilewright::{Device, Error, Stream, Tensor, f16};
use tilewright_support::suite::Outcome;

/// Calls that fail leave O alone, and the device goes on working.
pub fn leave_everything_alone(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let ones = |shape: [usize; 4]| Tensor::filled(device, f16::ONE, &shape);
    let (x, short) = (ones([1, 2, 64, 64])?, ones([1, 2, 40, 64])?);
    let mut o = Tensor::filled(device, f16::NAN, &[1, 2, 64, 64])?;
    let refused: [(&str, Attention<'_>); 5] = [
        ("kernel", Attention::new().kernel("none such")),
        ("scale", Attention::new().scale(0.0)),
        ("scale", Attention::new().scale(f32::NAN)),
        ("softcap", Attention::new().softcap(-1.0)),
        ("v", Attention::new()),
    ];
    for (name, mut attention) in refused {
        let v = if name == "v" { short.view() } else { x.view() };
        match attention.run(&stream, &x.view(), &x.view(), &v, &mut o.view_mut()) {
            Err(Error::Argument { argument, .. }) if argument == name => {}
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    }
    assert!(o.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    attention(&stream, &x.view(), &x.view(), &x.view(), &mut o.view_mut())?;
    assert!(o.to_vec_on(&stream)?.iter().all(|x| x.to_f32() == 1.0));
    Ok(())
}
