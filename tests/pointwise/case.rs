//! What the tests of pointwise operators share.

use std::collections::BTreeSet;

use tilewright::Device;
use tilewright::ops::{FloatElement, kernels};
use tilewright_support::Real;
use tilewright_support::guarded::{Guarded, Place};

/// An element type of these operators.
pub trait Number: Real + FloatElement {}

impl<T: Real + FloatElement> Number for T {}

/// The lengths of rows that are tested.
pub const LENGTHS: [usize; 9] = [1, 8, 31, 32, 33, 127, 128, 1000, 4096];

/// The kernels with such names that the device runs.
pub fn runnable(device: &Device, fits: impl Fn(&str) -> bool) -> BTreeSet<&'static str> {
    let names = kernels().filter(|e| device.runs(e.arch) && fits(e.name)).map(|e| e.name);
    names.collect()
}

/// Runs a call by each of these kernels that can compute it: others are refused because of how tensors lie. Gives their names.
pub fn by_each(
    kernels: &BTreeSet<&'static str>,
    mut run: impl FnMut(&'static str) -> tilewright_support::Result<bool>,
) -> tilewright_support::Result<BTreeSet<&'static str>> {
    let mut ran = BTreeSet::new();
    for &name in kernels {
        if run(name)? {
            ran.insert(name);
        }
    }
    Ok(ran)
}

/// Whether a call was done; an error that is not about the kernel is one.
pub fn done(result: tilewright::Result<()>) -> tilewright_support::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.to_string().starts_with("`kernel` was ") => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Rows one behind the other.
pub fn packed(rows: usize, cols: usize) -> Place {
    Place::by_rows([1, rows, cols], cols)
}

/// Places of a shape: aligned, padded, unaligned, by columns, every third element.
pub fn places(shape @ [_, rows, cols]: [usize; 3]) -> [Place; 5] {
    let by_rows = Place::by_rows(shape, (cols + 8).next_multiple_of(8));
    [
        by_rows,
        Place::by_rows(shape, cols + 3),
        by_rows.shifted(1),
        Place::by_columns(shape, rows + 2),
        Place::by_rows(shape, 3 * cols).strided([3 * cols * (rows + 1), 3 * cols, 3]),
    ]
}

/// Checks that every element is within `allowed` of what it must be, NaN where that is NaN, and that nothing else was written.
#[track_caller]
pub fn assert_near<T: Number>(
    what: &str,
    y: &Guarded<T>,
    exact: &[f64],
    allowed: impl Fn(usize, f64) -> f64,
) {
    let (y, outside) = y.read().expect("the output can be read");
    assert_eq!(outside, 0, "{what}: elements outside were written");
    assert_eq!(y.len(), exact.len(), "{what}");
    for (i, (&y, &exact)) in T::widen(&y).iter().zip(exact).enumerate() {
        let (y, allowed) = (f64::from(y), allowed(i, exact));
        let right = y == exact || (y.is_nan() && exact.is_nan()) || (y - exact).abs() <= allowed;
        assert!(right, "{what}: element {i} is {y:e}, must be {exact:e}, to within {allowed:e}");
    }
}
