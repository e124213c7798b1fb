//! Row-wise operators: softmax and its masks, norms, cross-entropy, their gradients.

use tilewright::ops::{CrossEntropy, IndexElement, Norm, Softmax};
use tilewright::{Device, Stream, bf16, f16};
use tilewright_support::rows;

use crate::floats::{Float, agree, forced, output, placed, possible, shape};
use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(3) {
        0 => of::<f16>(random, device, call),
        1 => of::<bf16>(random, device, call),
        _ => of::<f32>(random, device, call),
    }
}

fn of<T: Float>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(6) {
        0 | 1 => softmax::<T>(random, device, call),
        2 => softmax_gradient::<T>(random, device, call),
        3 => norm::<T>(random, device, call),
        4 => norm_gradient::<T>(random, device, call),
        _ => match random.below(3) {
            0 => cross_entropy::<T, i32>(random, device, call, |label| label as i32),
            1 => cross_entropy::<T, u32>(random, device, call, |label| label as u32),
            _ => cross_entropy::<T, i64>(random, device, call, |label| label),
        },
    }
}

/// A mask of numbers that are exact in every type, whose shape broadcasts to this one.
fn mask<M: Float>(random: &mut Random, device: &Device, shape: &[usize]) -> tilewright::Result<Placed<M>> {
    let mut shape: Vec<_> = shape.iter().map(|&size| if random.one_in(3) { 1 } else { size }).collect();
    while random.one_in(4) && shape.first().is_some_and(|&size| size == 1) {
        shape.remove(0);
    }
    let place = Place::any(random, &shape);
    let value = |random: &mut Random| match random.below(5) {
        0 => f32::NEG_INFINITY,
        n => n as f32 * 0.5 - 1.0,
    };
    let values: Vec<_> = (0..place.count()).map(|_| value(random)).collect();
    Placed::new(device, place, &M::round(&values))
}

fn softmax<T: Float>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let causal = random.one_in(3);
    let shape = shape(random, if causal { 2 } else { 1 });
    let (log, scale) = (random.one_in(2), random.pick(&[1.0, 1.0, 0.125, 3.0]));
    let x = placed::<T>(random, device, &shape)?;
    let mut y = output::<T>(random, device, &shape)?;
    let (narrow, wide) = (mask::<T>(random, device, &shape)?, mask::<f32>(random, device, &shape)?);
    let masked = random.below(3);
    call.set(format!(
        "Softmax<{}>: x {:?}, y {:?}, log {log}, scale {scale}, causal {causal}, mask {masked}: {:?} or {:?}",
        T::DTYPE,
        x.place,
        y.place,
        narrow.place,
        wide.place
    ));
    let stream = Stream::new(device)?;
    let (narrow, wide) = (narrow.view()?, wide.view()?);
    {
        let softmax = Softmax::new().scale(scale);
        let softmax = if log { softmax.log() } else { softmax };
        let softmax = if causal { softmax.causal() } else { softmax };
        let softmax = match masked {
            0 => softmax,
            1 => softmax.mask(&narrow),
            _ => softmax.mask(&wide),
        };
        let (x, mut y) = (x.view()?, y.view_mut()?);
        let name = forced(random, possible!(softmax.candidates(&x, &y)), call);
        name.into_iter().fold(softmax, Softmax::kernel).run(&stream, &x, &mut y)?;
    }
    let (cols, x) = (shape[shape.len() - 1], T::widen(&x.values()?));
    let mask = match masked {
        0 => vec![0.0; x.len()],
        1 => T::widen(&narrow.broadcast(&shape)?.to_vec()?),
        _ => wide.broadcast(&shape)?.to_vec()?,
    };
    let height = if shape.len() > 1 { shape[shape.len() - 2] } else { 1 };
    let mut exact = Vec::new();
    for (i, (x, mask)) in x.chunks(cols).zip(mask.chunks(cols)).enumerate() {
        let seen = |j: usize| !causal || j + height <= i % height + cols;
        let score = |j: usize| f64::from(x[j]) * f64::from(scale) + f64::from(mask[j]);
        let scores: Vec<_> = (0..cols).map(|j| if seen(j) { score(j) } else { f64::NEG_INFINITY }).collect();
        exact.extend(rows::softmax_of(&scores, log));
    }
    let off = |y: f64| if log { 1e-5 + y.abs() * 1e-6 } else { y * (1e-5 + y.max(1e-300).ln().abs() * 1e-6) };
    agree("y", &y.read()?, exact.into_iter().map(|y| [y, off(y)]))
}

