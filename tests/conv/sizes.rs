//! Sizes that do not fit tiles.

use std::collections::BTreeSet;

use tilewright::ops::{Conv, conv};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::Real;
use tilewright_support::convolution::{Case, Depth, Exact, Of};
use tilewright_support::suite::Outcome;

use crate::case::{Runs, wide};

/// Of filters that are larger than images, rectangular, strided and dilated, with unequal paddings.
pub fn geometries_of() -> Vec<Case> {
    let base = Case { images: 2, channels: 64, outputs: 24, ..Case::default() };
    vec![
        Case { pixels: [6, 7], filter: [3, 3], ..base }.padded([1, 1]),
        Case { pixels: [1, 1], filter: [3, 3], ..base }.padded([1, 1]),
        Case { pixels: [3, 2], filter: [5, 6], stride: [3, 2], ..base }.padded([3, 4]),
        Case { pixels: [9, 8], filter: [3, 2], stride: [2, 1], before: [1, 0], after: [0, 2], ..base },
        Case { pixels: [8, 11], filter: [3, 3], dilation: [2, 3], stride: [1, 3], ..base }.padded([2, 3]),
        Case { pixels: [7, 7], filter: [2, 2], dilation: [2, 1], stride: [2, 2], ..base },
        // Steps beyond what TMA takes.
        Case { pixels: [19, 3], filter: [1, 3], stride: [9, 1], ..base },
    ]
}

pub fn geometries(device: &Device) -> Outcome {
    let mut seen = BTreeSet::new();
    geometries_of().iter().try_for_each(|case| case.outputs::<f16>(device, &mut seen))
}

/// Tiles that are whole, partial, and of less than a piece.
pub fn channels(device: &Device) -> Outcome {
    let mut seen = BTreeSet::new();
    let base = Case { images: 3, pixels: [5, 4], filter: [3, 3], ..Case::default() }.padded([1, 1]);
    for (channels, outputs) in [(3, 64), (5, 1), (8, 10), (17, 8), (64, 130), (72, 7), (136, 8)] {
        Case { channels, outputs, ..base }.outputs::<bf16>(device, &mut seen)?;
    }
    // A first layer, whose rows of filters are read as one tap.
    let first = Case { pixels: [15, 14], channels: 3, outputs: 40, filter: [7, 7], stride: [2, 2], ..base };
    first.padded([3, 3]).outputs::<f16>(device, &mut seen)
}

/// Of the cases with groups, the last are depthwise.
pub fn groups_of() -> Vec<Case> {
    let base = Case { images: 2, pixels: [5, 6], filter: [3, 3], ..Case::default() }.padded([1, 1]);
    vec![
        Case { channels: 16, outputs: 20, groups: 2, ..base },
        Case { channels: 128, outputs: 48, groups: 2, ..base },
        Case { channels: 12, outputs: 8, groups: 4, stride: [2, 1], ..base },
        Case { channels: 6, outputs: 12, groups: 6, ..base },
        Case { channels: 72, outputs: 72, groups: 72, stride: [1, 2], dilation: [2, 1], ..base },
        Case { channels: 5, outputs: 5, groups: 5, filter: [1, 4], ..base },
    ]
}

pub fn groups(device: &Device) -> Outcome {
    let mut seen = BTreeSet::new();
    for case in groups_of() {
        case.outputs::<f16>(device, &mut seen)?;
        if case.groups == case.channels && case.groups == case.outputs {
            case.outputs::<f32>(device, &mut seen)?;
        }
    }
    Ok(())
}

/// Of a filter for each channel: rows that strips do not divide, more taps than shared memory holds, blocks of channels, images smaller than a filter.
fn depthwise_of() -> Vec<Case> {
    let of = |channels| Case { channels, outputs: channels, groups: channels, images: 2, ..Case::default() };
    vec![
        Case { pixels: [6, 11], filter: [3, 5], ..of(24) }.padded([1, 2]),
        Case { pixels: [7, 10], filter: [5, 3], stride: [2, 2], ..of(24) }.padded([2, 1]),
        Case { pixels: [5, 13], filter: [2, 3], dilation: [1, 3], before: [1, 2], ..of(40) },
        Case { pixels: [4, 3], filter: [7, 7], ..of(16) }.padded([3, 3]),
        Case { pixels: [3, 70], filter: [1, 6], after: [0, 5], ..of(8) },
        Case { pixels: [5, 6], filter: [9, 9], ..of(16) }.padded([4, 4]),
        Case { pixels: [3, 5], filter: [3, 3], ..of(200) }.padded([1, 1]),
        Case {
            pixels: [2, 4],
            filter: [2, 2],
            depth: Some(Depth { filter: 3, before: 1, ..Depth::of(4) }),
            ..of(12)
        },
    ]
}

pub fn depthwise(device: &Device) -> Outcome {
    let mut seen = BTreeSet::new();
    for case in depthwise_of() {
        case.outputs::<f16>(device, &mut seen)?;
        case.images::<bf16>(device, &mut seen)?;
    }
    Case { stride: [1, 2], ..depthwise_of()[0] }.outputs::<f32>(device, &mut seen)
}

