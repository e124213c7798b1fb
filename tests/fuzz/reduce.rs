//! Reductions, the places of extremes, and the largest elements of rows.

use std::cmp::Ordering;

use tilewright::ops::{Argmax, IndexElement, Reduce, ReducedFrom, Reduction, TopK};
use tilewright::{Device, Stream, bf16, f16};
use tilewright_support::random::normal;

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

fn of<T: Float + ReducedFrom<T>>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome
where
    f32: ReducedFrom<T>,
{
    let kind = random.below(8);
    match kind {
        0 | 1 => reduce::<T, T>(random, device, call),
        2 => reduce::<T, f32>(random, device, call),
        3 => argmax::<T, i32>(random, device, call, |place| place as i32),
        4 => argmax::<T, i64>(random, device, call, |place| place as i64),
        5 => top_k::<T, i64>(random, device, call, |place| place as i64),
        _ => top_k::<T, u32>(random, device, call, |place| place as u32),
    }
}

/// The elements of each result over these dimensions, in row-major order.
fn of_results(x: &[f32], shape: &[usize], dims: &[usize]) -> Vec<Vec<f32>> {
    let kept = |dim: &usize| !dims.contains(dim);
    let results: usize = (0..shape.len()).filter(kept).map(|dim| shape[dim]).product();
    let mut all = vec![Vec::new(); results];
    for (i, &x) in x.iter().enumerate() {
        let (mut left, mut result, mut step) = (i, 0, 1);
        for dim in (0..shape.len()).rev() {
            let index = left % shape[dim];
            left /= shape[dim];
            if kept(&dim) {
                result += index * step;
                step *= shape[dim];
            }
        }
        all[result].push(x);
    }
    all
}

/// What a reduction makes of elements, and how far off it may be that is computed in f32.
fn reduced(reduction: Reduction, x: &[f32]) -> [f64; 2] {
    let count = x.len() as f64;
    let x = || x.iter().map(|&x| f64::from(x));
    let sums = 4e-6 * x().map(f64::abs).sum::<f64>();
    match reduction {
        Reduction::Sum => [x().sum(), sums],
        Reduction::Mean => [x().sum::<f64>() / count, sums / count],
        Reduction::Max => [x().fold(f64::NEG_INFINITY, f64::max), 0.0],
        Reduction::Min => [x().fold(f64::INFINITY, f64::min), 0.0],
        Reduction::Product => {
            let product: f64 = x().product();
            [product, product.abs() * (1.0 + count) * 1e-6]
        }
        Reduction::Norm => {
            let norm = x().map(|x| x * x).sum::<f64>().sqrt();
            [norm, norm * 1e-5]
        }
    }
}

fn reduce<T: Float, U: Float + ReducedFrom<T>>(
    random: &mut Random,
    device: &Device,
    call: &mut Call,
) -> Outcome {
    let (shape, given) = (shape(random, 1), random.one_in(2));
    let order = random.shuffled(shape.len());
    let dims = &order[..random.within(1..=shape.len())];
    let elements: usize = dims.iter().map(|&dim| shape[dim]).product();
    let reduction = match random.pick(&Reduction::ALL) {
        // Products of more leave the range of f32 on the way.
        Reduction::Product if elements > 40 => Reduction::Norm,
        reduction => reduction,
    };
    let kept: Vec<_> = (0..shape.len()).filter(|dim| !dims.contains(dim)).map(|dim| shape[dim]).collect();
    let x = placed::<T>(random, device, &shape)?;
    let mut y = output::<U>(random, device, &kept)?;
    call.set(format!(
        "Reduce<{} to {}> {reduction:?} over {dims:?}: x {:?}, y {:?}, workspace given {given}",
        T::DTYPE,
        U::DTYPE,
        x.place,
        y.place
    ));
    let stream = Stream::new(device)?;
    {
        let (x, mut y, reduce) = (x.view()?, y.view_mut()?, Reduce::new(reduction));
        let name = forced(random, possible!(reduce.candidates(&x, dims, &y)), call);
        let mut reduce = name.into_iter().fold(reduce, Reduce::kernel);
        let len = reduce.workspace_len(&x, dims, &y)?;
        let mut memory = Placed::<f32>::poisoned(device, Place::packed(&[len]))?;
        {
            let mut view = memory.view_mut()?;
            if given {
                reduce = reduce.workspace(&mut view);
            }
            reduce.run(&stream, &x, dims, &mut y)?;
            stream.synchronize()?;
        }
        memory.read()?;
    }
    let all = of_results(&T::widen(&x.values()?), &shape, dims);
    agree("y", &y.read()?, all.iter().map(|x| reduced(reduction, x)))
}

