//! Gradients of images and of filters.

use std::collections::BTreeSet;

use tilewright::ops::ConvGradient;
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::convolution::Case;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::Runs;
use crate::sizes::{geometries_of, groups_of, volumes_of};

/// Smaller ones of other numbers of channels.
fn ragged() -> [Case; 2] {
    let base = Case { images: 2, pixels: [5, 4], filter: [3, 3], ..Case::default() }.padded([1, 1]);
    [Case { channels: 3, outputs: 10, ..base }, Case { channels: 17, outputs: 5, stride: [2, 1], ..base }]
}

pub fn images(device: &Device) -> Outcome {
    let mut seen = BTreeSet::new();
    for case in geometries_of().into_iter().chain(ragged()) {
        case.images::<f16>(device, &mut seen)?;
    }
    for case in groups_of() {
        case.images::<bf16>(device, &mut seen)?;
        if case.groups == case.channels && case.groups == case.outputs && case.stride == [1, 1] {
            case.images::<f32>(device, &mut seen)?;
        }
    }
    Ok(())
}

pub fn filters(device: &Device) -> Outcome {
    let mut seen = BTreeSet::new();
    for case in geometries_of().into_iter().chain(ragged()) {
        case.filters::<bf16>(device, &mut seen)?;
    }
    groups_of().iter().try_for_each(|case| case.filters::<f16>(device, &mut seen))
}

pub fn volumes(device: &Device) -> Outcome {
    let mut seen = BTreeSet::new();
    for case in volumes_of() {
        case.images::<bf16>(device, &mut seen)?;
        case.filters::<f16>(device, &mut seen)?;
    }
    Ok(())
}

/// Of more pixels than one CTA takes the steps of: parts are added in one order.
pub fn repeat(device: &Device) -> Outcome {
    let case =
        Case { images: 4, pixels: [12, 11], channels: 16, outputs: 16, filter: [3, 3], ..Case::default() };
    let [x, _, dy] = case.numbers::<f16>();
    let (x, dy) = (Tensor::from_slice(device, &x, &case.x())?, Tensor::from_slice(device, &dy, &case.y())?);
    let (stream, mut gradient) = (Stream::new(device)?, case.gradient());
    let mut run = || -> tilewright::Result<Vec<f16>> {
        let mut dw = Tensor::<f16>::zeros(device, &case.w())?;
        gradient.filters(&stream, &x.view(), &dy.view(), &mut dw.view_mut())?;
        dw.to_vec_on(&stream)
    };
    let first = run()?;
    assert_eq!(first, run()?);
    assert_eq!(first, run()?);
    Ok(())
}

/// No outputs reach these pixels, and no images have these filters.
pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let w = Tensor::filled(device, f16::ONE, &[8, 1, 1, 8])?;
    let dy = Tensor::filled(device, f16::ONE, &[1, 2, 2, 8])?;
    let mut dx = Tensor::filled(device, f16::NAN, &[1, 5, 5, 8])?;
    let mut gradient = ConvGradient::new().stride([3, 3]);
    gradient.images(&stream, &dy.view(), &w.view(), &mut dx.view_mut())?;
    for (i, x) in dx.to_vec_on(&stream)?.into_iter().enumerate() {
        let reached = (i / 8 % 5) % 3 == 0 && i / 40 % 3 == 0;
        assert_eq!(x.to_f32(), if reached { 8.0 } else { 0.0 }, "pixel {:?}", [i / 40, i / 8 % 5]);
    }
    let x = Tensor::<f16>::zeros(device, &[0, 5, 5, 8])?;
    let dy = Tensor::<f16>::zeros(device, &[0, 2, 2, 8])?;
    let mut dw = Tensor::filled(device, f16::NAN, &[8, 1, 1, 8])?;
    gradient.filters(&stream, &x.view(), &dy.view(), &mut dw.view_mut())?;
    assert!(dw.to_vec_on(&stream)?.iter().all(|&x| x == f16::ZERO));
    gradient.images(&stream, &dy.view(), &w.view(), &mut Tensor::zeros(device, &[0, 5, 5, 8])?.view_mut())?;
    Ok(())
}

/// The gradient of filters takes the workspace that it is given.
pub fn replay(device: &Device) -> Outcome {
    let case =
        Case { images: 2, pixels: [8, 8], channels: 16, outputs: 24, filter: [3, 3], ..Case::default() };
    let case = Case { stride: [2, 2], ..case }.padded([1, 1]);
    let [x, w, dy] = case.numbers::<f16>();
    let mut x = Tensor::from_slice(device, &x, &case.x())?;
    let (w, dy) = (Tensor::from_slice(device, &w, &case.w())?, Tensor::from_slice(device, &dy, &case.y())?);
    let mut out = (
        Tensor::<f16>::zeros(device, &case.y())?,
        Tensor::<f16>::zeros(device, &case.x())?,
        Tensor::<f16>::zeros(device, &case.w())?,
    );
    let len = case.gradient().workspace_len(&x.view(), &dy.view(), &out.2.view_mut())?;
    let mut workspace = Tensor::filled(device, f32::NAN, &[len.max(1)])?;
    let stream = Stream::new(device)?;
    let run = |stream: &Stream,
               x: &Tensor<f16>,
               out: &mut (Tensor<f16>, Tensor<f16>, Tensor<f16>),
               workspace: &mut Tensor<f32>| {
        let mut room = workspace.view_mut();
        let mut gradient = case.gradient().workspace(&mut room);
        case.conv().run(stream, &x.view(), &w.view(), &mut out.0.view_mut())?;
        gradient.images(stream, &dy.view(), &w.view(), &mut out.1.view_mut())?;
        gradient.filters(stream, &x.view(), &dy.view(), &mut out.2.view_mut())
    };
    let graph = stream.capture(|stream| run(stream, &x, &mut out, &mut workspace))?;
    x.write(&normal::<f16>(9, x.len()))?;
    // SAFETY: the tensors and the workspace outlive it, and nothing else uses them.
    unsafe { graph.launch(&stream)? };
    let replayed = (out.0.to_vec_on(&stream)?, out.1.to_vec_on(&stream)?, out.2.to_vec_on(&stream)?);
    run(&stream, &x, &mut out, &mut workspace)?;
    assert_eq!(replayed, (out.0.to_vec_on(&stream)?, out.1.to_vec_on(&stream)?, out.2.to_vec_on(&stream)?));
    Ok(())
}