fn softmax_gradient<T: Float>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let shape = shape(random, 1);
    let (log, scale) = (random.one_in(2), random.pick(&[1.0, 0.125, 3.0]));
    let (y, dy) = (placed::<T>(random, device, &shape)?, placed::<T>(random, device, &shape)?);
    let mut dx = output::<T>(random, device, &shape)?;
    call.set(format!(
        "Softmax<{}>::run_gradient: y {:?}, dy {:?}, dx {:?}, log {log}, scale {scale}",
        T::DTYPE,
        y.place,
        dy.place,
        dx.place
    ));
    {
        let softmax = Softmax::new().scale(scale);
        let softmax = if log { softmax.log() } else { softmax };
        let (y, dy, mut dx) = (y.view()?, dy.view()?, dx.view_mut()?);
        let name = forced(random, possible!(softmax.candidates_gradient(&y, &dy, &dx)), call);
        let softmax = name.into_iter().fold(softmax, Softmax::kernel);
        softmax.run_gradient(&Stream::new(device)?, &y, &dy, &mut dx)?;
    }
    let (cols, mut exact) = (shape[shape.len() - 1], Vec::new());
    let (y, dy) = (T::widen(&y.values()?), T::widen(&dy.values()?));
    for (y, dy) in y.chunks(cols).zip(dy.chunks(cols)) {
        let gradient = rows::softmax_gradient(y, dy, f64::from(scale), log);
        let size = |y: f32| f64::from(if log { y.exp() } else { y.abs() });
        let sum: f64 =
            y.iter().zip(dy).map(|(&y, &dy)| if log { 1.0 } else { size(y) } * f64::from(dy.abs())).sum();
        let off = |(&y, &dy): (&f32, &f32)| {
            let dy = f64::from(dy.abs());
            f64::from(scale) * 3e-6 * if log { dy + size(y) * sum } else { size(y) * (dy + sum) }
        };
        exact.extend(gradient.into_iter().zip(y.iter().zip(dy).map(off)).map(|(dx, off)| [dx, off]));
    }
    agree("dx", &dx.read()?, exact)
}

const EPSILON: f32 = 1e-2;

fn norm<T: Float>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let shape = shape(random, 1);
    let cols = shape[shape.len() - 1];
    let (centred, added) = (random.one_in(2), random.one_in(2));
    let (x, residual) = (placed::<T>(random, device, &shape)?, placed::<T>(random, device, &shape)?);
    let (weight, bias) = (placed::<T>(random, device, &[cols])?, placed::<T>(random, device, &[cols])?);
    let (mut y, mut sum) = (output::<T>(random, device, &shape)?, output::<T>(random, device, &shape)?);
    let (weighted, biased) = (random.one_in(2), random.one_in(2));
    call.set(format!(
        "Norm<{}>: x {:?}, residual {added}: {:?}, y {:?}, sum {:?}, centred {centred}, weight {weighted}, bias {biased}",
        T::DTYPE,
        x.place,
        residual.place,
        y.place,
        sum.place
    ));
    let (weight, bias, stream) = (weight.view()?, bias.view()?, Stream::new(device)?);
    {
        let norm = if centred { Norm::layer() } else { Norm::rms() }.epsilon(EPSILON);
        let norm = if weighted { norm.weight(&weight) } else { norm };
        let norm = if biased { norm.bias(&bias) } else { norm };
        let (x, residual, mut y, mut sum) = (x.view()?, residual.view()?, y.view_mut()?, sum.view_mut()?);
        if added {
            let name = forced(random, possible!(norm.candidates_added(&x, &residual, &sum, &y)), call);
            let norm = name.into_iter().fold(norm, Norm::kernel);
            norm.run_added(&stream, &x, &residual, &mut sum, &mut y)?;
        } else {
            let name = forced(random, possible!(norm.candidates(&x, &y)), call);
            name.into_iter().fold(norm, Norm::kernel).run(&stream, &x, &mut y)?;
        }
    }
    let wide = |values: &[T]| T::widen(values).iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    let (mut s, residual) = (wide(&x.values()?), wide(&residual.values()?));
    if added {
        s.iter_mut().zip(residual).for_each(|(s, r)| *s += r);
        agree("sum", &sum.read()?, s.iter().map(|&s| [s, s.abs() * 2e-7]))?;
    }
    let w = if weighted { T::widen(&weight.to_vec()?) } else { vec![1.0; cols] };
    let b = if biased { T::widen(&bias.to_vec()?) } else { vec![0.0; cols] };
    let exact = s.chunks(cols).flat_map(|s| rows::norm(s, [&w, &b], f64::from(EPSILON), centred));
    agree("y", &y.read()?, exact.map(|y| [y, 2e-5 * (1.0 + y.abs())]))
}

