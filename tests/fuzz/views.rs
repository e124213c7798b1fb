//! Views: what they show against a list of offsets, and what they refuse.

use tilewright::{Device, Tensor, TensorView, TensorViewMut};

use crate::place::{Place, Placed};
use crate::random::Random;
use crate::{Call, Outcome};

/// The most elements of a view.
const MOST: usize = 5000;

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(3) {
        0 => raw(random, device, call),
        _ => chain(random, device, call),
    }
}

/// What a view shows: elements by number, in row-major order.
#[derive(Clone)]
struct Model {
    shape: Vec<usize>,
    elements: Vec<usize>,
}

impl Model {
    /// With this shape, each index being one of the old.
    fn map(&self, shape: Vec<usize>, of: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let count = shape.iter().product();
        let elements = (0..count).map(|number| {
            let (mut index, mut rest) = (vec![0; shape.len()], number);
            for dim in (0..shape.len()).rev() {
                index[dim] = rest % shape[dim];
                rest /= shape[dim];
            }
            let old = of(&index);
            self.elements[old.iter().zip(&self.shape).fold(0, |at, (i, n)| at * n + i)]
        });
        Self { elements: elements.collect(), shape: shape.clone() }
    }
}

/// A size or a number of a dimension that may be anything.
fn wild(random: &mut Random, most: usize) -> usize {
    match random.below(12) {
        0 => random.pick(&[usize::MAX, usize::MAX - 1, 1 << 63, 1 << 32, 1 << 50]),
        _ => random.below(most + 2),
    }
}

/// One view made of another several times over.
fn chain(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let shape: Vec<usize> = (0..random.within(0..=5)).map(|_| random.pick(&[1, 2, 3, 4, 5, 7, 0])).collect();
    let place = Place::any(random, &shape);
    call.set(format!("a view at {place:?}"));
    let values: Vec<f32> = (0..place.count()).map(|x| x as f32).collect();
    let memory = Placed::new(device, place, &values)?;
    let mut view = memory.view()?;
    let mut model = Model { elements: (0..values.len()).collect(), shape };
    for _ in 0..random.within(1..=6) {
        let old = view.clone();
        let (rank, contiguous) = (model.shape.len(), view.is_contiguous());
        let dim = wild(random, rank);
        let size = model.shape.get(dim).copied().unwrap_or(3);
        let (result, expected) = match random.below(6) {
            0 => {
                let to = wild(random, rank);
                call.add(format!(", transpose {dim} {to}"));
                let mut shape = model.shape.clone();
                let fits = dim < rank && to < rank;
                if fits {
                    shape.swap(dim, to);
                }
                let swapped = |index: &[usize]| {
                    let mut index = index.to_vec();
                    index.swap(dim, to);
                    index
                };
                (view.transpose(dim, to), fits.then(|| model.map(shape, swapped)))
            }
            1 => {
                let (start, len) = (wild(random, size), wild(random, size));
                call.add(format!(", narrow {dim} from {start} {len}"));
                let fits = dim < rank && start.checked_add(len).is_some_and(|end| end <= size);
                let mut shape = model.shape.clone();
                if fits {
                    shape[dim] = len;
                }
                let moved = |index: &[usize]| {
                    let mut index = index.to_vec();
                    index[dim] += start;
                    index
                };
                (view.narrow(dim, start, len), fits.then(|| model.map(shape, moved)))
            }
            2 => {
                let at = wild(random, size);
                call.add(format!(", select {dim} {at}"));
                let fits = dim < rank && at < size;
                let mut shape = model.shape.clone();
                if fits {
                    shape.remove(dim);
                }
                let inserted = |index: &[usize]| {
                    let mut index = index.to_vec();
                    index.insert(dim, at);
                    index
                };
                (view.select(dim, at), fits.then(|| model.map(shape, inserted)))
            }
            3 => {
                call.add(format!(", insert_dim {dim}"));
                let fits = dim <= rank && rank < tilewright::MAX_RANK;
                let mut shape = model.shape.clone();
                if fits {
                    shape.insert(dim, 1);
                }
                let removed = |index: &[usize]| {
                    let mut index = index.to_vec();
                    index.remove(dim);
                    index
                };
                (view.insert_dim(dim), fits.then(|| model.map(shape, removed)))
            }
            4 => {
                let lead = random.below(3);
                let mut shape: Vec<usize> = (0..lead).map(|_| random.pick(&[1, 2, 3])).collect();
                shape.extend(model.shape.iter().map(|&n| match n {
                    1 if random.one_in(2) => random.pick(&[2, 3, 5, 0]),
                    _ if random.one_in(12) => random.pick(&[1, 2, 9]),
                    n => n,
                }));
                call.add(format!(", broadcast {shape:?}"));
                let old = &model.shape;
                let fits = shape.len() <= tilewright::MAX_RANK
                    && old.iter().zip(&shape[lead..]).all(|(&n, &to)| n == to || n == 1);
                let repeated = |index: &[usize]| {
                    index[lead..].iter().zip(old).map(|(&i, &n)| if n == 1 { 0 } else { i }).collect()
                };
                let result = view.broadcast(&shape);
                (result, fits.then(|| model.map(shape, repeated)))
            }
            _ => {
                let shape = reshaped(random, &model.shape);
                call.add(format!(", reshape {shape:?}"));
                let count = shape.iter().try_fold(1usize, |count, &n| count.checked_mul(n));
                let empty = shape.contains(&0);
                let fits = shape.len() <= tilewright::MAX_RANK
                    && (if empty { Some(0) } else { count }) == Some(model.elements.len());
                match view.reshape(&shape) {
                    // Strides may not be able to say it.
                    Err(_) if fits && !contiguous => {
                        view = old;
                        continue;
                    }
                    result => (result, fits.then(|| Model { shape, elements: model.elements.clone() })),
                }
            }
        };
        match (result, expected) {
            (Ok(new), Some(expected)) => (view, model) = (new, expected),
            (Err(_), None) => view = old,
            (Ok(new), None) => return Err(format!("{new:?} is no view of {old:?}").into()),
            (Err(error), Some(_)) => return Err(format!("refused: {error}").into()),
        }
        let found = view.to_vec()?;
        let values: Vec<f32> = model.elements.iter().map(|&at| at as f32).collect();
        if view.shape() != model.shape || found != values {
            return Err(format!("{view:?} has {found:?}, must have {values:?} of {:?}", model.shape).into());
        }
        if model.elements.len() > MOST {
            break;
        }
    }
    Ok(())
}

