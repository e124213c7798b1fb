//! Convolutions of sequences, images and volumes, and both of their gradients.

use std::ops::Range;

use tilewright::ops::{Activation, Conv, ConvGradient, FloatElement};
use tilewright::{DType, Device, Stream, bf16, f16};
use tilewright_support::Real;
use tilewright_support::activation::exact as activated;
use tilewright_support::convolution::{Case, Depth, Exact, Of};
use tilewright_support::random::normal;

use crate::floats::{forced, possible};
use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::{Call, Outcome};

/// Products of a case, which the reference counts one by one.
const PRODUCTS: usize = 2_000_000;

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(5) {
        0 | 1 => of::<f16>(random, device, call),
        2 | 3 => of::<bf16>(random, device, call),
        _ => of::<f32>(random, device, call),
    }
}

/// Sizes whose filter fits.
fn sizes(random: &mut Random, depthwise: bool, sequences: bool) -> Case {
    let volumes = !sequences && random.one_in(3);
    let (most, long) = if volumes { (5, 6) } else { (11, 40) };
    let channels = [1, 3, 5, 8, 8, 16, 24, 40, 64, 64, 72, 128, 136];
    let groups = if depthwise { random.size(140).max(1) } else { random.pick(&[1, 1, 1, 2, 3]) };
    let of_group = |random: &mut Random| if depthwise { 1 } else { random.pick(&channels) };
    let height = if sequences { 1 } else { random.within(1..=most) };
    let most_columns = if random.one_in(4) { long } else { most };
    let width = random.within(1..=most_columns);
    let mut case = Case {
        images: random.pick(&[1, 1, 2, 3, 0]),
        pixels: [height, width],
        channels: groups * of_group(random),
        outputs: groups * of_group(random),
        groups,
        ..Case::default()
    };
    let mut depth = Depth::of(random.within(1..=most));
    // Depth, height and width; sequences have the last alone.
    for i in (if sequences { 2 } else { 0 })..3 {
        let [filter, stride, dilation] =
            [random.within(1..=4), random.pick(&[1, 1, 1, 2, 3, 9]), random.pick(&[1, 1, 1, 2, 3])];
        let [before, after] = [random.pick(&[0, 0, 1, 2, 5, 17]), random.pick(&[0, 0, 1, 2, 4])];
        let pixels = if i == 0 { depth.planes } else { case.pixels[i - 1] };
        // As many zeros behind as the filter needs to fit.
        let lacks = (dilation * (filter - 1) + 1).saturating_sub(pixels + before + after);
        if i == 0 {
            depth = Depth { filter, stride, dilation, before, after: after + lacks, ..depth };
        } else {
            (case.filter[i - 1], case.stride[i - 1], case.dilation[i - 1]) = (filter, stride, dilation);
            (case.before[i - 1], case.after[i - 1]) = (before, after + lacks);
        }
    }
    case.depth = volumes.then_some(depth);
    let [_, w, y] = case.shapes();
    let products = |images: usize| {
        let each = w.iter().product::<usize>() * y[1..y.len() - 1].iter().product::<usize>();
        images * each
    };
    case.images = if products(case.images) > PRODUCTS { 1 } else { case.images };
    if products(1) > PRODUCTS {
        // As deep, of less filters.
        case.outputs = groups * (case.outputs / groups * PRODUCTS / products(1)).max(1);
    }
    case
}

/// Mostly where fast kernels read and write.
fn place(random: &mut Random, shape: &[usize]) -> Place {
    if random.one_in(3) { Place::any(random, shape) } else { Place::lines(random, shape, shape.len() - 1) }
}

/// Whether these dimensions follow each other evenly.
fn even(place: &Place, dims: Range<usize>) -> bool {
    let mut next = None;
    for dim in dims.rev().filter(|&dim| place.shape[dim] != 1) {
        let (size, stride) = (place.shape[dim], place.strides[dim]);
        if next.is_some_and(|next| stride != next) {
            return false;
        }
        next = Some(size * stride);
    }
    true
}