fn norm_gradient<T: Float>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let shape = shape(random, 1);
    let cols = shape[shape.len() - 1];
    let (x, dy) = (placed::<T>(random, device, &shape)?, placed::<T>(random, device, &shape)?);
    let (d_sum, weight) = (placed::<T>(random, device, &shape)?, placed::<T>(random, device, &[cols])?);
    let mut dx = output::<T>(random, device, &shape)?;
    let [mut d_weight, mut d_bias] =
        [output::<T>(random, device, &[cols])?, output::<T>(random, device, &[cols])?];
    let (centred, added, weighted) = (random.one_in(2), random.one_in(2), random.one_in(2));
    let (for_weight, for_bias, given) = (random.one_in(2), random.one_in(2), random.one_in(2));
    call.set(format!(
        "NormGradient<{}>: x {:?}, dy {:?}, d_sum {added}: {:?}, dx {:?}, centred {centred}, weight {weighted}, d_weight \
         {for_weight}: {:?}, d_bias {for_bias}: {:?}, workspace given {given}",
        T::DTYPE,
        x.place,
        dy.place,
        d_sum.place,
        dx.place,
        d_weight.place,
        d_bias.place
    ));
    let stream = Stream::new(device)?;
    {
        let (x, dy, d_sum, weight) = (x.view()?, dy.view()?, d_sum.view()?, weight.view()?);
        let (mut dx, mut d_weight, mut d_bias) = (dx.view_mut()?, d_weight.view_mut()?, d_bias.view_mut()?);
        let norm = if centred { Norm::layer() } else { Norm::rms() }.epsilon(EPSILON);
        let norm = if weighted { norm.weight(&weight) } else { norm };
        let mut gradient = norm.gradient();
        if added {
            gradient = gradient.d_sum(&d_sum);
        }
        if for_weight {
            gradient = gradient.d_weight(&mut d_weight);
        }
        if for_bias {
            gradient = gradient.d_bias(&mut d_bias);
        }
        let name = forced(random, possible!(gradient.candidates(&x, &dy, &dx)), call);
        gradient = name.into_iter().fold(gradient, |gradient, name| gradient.kernel(name));
        let place = Place::packed(&[gradient.workspace_len(&x, &dy, &dx)?]);
        let mut memory = Placed::<f32>::poisoned(device, place)?;
        {
            let mut view = memory.view_mut()?;
            if given {
                gradient = gradient.workspace(&mut view);
            }
            gradient.run(&stream, &x, &dy, &mut dx)?;
            stream.synchronize()?;
        }
        memory.read()?;
    }
    let [x, dy, d_sum] = [&x, &dy, &d_sum].map(|tensor| tensor.values().map(|values| T::widen(&values)));
    let (x, dy, d_sum) = (x?, dy?, d_sum?);
    let w = if weighted { T::widen(&weight.values()?) } else { vec![1.0; cols] };
    let (mut exact, mut sums) = (Vec::new(), vec![[[0.0; 2]; 2]; cols]);
    for ((x, dy), d_sum) in x.chunks(cols).zip(dy.chunks(cols)).zip(d_sum.chunks(cols)) {
        let x: Vec<_> = x.iter().map(|&x| f64::from(x)).collect();
        let (dx, by_weight) = rows::norm_gradient(&x, [dy, &w], f64::from(EPSILON), centred);
        for (i, dx) in dx.into_iter().enumerate() {
            let (dy, added) = (f64::from(dy[i]), if added { f64::from(d_sum[i]) } else { 0.0 });
            // One over the deviation is at most 10.
            exact.push([
                dx + added,
                4e-5 * (4.0 + (dy * f64::from(w[i])).abs() + by_weight[i].abs() + added.abs()),
            ]);
            for (sum, value) in sums[i].iter_mut().zip([by_weight[i], dy]) {
                *sum = [sum[0] + value, sum[1] + 2e-5 * (value.abs() + dy.abs())];
            }
        }
    }
    agree("dx", &dx.read()?, exact)?;
    for (i, (is, wanted)) in [(&d_weight, for_weight), (&d_bias, for_bias)].into_iter().enumerate() {
        match wanted {
            true => agree("a gradient by columns", &is.read()?, sums.iter().map(|sums| sums[i]))?,
            false => is.untouched()?,
        }
    }
    Ok(())
}

