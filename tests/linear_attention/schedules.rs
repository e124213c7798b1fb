//! Orders of warps: the emulator's own is one of many.

use tilewright::ops::LinearAttention;
use tilewright::{Device, Error, Graph, Stream, Tensor, bf16, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::Case;

/// In random orders nothing races, and results are right.
pub fn random(device: &Device) -> Outcome {
    if !device.is_emulator() {
        return Ok(());
    }
    for seed in 1..3 {
        let device = Device::emulator_with_seed(seed);
        Case::new(200, [64, 64]).gates(-0.1).check_all::<f16>(&device)?;
        Case::new(200, [64, 64]).channels(-0.1).check_all::<bf16>(&device)?;
        Case::new(200, [64, 64]).delta(1.0).gates(-0.1).check_all::<f16>(&device)?;
        let case = Case::new(200, [64, 64]).segments(2);
        case.clone().gates(-0.1).check::<f16>(&device)?;
        case.clone().channels(-0.1).check::<f16>(&device)?;
        case.delta(1.0).gates(-0.1).check_all::<f16>(&device)?;
    }
    Ok(())
}

/// With a workspace calls can be captured, and without one that is needed the error says so.
pub fn captured(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let x = Tensor::from_slice(device, &normal::<f16>(1, 200 * 64), &[1, 200, 1, 64])?;
    let x = x.view();
    let mut o = Tensor::filled(device, f16::NAN, &[1, 200, 1, 64])?;
    let len = LinearAttention::new().segments(2).workspace_len(&x, &x, &x, &o.view_mut())?;
    let mut workspace = Tensor::<f32>::uninit(device, &[len])?;
    {
        let mut workspace = workspace.view_mut();
        let mut operator = LinearAttention::new().segments(2).workspace(&mut workspace);
        operator.run(&stream, &x, &x, &x, &mut o.view_mut())?;
        let right = o.to_vec_on(&stream)?;
        o.write(&vec![f16::NAN; 200 * 64])?;
        let graph: Graph = stream.capture(|stream| operator.run(stream, &x, &x, &x, &mut o.view_mut()))?;
        assert_eq!(graph.nodes(), 3);
        // SAFETY: the tensors are alive.
        unsafe { graph.launch(&stream)? };
        assert_eq!(o.to_vec_on(&stream)?, right);
    }
    let mut own = LinearAttention::new().segments(2);
    match stream.capture(|stream| own.run(stream, &x, &x, &x, &mut o.view_mut())) {
        Err(Error::Argument { argument, .. }) if argument == "workspace" => Ok(()),
        other => Err(format!("not an error about the workspace: {other:?}").into()),
    }
}
