//! What cases of operators over f16, bf16 and f32 share.

use tilewright::Device;
use tilewright::ops::FloatElement;
use tilewright_support::Real;
use tilewright_support::random::normal;

use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::{Call, Outcome};

/// An element type of these operators.
pub trait Float: Real + Number + FloatElement {}

impl<T: Real + Number + FloatElement> Float for T {}

/// A shape of so many dimensions at least, with rows of a length above 0.
pub fn shape(random: &mut Random, least: usize) -> Vec<usize> {
    let cols = if random.one_in(5) { random.within(1..=9000) } else { random.size(300).max(1) };
    let most = (20_000 / cols).clamp(1, 60);
    let mut shape = vec![cols];
    for _ in 1..random.within(least..=4) {
        let size = random.size(most / shape[..shape.len() - 1].iter().product::<usize>().max(1) + 1);
        shape.insert(0, size);
    }
    shape
}

/// Elements at a place of their own.
pub fn placed<T: Float>(
    random: &mut Random,
    device: &Device,
    shape: &[usize],
) -> tilewright::Result<Placed<T>> {
    let place = Place::any(random, shape);
    let place = if random.one_in(10) { place.repeating(random.below(shape.len())) } else { place };
    Placed::new(device, place.clone(), &normal::<T>(random.next(), place.count()))
}

pub fn output<T: Number>(
    random: &mut Random,
    device: &Device,
    shape: &[usize],
) -> tilewright::Result<Placed<T>> {
    Placed::poisoned(device, Place::any(random, shape))
}

/// One of the kernels that can compute it, or none that is asked for.
pub fn forced(
    random: &mut Random,
    names: Vec<Option<&'static str>>,
    call: &mut Call,
) -> Option<&'static str> {
    let names: Vec<_> = names.into_iter().flatten().collect();
    assert!(!names.is_empty(), "no kernel for it");
    let name = random.one_in(2).then(|| random.pick(&names));
    call.add(name.map(|name| format!(", kernel {name}")).unwrap_or_default());
    name
}

/// The names of what is not rejected.
macro_rules! possible {
    ($candidates:expr) => {
        $candidates?.iter().map(|k| k.rejection().is_none().then(|| k.name())).collect()
    };
}

pub(crate) use possible;

/// Checks results to within their rounding, which may be infinite, and what else each may be off by.
pub fn agree<T: Float>(what: &str, is: &[T], exact: impl IntoIterator<Item = [f64; 2]>) -> Outcome {
    for (i, (is, [exact, off])) in T::widen(is).into_iter().zip(exact).enumerate() {
        let (is, allowed) = (f64::from(is), exact.abs() * T::ROUNDING + T::LEAST + off);
        let rounded = T::widen(&T::round(&[exact as f32])).iter().all(|&x| f64::from(x) == is);
        if !(rounded || is.is_nan() && exact.is_nan() || (is - exact).abs() <= allowed) {
            return Err(
                format!("{what}: element {i} is {is:e}, must be {exact:e} to within {allowed:e}").into()
            );
        }
    }
    Ok(())
}
