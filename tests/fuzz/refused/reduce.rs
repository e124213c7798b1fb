//! Reductions and the largest elements.

use tilewright::ops::{Argmax, Reduce, Reduction, TopK};
use tilewright::{Device, f16};

use super::{Shapes, Wrong, check, output};
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(3) {
        0 => reduce(random, device, call),
        1 => argmax(random, device, call),
        _ => top_k(random, device, call),
    }
}

fn shape(random: &mut Random) -> Vec<usize> {
    (0..random.within(1..=3)).map(|_| random.size(20)).collect()
}

fn reduce(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let shape = shape(random);
    let dims: Vec<_> = (0..random.below(3)).map(|_| random.below(shape.len() + 1)).collect();
    call.set(format!("Reduce over {dims:?}:"));
    let wrong = dims.is_empty() || dims.contains(&shape.len()) || dims.len() == 2 && dims[0] == dims[1];
    let kept: Vec<_> = (0..shape.len()).filter(|dim| !dims.contains(dim)).map(|dim| shape[dim]).collect();
    let mut shapes = Shapes::new(random, 2);
    let x = shapes.next::<f16>(device, &shape, call)?;
    let mut y = output::<f16>(&mut shapes, device, &kept, call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let surely = shapes.kind == Wrong::Device || stream.device() != device;
    // More dimensions may make them right.
    let surely = surely || wrong && shapes.kind == Wrong::Nothing;
    let surely = surely || kernel.is_some() && kept.iter().product::<usize>() > 0;
    let mut reduce = kernel.into_iter().fold(Reduce::new(Reduction::Sum), Reduce::kernel);
    let result = reduce.run(&stream, &x.view()?, &dims, &mut y.view_mut()?);
    check(result, surely, &y, call)
}

fn argmax(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let shape = shape(random);
    let dim = random.below(shape.len() + 1);
    call.set(format!("Argmax over {dim}:"));
    let mut kept = shape.clone();
    if dim < kept.len() {
        kept.remove(dim);
    }
    let mut shapes = Shapes::new(random, 2);
    let x = shapes.next::<f16>(device, &shape, call)?;
    let mut y = output::<i64>(&mut shapes, device, &kept, call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let wrong = shape.get(dim).is_none_or(|&size| size == 0 && kept.iter().product::<usize>() > 0);
    let surely = shapes.kind == Wrong::Device || stream.device() != device;
    let surely = surely || wrong && shapes.kind == Wrong::Nothing;
    let surely = surely || kernel.is_some() && kept.iter().product::<usize>() > 0;
    let argmax = kernel.into_iter().fold(Argmax::new().dim(dim), Argmax::kernel);
    let result = argmax.run(&stream, &x.view()?, &mut y.view_mut()?);
    check(result, surely, &y, call)
}

fn top_k(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let shape = shape(random);
    let (&cols, lead) = shape.split_last().ok_or("a shape without dimensions")?;
    let found = random.below(cols + 2);
    call.set(format!("TopK of {found}:"));
    let to: Vec<_> = lead.iter().copied().chain([found]).collect();
    let mut shapes = Shapes::new(random, 3);
    let x = shapes.next::<f16>(device, &shape, call)?;
    let mut values = output::<f16>(&mut shapes, device, &to, call)?;
    let mut indices = output::<i64>(&mut shapes, device, &to, call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let surely = shapes.kind == Wrong::Device || stream.device() != device;
    let surely = surely || found > cols && shapes.kind == Wrong::Nothing;
    let surely = surely || kernel.is_some() && to.iter().product::<usize>() > 0;
    let top_k = kernel.into_iter().fold(TopK::new(), TopK::kernel);
    let result = top_k.run(&stream, &x.view()?, &mut values.view_mut()?, &mut indices.view_mut()?);
    if result.is_err() {
        values.untouched()?;
    }
    check(result, surely, &indices, call)
}