fn cross_entropy<T: Float, I: IndexElement + Number>(
    random: &mut Random,
    device: &Device,
    call: &mut Call,
    cast: impl Fn(i64) -> I,
) -> Outcome {
    let shape = shape(random, 1);
    let Some((&cols, lead)) = shape.split_last() else { return Err("a shape without dimensions".into()) };
    let [smoothing, z_loss] = [random.pick(&[0.0, 0.1]), random.pick(&[0.0, 0.01])];
    let (scale, with_gradient) = (random.pick(&[1.0, 0.25]), random.one_in(2));
    let x = placed::<T>(random, device, &shape)?;
    let mut gradient = output::<T>(random, device, &shape)?;
    let (mut loss, place) = (output::<f32>(random, device, lead)?, Place::any(random, lead));
    let label = |random: &mut Random| match random.below(8) {
        0 => -100,
        1 => random.pick(&[-1, cols as i64, i32::MAX.into(), i32::MIN.into()]),
        _ => random.below(cols) as i64,
    };
    let labels: Vec<_> = (0..place.count()).map(|_| label(random)).collect();
    let targets = Placed::new(device, place, &labels.iter().map(|&label| cast(label)).collect::<Vec<_>>())?;
    call.set(format!(
        "CrossEntropy<{}>: logits {:?}, labels of {} {:?}: {labels:?}, loss {:?}, gradient {with_gradient}: {:?}, smoothing \
         {smoothing}, z {z_loss}, scale {scale}",
        T::DTYPE,
        x.place,
        I::DTYPE,
        targets.place,
        loss.place,
        gradient.place
    ));
    {
        let options = CrossEntropy::new().smoothing(smoothing).z_loss(z_loss).scale(scale);
        let (x, targets, stream) = (x.view()?, targets.view()?, Stream::new(device)?);
        let (mut loss, mut gradient) = (loss.view_mut()?, gradient.view_mut()?);
        if with_gradient {
            let name = forced(random, possible!(options.candidates(&x, &targets, &loss, &gradient)), call);
            let options = name.into_iter().fold(options, CrossEntropy::kernel);
            options.run_with_gradient(&stream, &x, &targets, &mut loss, &mut gradient)?;
        } else {
            options.run(&stream, &x, &targets, &mut loss)?;
        }
    }
    let (mut losses, mut gradients) = (Vec::new(), Vec::new());
    for (row, &label) in T::widen(&x.values()?).chunks(cols).zip(&labels) {
        let (loss, gradient) = match usize::try_from(label) {
            _ if label == -100 => (0.0, vec![0.0; cols]),
            Ok(label) if label < cols => rows::cross_entropy(row, label, [smoothing, z_loss].map(f64::from)),
            _ => (f64::NAN, vec![f64::NAN; cols]),
        };
        losses.push([loss, 2e-5 * (1.0 + loss.abs())]);
        gradients.extend(gradient.iter().map(|g| [g * f64::from(scale), 1e-5 * (g.abs() + 0.3)]));
    }
    agree("loss", &loss.read()?, losses)?;
    match with_gradient {
        true => agree("gradient", &gradient.read()?, gradients),
        false => Ok(gradient.untouched()?),
    }
}
