//! Row-wise operators.

use tilewright::ops::{CrossEntropy, Norm, Softmax};
use tilewright::{Device, f16};

use super::{Shapes, Wrong, check, factor, output};
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(4) {
        0 => softmax(random, device, call),
        1 => norm(random, device, call),
        2 => norm_gradient(random, device, call),
        _ => cross_entropy(random, device, call),
    }
}

fn shape(random: &mut Random) -> Vec<usize> {
    (0..random.within(1..=3)).map(|_| random.size(20)).collect()
}

fn softmax(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let (shape, scale, causal) = (shape(random), factor(random), random.one_in(2));
    call.set(format!("Softmax scale {scale}, causal {causal}:"));
    let mut shapes = Shapes::new(random, 3);
    let x = shapes.next::<f16>(device, &shape, call)?;
    let mask = shapes.next::<f16>(device, &shape, call)?;
    let mut y = output::<f16>(&mut shapes, device, &shape, call)?;
    let (stream, kernel, masked) = (shapes.stream(device)?, shapes.kernel(), shapes.random.one_in(2));
    let elsewhere = shapes.kind == Wrong::Device && (masked || shapes.wrong != 1);
    let surely = elsewhere || !(scale > 0.0 && scale.is_finite()) || stream.device() != device;
    let surely = surely || kernel.is_some() && shape.iter().product::<usize>() > 0;
    let mask = mask.view()?;
    let softmax = Softmax::new().scale(scale);
    let softmax = if causal { softmax.causal() } else { softmax };
    let softmax = if masked { softmax.mask(&mask) } else { softmax };
    let softmax = kernel.into_iter().fold(softmax, Softmax::kernel);
    let result = softmax.run(&stream, &x.view()?, &mut y.view_mut()?);
    check(result, surely, &y, call)
}

fn norm(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let (shape, epsilon) = (shape(random), factor(random));
    let cols = shape.last().copied().unwrap_or(0);
    call.set(format!("Norm epsilon {epsilon}:"));
    let mut shapes = Shapes::new(random, 3);
    let x = shapes.next::<f16>(device, &shape, call)?;
    let weight = shapes.next::<f16>(device, &[cols], call)?;
    let mut y = output::<f16>(&mut shapes, device, &shape, call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let surely = wrong(&shapes, epsilon) || stream.device() != device;
    let surely = surely || kernel.is_some() && shape.iter().product::<usize>() > 0;
    let weight = weight.view()?;
    let norm = Norm::layer().weight(&weight).epsilon(epsilon);
    let norm = kernel.into_iter().fold(norm, Norm::kernel);
    let result = norm.run(&stream, &x.view()?, &mut y.view_mut()?);
    check(result, surely, &y, call)
}

/// Whether a tensor is elsewhere or epsilon is none.
fn wrong(shapes: &Shapes<'_>, epsilon: f32) -> bool {
    shapes.kind == Wrong::Device || !(epsilon >= 0.0 && epsilon.is_finite())
}

fn norm_gradient(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let (shape, epsilon) = (shape(random), factor(random));
    let cols = shape.last().copied().unwrap_or(0);
    call.set(format!("NormGradient epsilon {epsilon}:"));
    let mut shapes = Shapes::new(random, 5);
    let x = shapes.next::<f16>(device, &shape, call)?;
    let dy = shapes.next::<f16>(device, &shape, call)?;
    let weight = shapes.next::<f16>(device, &[cols], call)?;
    let mut dx = output::<f16>(&mut shapes, device, &shape, call)?;
    let mut d_weight = output::<f16>(&mut shapes, device, &[cols], call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let surely = wrong(&shapes, epsilon) || stream.device() != device;
    let surely = surely || kernel.is_some() && shape.iter().product::<usize>() > 0;
    let result = {
        let (weight, mut to) = (weight.view()?, d_weight.view_mut()?);
        let gradient = Norm::rms().weight(&weight).epsilon(epsilon).gradient().d_weight(&mut to);
        let mut gradient = kernel.into_iter().fold(gradient, |gradient, name| gradient.kernel(name));
        gradient.run(&stream, &x.view()?, &dy.view()?, &mut dx.view_mut()?)
    };
    if result.is_err() {
        d_weight.untouched()?;
    }
    check(result, surely, &dx, call)
}

fn cross_entropy(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let (shape, smoothing) = (shape(random), factor(random));
    let lead = &shape[..shape.len() - 1];
    call.set(format!("CrossEntropy smoothing {smoothing}:"));
    let mut shapes = Shapes::new(random, 4);
    let x = shapes.next::<f16>(device, &shape, call)?;
    let labels = shapes.next::<i64>(device, lead, call)?;
    let mut loss = output::<f32>(&mut shapes, device, lead, call)?;
    let mut gradient = output::<f16>(&mut shapes, device, &shape, call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let surely =
        shapes.kind == Wrong::Device || !(0.0..=1.0).contains(&smoothing) || stream.device() != device;
    let surely = surely || kernel.is_some() && shape.iter().product::<usize>() > 0;
    let options = CrossEntropy::new().smoothing(smoothing);
    let options = kernel.into_iter().fold(options, CrossEntropy::kernel);
    let (mut to, mut slope) = (loss.view_mut()?, gradient.view_mut()?);
    let result = options.run_with_gradient(&stream, &x.view()?, &labels.view()?, &mut to, &mut slope);
    if result.is_err() {
        loss.untouched()?;
    }
    check(result, surely, &gradient, call)
}