/// Of filters of several slices, strided and dilated along the depth, deeper than volumes, of one slice; the last are depthwise.
pub fn volumes_of() -> Vec<Case> {
    let base = Case { images: 2, pixels: [5, 4], filter: [3, 2], ..Case::default() };
    let same = Depth { filter: 3, before: 1, after: 1, ..Depth::of(4) };
    let around = Case { channels: 64, outputs: 24, depth: Some(same), ..base }.padded([1, 1]);
    let with = |depth| Case { depth: Some(depth), ..around };
    vec![
        around,
        with(Depth { stride: 2, ..Depth { planes: 5, ..same } }),
        // Planes of several volumes that a stride takes out follow each other evenly.
        Case { stride: [2, 1], ..with(Depth { stride: 2, ..same }) },
        with(Depth { filter: 2, dilation: 3, before: 0, after: 2, ..same }),
        with(Depth { planes: 1, ..same }),
        with(Depth { filter: 4, stride: 3, before: 2, after: 3, dilation: 2, ..same }),
        // As images; in parts of them; beyond what TMA takes.
        with(Depth::of(3)),
        with(Depth { stride: 2, ..Depth::of(3) }),
        with(Depth { before: 20, after: 0, filter: 1, stride: 9, ..same }),
        Case { filter: [1, 1], channels: 24, ..with(Depth::of(3)) }.padded([0, 0]),
        Case { channels: 12, outputs: 8, groups: 2, stride: [1, 2], ..with(Depth { filter: 2, ..same }) },
        Case { channels: 128, groups: 2, ..around },
        Case { channels: 3, outputs: 10, filter: [3, 3], ..around },
        Case { channels: 40, outputs: 40, groups: 40, ..around },
        Case { channels: 9, outputs: 9, groups: 9, ..with(Depth { stride: 2, ..same }) },
    ]
}

pub fn volumes(device: &Device) -> Outcome {
    let mut seen = BTreeSet::new();
    for case in volumes_of() {
        case.outputs::<f16>(device, &mut seen)?;
        if case.groups == case.channels && case.groups == case.outputs {
            case.outputs::<f32>(device, &mut seen)?;
        }
    }
    Ok(())
}

/// Tensors of three dimensions.
pub fn sequences(device: &Device) -> Outcome {
    let case =
        Case { images: 2, pixels: [1, 21], channels: 16, outputs: 8, filter: [1, 4], ..Case::default() };
    for case in [
        Case { before: [0, 3], ..case },
        Case { groups: 16, outputs: 16, before: [0, 3], ..case },
        Case { stride: [1, 3], dilation: [1, 2], ..case },
    ] {
        let [x, w, y] = case.numbers::<f16>();
        let exact = Exact::new(&case, Of::Outputs, [&wide(&x), &wide(&w), &wide(&y)]);
        let flat = |shape: [usize; 4], height: usize| -> Vec<usize> {
            shape.into_iter().enumerate().filter(|(i, _)| *i != height).map(|(_, n)| n).collect()
        };
        let x = Tensor::from_slice(device, &x, &flat(case.x(), 1))?;
        let w = Tensor::from_slice(device, &w, &flat(case.w(), 1))?;
        let mut y = Tensor::filled(device, f16::NAN, &flat(case.y(), 1))?;
        case.conv().run(&Stream::new(device)?, &x.view(), &w.view(), &mut y.view_mut())?;
        exact.check(&y.to_vec()?, |_, sum| (sum, 0.0))?;
    }
    Ok(())
}

/// Sums that f16 holds exactly are exact on every kernel.
pub fn integers(device: &Device) -> Outcome {
    let case =
        Case { images: 2, pixels: [6, 5], channels: 24, outputs: 16, filter: [3, 3], ..Case::default() };
    for case in [case.padded([1, 1]), Case { stride: [2, 2], ..case }] {
        let number = |i: usize| (i * 7 % 5) as f32 - 2.0;
        let numbers = |len| f16::round(&(0..len).map(number).collect::<Vec<_>>());
        let (x, w) = (numbers(case.x().iter().product()), numbers(case.w().iter().product()));
        let exact = Exact::new(&case, Of::Outputs, [&wide(&x), &wide(&w), &[]]);
        let (x, w) = (Tensor::from_slice(device, &x, &case.x())?, Tensor::from_slice(device, &w, &case.w())?);
        let mut y = Tensor::<f16>::zeros(device, &case.y())?;
        let all = case.conv::<f16>().candidates(&x.view(), &w.view(), &y.view_mut())?;
        for kernel in all.iter().filter(|kernel| kernel.rejection().is_none()) {
            let conv = case.conv().kernel(kernel.name());
            conv.run(&Stream::new(device)?, &x.view(), &w.view(), &mut y.view_mut())?;
            assert_eq!(wide(&y.to_vec()?), exact.sums, "{}", kernel.name());
        }
    }
    Ok(())
}

/// Outputs without elements launch nothing; those without channels are zeros.
pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for (images, outputs) in [(0, 8), (2, 0)] {
        let x = Tensor::<f16>::zeros(device, &[images, 4, 4, 8])?;
        let w = Tensor::<f16>::zeros(device, &[outputs, 3, 3, 8])?;
        let mut y = Tensor::<f16>::zeros(device, &[images, 2, 2, outputs])?;
        let call = |stream: &Stream| conv(stream, &x.view(), &w.view(), &mut y.view_mut());
        assert_eq!(stream.capture(call)?.nodes(), 0);
    }
    let x = Tensor::<f16>::zeros(device, &[2, 4, 4, 0])?;
    let w = Tensor::<f16>::zeros(device, &[8, 3, 3, 0])?;
    let bias = Tensor::filled(device, f16::ONE, &[8])?;
    let mut y = Tensor::filled(device, f16::NAN, &[2, 2, 2, 8])?;
    let bias = bias.view();
    Conv::new().bias(&bias).run(&stream, &x.view(), &w.view(), &mut y.view_mut())?;
    assert!(y.to_vec_on(&stream)?.iter().all(|&y| y == f16::ONE));
    Ok(())
}
