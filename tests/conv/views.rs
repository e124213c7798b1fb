//! Tensors that lie anywhere, and numbers that stay where they are.

use tilewright::ops::Conv;
use tilewright::{Device, Stream, Tensor, f16};
use tilewright_support::convolution::{Case, Exact, Of};
use tilewright_support::suite::Outcome;

use crate::case::{Runs, wide};

/// Channels in front of pixels, parts of wider channels, parts of larger images.
pub fn everywhere(device: &Device) -> Outcome {
    let case =
        Case { images: 2, pixels: [6, 5], channels: 16, outputs: 8, filter: [3, 3], ..Case::default() };
    let case = case.padded([1, 1]);
    let [x, w, y] = case.numbers::<f16>();
    let exact = Exact::new(&case, Of::Outputs, [&wide(&x), &wide(&w), &wide(&y)]);
    let stream = Stream::new(device)?;
    let ([n, h, width, c], [k, r, s, _]) = (case.x(), case.w());
    // x by planes, in the middle of wider channels and in the middle of larger images; w by taps: [rows, columns, channels, outputs].
    let planes = scattered(&x, case.x(), n * c * h * width, |[i, y, x, j]| ((i * c + j) * h + y) * width + x);
    let wider = scattered(&x, case.x(), n * h * width * (c + 24), |[i, y, x, j]| {
        ((i * h + y) * width + x) * (c + 24) + 8 + j
    });
    let larger = scattered(&x, case.x(), n * (h + 3) * (width + 2) * c, |[i, y, x, j]| {
        ((i * (h + 3) + y + 1) * (width + 2) + x + 2) * c + j
    });
    let taps = scattered(&w, case.w(), w.len(), |[o, row, column, j]| ((row * s + column) * c + j) * k + o);
    let planes = Tensor::from_slice(device, &planes, &[n, c, h, width])?;
    let wider = Tensor::from_slice(device, &wider, &[n, h, width, c + 24])?;
    let larger = Tensor::from_slice(device, &larger, &[n, h + 3, width + 2, c])?;
    let filters = Tensor::from_slice(device, &w, &case.w())?;
    let taps = Tensor::from_slice(device, &taps, &[r, s, c, k])?;
    let images = [
        planes.view().transpose(1, 2)?.transpose(2, 3)?,
        wider.view().narrow(3, 8, c)?,
        larger.view().narrow(1, 1, h)?.narrow(2, 2, width)?,
    ];
    let weights = [filters.view(), taps.view().transpose(0, 3)?.transpose(1, 3)?.transpose(2, 3)?];
    for x in &images {
        for w in &weights {
            let mut y = Tensor::filled(device, f16::NAN, &case.y())?;
            let all = case.conv::<f16>().candidates(x, w, &y.view_mut())?;
            for kernel in all.iter().filter(|kernel| kernel.rejection().is_none()) {
                y.fill(&stream, f16::NAN)?;
                case.conv().kernel(kernel.name()).run(&stream, x, w, &mut y.view_mut())?;
                let error = exact.check(&y.to_vec_on(&stream)?, |_, sum| (sum, 0.0));
                error.map_err(|error| format!("{}: {error}", kernel.name()))?;
            }
        }
    }
    // y by planes: its pixels follow each other, and its images do not follow them.
    let [_, p, q, _] = case.y();
    let mut planes = Tensor::filled(device, f16::NAN, &[n, k, p, q])?;
    case.conv().run(
        &stream,
        &images[1],
        &weights[0],
        &mut planes.view_mut().transpose(1, 2)?.transpose(2, 3)?,
    )?;
    let (planes, shape) = (planes.to_vec_on(&stream)?, case.y());
    let y: Vec<_> = places(shape).map(|[i, y, x, o]| planes[((i * k + o) * p + y) * q + x]).collect();
    Ok(exact.check(&y, |_, sum| (sum, 0.0))?)
}

/// All places in a tensor, in row-major order.
fn places([a, b, c, d]: [usize; 4]) -> impl Iterator<Item = [usize; 4]> {
    (0..a * b * c * d).map(move |i| [i / d / c / b, i / d / c % b, i / d % c, i % d])
}

/// Numbers of this shape where `to` says, with NaN between them.
fn scattered(numbers: &[f16], shape: [usize; 4], len: usize, to: impl Fn([usize; 4]) -> usize) -> Vec<f16> {
    let mut out = vec![f16::NAN; len];
    places(shape).zip(numbers).for_each(|(at, &x)| out[to(at)] = x);
    out
}

/// What a tile copies beyond its images, groups and channels does not count, whatever it is.
pub fn not_numbers(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for (channels, groups, stride) in [(16, 2, 1), (128, 2, 1), (24, 1, 1), (5, 1, 1), (3, 1, 2)] {
        let case = Case {
            images: 2,
            pixels: [4, 4],
            channels,
            groups,
            outputs: 16,
            filter: [3, 3],
            stride: [stride; 2],
            ..Case::default()
        };
        let case = case.padded([1, 1]);
        let mut x = vec![f16::ONE; case.x().iter().product()];
        // The last channel of the second image's first pixel.
        x[16 * channels + channels - 1] = f16::NAN;
        let x = Tensor::from_slice(device, &x, &case.x())?;
        let w = Tensor::filled(device, f16::ONE, &case.w())?;
        let mut y = Tensor::<f16>::zeros(device, &case.y())?;
        let all = case.conv::<f16>().candidates(&x.view(), &w.view(), &y.view_mut())?;
        for kernel in all.iter().filter(|kernel| kernel.rejection().is_none()) {
            y.fill(&stream, f16::ZERO)?;
            let conv: Conv<'_, f16> = case.conv().kernel(kernel.name());
            conv.run(&stream, &x.view(), &w.view(), &mut y.view_mut())?;
            for (i, y) in y.to_vec_on(&stream)?.into_iter().enumerate() {
                let out = case.out()[0];
                let (output, column, row, image) =
                    (i % 16, i / 16 % out, i / 16 / out % out, i / 16 / out / out);
                let near = row * stride < 2 && column * stride < 2;
                let reached = image == 1 && near && output / (16 / groups) == groups - 1;
                assert_eq!(
                    y.is_nan(),
                    reached,
                    "{}: {y} at {:?}",
                    kernel.name(),
                    [image, row, column, output]
                );
            }
        }
    }
    Ok(())
}