/// One of the kernels that can compute it, or none that is asked for.
fn any_of(random: &mut Random, names: Vec<Option<&'static str>>, call: &mut Call) -> Option<&'static str> {
    if names.iter().any(Option::is_some) { forced(random, names, call) } else { None }
}

fn of<T: Real + Number + FloatElement>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let wide = T::DTYPE == DType::F32;
    let (depthwise, sequences) = (wide || random.one_in(5), random.one_in(6));
    let mut case = sizes(random, depthwise, sequences);
    let of = match random.below(if wide { 2 } else { 3 }) {
        0 => Of::Outputs,
        1 => Of::Images,
        _ => Of::Filters,
    };
    if wide && of == Of::Images {
        case.stride = [1; 2];
        case.depth = case.depth.map(|depth| Depth { stride: 1, ..depth });
    }
    let shapes = case.shapes().map(|mut shape| {
        if sequences {
            shape.remove(1);
        }
        shape
    });
    let places = shapes.each_ref().map(|shape| place(random, shape));
    let [biased, added] = [random.one_in(3), random.one_in(3)].map(|one| one && of == Of::Outputs);
    let activation = if of == Of::Outputs {
        random.pick(&[Activation::Identity, Activation::Silu])
    } else {
        Activation::Identity
    };
    let residual =
        Placed::new(device, place(random, &shapes[2]), &normal::<T>(4, shapes[2].iter().product()))?;
    let bias = Placed::new(device, Place::any(random, &[case.outputs]), &normal::<T>(5, case.outputs))?;
    call.set(format!(
        "{of:?} of Conv<{}>: {case:?}, x {:?}, w {:?}, y {:?}, bias {biased}: {:?}, residual {added}: {:?}, {activation}",
        T::DTYPE,
        places[0],
        places[1],
        places[2],
        bias.place,
        residual.place
    ));
    // What the operators' pages ask of places.
    let [x, w, y] = &places;
    let volumes = case.depth.is_none() || (even(x, 0..2) && even(w, 1..3) && even(y, 0..2));
    let written = if of == Of::Images { x } else { y };
    let pixels = |place: &Place| even(place, 0..place.shape.len() - 1);
    let finished = wide || biased || added || activation != Activation::Identity || of == Of::Filters;
    let is_possible = volumes && (!finished || pixels(written)) && (!added || pixels(&residual.place));

    let made = |i: usize, is: Of| {
        let place = places[i].clone();
        let elements = normal::<T>(i as u64 + 1, place.count());
        if of == is { Placed::poisoned(device, place) } else { Placed::new(device, place, &elements) }
    };
    let (mut x, mut w, mut y) = (made(0, Of::Images)?, made(1, Of::Filters)?, made(2, Of::Outputs)?);
    let stream = Stream::new(device)?;
    let ([before, after], stride, dilation) = (case.paddings(), case.strides(), case.dilations());
    let ran = (|| -> tilewright::Result<()> {
        let gradient = || {
            let gradient = ConvGradient::new().stride(stride).padding(before).padding_after(after);
            gradient.dilation(dilation).groups(case.groups)
        };
        match of {
            Of::Outputs => {
                let (x, w, mut y) = (x.view()?, w.view()?, y.view_mut()?);
                let (bias, residual) = (bias.view()?, residual.view()?);
                let conv = Conv::new().stride(stride).padding(before).padding_after(after).dilation(dilation);
                let conv = conv.groups(case.groups).activation(activation);
                let conv = if biased { conv.bias(&bias) } else { conv };
                let conv = if added { conv.residual(&residual) } else { conv };
                let names: Vec<_> = possible!(conv.candidates(&x, &w, &y));
                let name = any_of(random, names, call);
                name.into_iter().fold(conv, Conv::kernel).run(&stream, &x, &w, &mut y)
            }
            Of::Images => {
                let (mut dx, w, dy) = (x.view_mut()?, w.view()?, y.view()?);
                let names: Vec<_> = possible!(gradient().images_candidates(&dy, &w, &dx));
                let name = any_of(random, names, call);
                // Another of a stride's products may be too much for it.
                let name = name.filter(|name| gradient().kernel(name).images_plan(&dy, &w, &dx).is_ok());
                name.into_iter().fold(gradient(), ConvGradient::kernel).images(&stream, &dy, &w, &mut dx)
            }
            Of::Filters => {
                let (x, mut dw, dy) = (x.view()?, w.view_mut()?, y.view()?);
                let names: Vec<_> = possible!(gradient().filters_candidates(&x, &dy, &dw));
                let name = any_of(random, names, call);
                name.into_iter().fold(gradient(), ConvGradient::kernel).filters(&stream, &x, &dy, &mut dw)
            }
        }
    })();
    if let Err(error) = ran {
        return if is_possible { Err(error.into()) } else { call.refused(error) };
    }
    stream.synchronize()?;
    let wide = |values: Vec<T>| T::widen(&values).into_iter().map(f64::from).collect::<Vec<_>>();
    let values = [x.values()?, w.values()?, y.values()?].map(wide);
    let exact = Exact::new(&case, of, values.each_ref().map(Vec::as_slice));
    let out = match of {
        Of::Outputs => y.read()?,
        Of::Images => x.read()?,
        Of::Filters => w.read()?,
    };
    let [bias, residual] = [T::widen(&bias.values()?), T::widen(&residual.values()?)];
    let finish = |at: usize, sum: f64| {
        let bias = if biased { f64::from(bias[at % case.outputs]) } else { 0.0 };
        let residual = if added { f64::from(residual[at]) } else { 0.0 };
        (activated(activation, sum + bias + residual), bias.abs() + residual.abs())
    };
    Ok(exact.check(&out, finish)?)
}