/// A shape of mostly as many elements.
fn reshaped(random: &mut Random, shape: &[usize]) -> Vec<usize> {
    let mut all = shape.to_vec();
    for _ in 0..random.below(3) {
        let at = random.below(all.len() + 1);
        match random.below(3) {
            0 => all.insert(at, 1),
            1 if at + 1 < all.len() => {
                let next = all.remove(at + 1);
                all[at] *= next;
            }
            _ if at < all.len() => {
                let divisor = random.pick(&[2, 3, 5]);
                if all[at].is_multiple_of(divisor) {
                    all[at] /= divisor;
                    all.insert(at, divisor);
                }
            }
            _ => {}
        }
    }
    if random.one_in(8) {
        all.push(wild(random, 4));
    }
    all
}

/// Views of memory by address, shape and strides that may be anything.
fn raw(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let count = random.within(1..=400);
    let values: Vec<f32> = (0..count).map(|x| x as f32).collect();
    let mut memory = Tensor::from_slice(device, &values, &[count])?;
    let rank = random.below(7);
    let shape: Vec<usize> = (0..rank).map(|_| wild(random, 5)).collect();
    let strides = if random.one_in(12) { rank + 1 } else { rank };
    let strides: Vec<usize> = (0..strides).map(|_| wild(random, 60)).collect();
    let offset = if random.one_in(8) { wild(random, 4 * count) } else { 4 * random.below(count) };
    let address = memory.address().wrapping_add(offset as u64);
    call.set(format!(
        "a view of shape {shape:?} and strides {strides:?}, {offset} bytes into {count} elements"
    ));

    let elements = shape.iter().fold(1u128, |product, &n| product.saturating_mul(n as u128));
    let extent = shape.iter().zip(&strides).fold(0u128, |sum, (&n, &s)| {
        sum.saturating_add((n as u128).saturating_sub(1).saturating_mul(s as u128))
    });
    let formed = rank <= tilewright::MAX_RANK && strides.len() == rank;
    let aligned = offset.is_multiple_of(4);
    let inside = extent < count as u128 && offset as u128 + 4 * (extent + 1) <= 4 * count as u128;
    // SAFETY: nothing else uses the memory, which outlives the view.
    let view = unsafe { TensorView::<f32>::from_raw_parts(device, address, &shape, &strides) };
    // Whether a repeating view is too large is the library's to say.
    let small = elements <= MOST as u128;
    match &view {
        Ok(view) if formed && (elements == 0 || aligned && inside) => {
            if small {
                let place = Place { shape: shape.clone(), strides: strides.clone(), offset: offset / 4 };
                let expected: Vec<f32> = match elements {
                    0 => Vec::new(),
                    _ => place.offsets().into_iter().map(|at| at as f32).collect(),
                };
                assert_eq!(view.to_vec()?, expected);
            }
        }
        Ok(view) => return Err(format!("{view:?} was made").into()),
        Err(error) if formed && aligned && inside && elements > 0 && small => {
            return Err(format!("refused: {error}").into());
        }
        Err(_) => {}
    }

    // SAFETY: as above.
    let mutable = unsafe { TensorViewMut::<f32>::from_raw_parts(device, address, &shape, &strides) };
    match mutable {
        Ok(_) if view.is_err() => Err("a view to be written was made, and none to be read".into()),
        Ok(mut view) if small && elements > 0 => {
            let offsets = Place { shape, strides, offset: offset / 4 }.offsets();
            let mut sorted = offsets.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), offsets.len(), "two indices mean the same element");
            let filled = view.fill(&device.default_stream(), -1.0);
            assert_eq!(filled.is_ok(), view.is_contiguous(), "{filled:?}");
            let expected =
                (0..count).map(|at| if filled.is_ok() && offsets.contains(&at) { -1.0 } else { at as f32 });
            let expected: Vec<f32> = expected.collect();
            assert_eq!(memory.to_vec()?, expected);
            let short = memory.write(&values[1..]);
            assert!(short.is_err(), "data that is too short was written");
            Ok(())
        }
        _ => Ok(()),
    }
}