/// Elements some of which are equal, and some NaN, infinite or zeros.
fn special<T: Float>(random: &mut Random, device: &Device, shape: &[usize]) -> tilewright::Result<Placed<T>> {
    let place = Place::any(random, shape);
    let place = if random.one_in(10) { place.repeating(random.below(shape.len())) } else { place };
    let (coarse, rare) = (random.pick(&[1e4, 8.0, 1.0]), random.pick(&[3, 50, 5000]));
    let mut x = normal::<f32>(random.next(), place.count());
    for x in &mut x {
        *x = (*x * coarse).round() / coarse;
        if random.one_in(rare) {
            *x = random.pick(&[f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0]);
        }
    }
    Placed::new(device, place, &T::round(&x))
}

/// The places of a row's elements, the largest first, or the least: NaN is larger than all numbers.
fn sorted(row: &[f32], least: bool) -> Vec<usize> {
    let order =
        |a: f32, b: f32| -> Ordering { a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())) };
    let mut all: Vec<_> = (0..row.len()).collect();
    all.sort_by(|&a, &b| if least { order(row[a], row[b]) } else { order(row[b], row[a]) });
    all
}

fn argmax<T: Float, I: IndexElement + Number>(
    random: &mut Random,
    device: &Device,
    call: &mut Call,
    index: impl Fn(usize) -> I,
) -> Outcome {
    let shape = shape(random, 1);
    let (dim, least) = (random.below(shape.len()), random.one_in(2));
    let mut kept = shape.clone();
    kept.remove(dim);
    if shape[dim] == 0 && kept.iter().product::<usize>() > 0 {
        return call.refused(tilewright::Error::argument(
            "x",
            "without elements",
            "not asked for its largest",
        ));
    }
    let x = special::<T>(random, device, &shape)?;
    let mut y = output::<I>(random, device, &kept)?;
    call.set(format!("Argmax<{}> over {dim}, least {least}: x {:?}, y {:?}", T::DTYPE, x.place, y.place));
    {
        let (x, mut y, argmax) = (x.view()?, y.view_mut()?, Argmax::new().dim(dim));
        let argmax = if least { argmax.least() } else { argmax };
        let name = forced(random, possible!(argmax.candidates(&x, &y)), call);
        name.into_iter().fold(argmax, Argmax::kernel).run(&Stream::new(device)?, &x, &mut y)?;
    }
    let all = of_results(&T::widen(&x.values()?), &shape, &[dim]);
    for (i, (row, is)) in all.iter().zip(y.read()?).enumerate() {
        // The place of a NaN, either way.
        let nan = row.iter().position(|x| x.is_nan());
        let place = nan.or_else(|| sorted(row, least).first().copied()).map(&index);
        if place != Some(is) {
            return Err(format!("result {i} is {is:?}, must be {place:?}").into());
        }
    }
    Ok(())
}

fn top_k<T: Float, I: IndexElement + Number>(
    random: &mut Random,
    device: &Device,
    call: &mut Call,
    index: impl Fn(usize) -> I,
) -> Outcome {
    let (shape, least) = (shape(random, 1), random.one_in(2));
    let (&cols, lead) = shape.split_last().ok_or("a shape without dimensions")?;
    let most = random.pick(&[8, 16, 100, 2048]).min(cols);
    let found = random.within(0..=most);
    let to: Vec<_> = lead.iter().copied().chain([found]).collect();
    let x = special::<T>(random, device, &shape)?;
    let (mut values, mut indices) = (output::<T>(random, device, &to)?, output::<I>(random, device, &to)?);
    call.set(format!(
        "TopK<{}> {found}, least {least}: x {:?}, values {:?}, indices of {} {:?}",
        T::DTYPE,
        x.place,
        values.place,
        I::DTYPE,
        indices.place
    ));
    {
        let top_k = if least { TopK::new().least() } else { TopK::new() };
        let (x, mut values, mut indices) = (x.view()?, values.view_mut()?, indices.view_mut()?);
        let name = forced(random, possible!(top_k.candidates(&x, &values, &indices)), call);
        let top_k = name.into_iter().fold(top_k, TopK::kernel);
        top_k.run(&Stream::new(device)?, &x, &mut values, &mut indices)?;
    }
    let (x, values) = (T::widen(&x.values()?), T::widen(&values.read()?));
    let rows: Vec<_> = x.chunks(cols).map(|row| (row, sorted(row, least))).collect();
    let exact = rows.iter().flat_map(|(row, places)| places[..found].iter().map(move |&at| (at, row[at])));
    for (i, ((at, x), (is, value))) in exact.zip(indices.read()?.into_iter().zip(values)).enumerate() {
        let same = value.to_bits() == x.to_bits() || value.is_nan() && x.is_nan();
        if is != index(at) || !same {
            return Err(format!("result {i} is {value} at {is:?}, must be {x} at {at}").into());
        }
    }
    Ok(())
}
