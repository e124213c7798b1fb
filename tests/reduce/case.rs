//! What the tests of reductions share.

use std::collections::BTreeSet;

use tilewright::ops::{FloatElement, Reduce, ReducedFrom, Reduction, kernels};
use tilewright::{Device, Stream, Tensor, TensorView};
use tilewright_support::Real;
use tilewright_support::guarded::Place;

/// An element type of these operators.
pub trait Number: Real + FloatElement + ReducedFrom<Self> {}

impl<T: Real + FloatElement + ReducedFrom<T>> Number for T {}

/// The lengths of rows that are tested, and how many rows of each: few of long ones.
pub const LENGTHS: [(usize, usize); 13] = [
    (1, 24),
    (8, 24),
    (31, 24),
    (32, 24),
    (33, 24),
    (64, 24),
    (127, 24),
    (256, 24),
    (1000, 8),
    (1024, 8),
    (4096, 8),
    (8191, 4),
    (131_072, 1),
];

/// The kernels whose names begin so, of an element type, that the device runs.
pub fn runnable<T: Number>(device: &Device, prefix: &str) -> BTreeSet<&'static str> {
    let element = T::DTYPE.to_string();
    let fits = |name: &str| name.starts_with(prefix) && name.split('_').any(|word| word == element);
    kernels().filter(|e| device.runs(e.arch) && fits(e.name)).map(|e| e.name).collect()
}

/// Rows one behind the other.
pub fn packed(rows: usize, cols: usize) -> Place {
    Place::by_rows([1, rows, cols], cols)
}

/// Elements in row-major order, and how many there are in each dimension.
pub struct Elements<'a> {
    pub shape: &'a [usize],
    pub values: &'a [f32],
}

impl Elements<'_> {
    /// The elements of each result over these dimensions, in row-major order.
    pub fn of_results(&self, dims: &[usize]) -> Vec<Vec<f64>> {
        let kept = |dim: &usize| !dims.contains(dim);
        let results: usize = (0..self.shape.len()).filter(kept).map(|dim| self.shape[dim]).product();
        let mut all = vec![Vec::new(); results];
        for (i, &x) in self.values.iter().enumerate() {
            let (mut left, mut result, mut step) = (i, 0, 1);
            for dim in (0..self.shape.len()).rev() {
                let index = left % self.shape[dim];
                left /= self.shape[dim];
                if kept(&dim) {
                    result += index * step;
                    step *= self.shape[dim];
                }
            }
            all[result].push(f64::from(x));
        }
        all
    }
}

/// What a reduction makes of elements, exactly.
pub fn exact(reduction: Reduction, x: &[f64]) -> f64 {
    let any_nan = x.iter().any(|x| x.is_nan());
    match reduction {
        Reduction::Sum => x.iter().sum(),
        Reduction::Mean => x.iter().sum::<f64>() / x.len() as f64,
        Reduction::Max | Reduction::Min if any_nan => f64::NAN,
        Reduction::Max => x.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Reduction::Min => x.iter().copied().fold(f64::INFINITY, f64::min),
        Reduction::Product => x.iter().product(),
        Reduction::Norm => x.iter().map(|x| x * x).sum::<f64>().sqrt(),
    }
}

/// How far off a result may be that is computed in f32 and rounded to `U`.
pub fn allowed<U: Real>(reduction: Reduction, x: &[f64], exact: f64) -> f64 {
    // A result is the sum of some hundred numbers that a thread, warps and CTAs have, each of which may be off by a rounding.
    let sums = 4e-6 * x.iter().map(|x| x.abs()).sum::<f64>();
    let computed = match reduction {
        Reduction::Max | Reduction::Min => 0.0,
        Reduction::Sum => sums,
        Reduction::Mean => sums / x.len() as f64,
        Reduction::Product => exact.abs() * (1.0 + x.len() as f64).ln() * 2e-5,
        Reduction::Norm => exact * 1e-5,
    };
    computed + exact.abs() * U::ROUNDING + U::LEAST
}

/// Checks all results, which are in row-major order.
#[track_caller]
pub fn assert_results<U: Real>(what: &str, reduction: Reduction, y: &[U], elements: &[Vec<f64>]) {
    assert_eq!(y.len(), elements.len(), "{what}");
    for (i, (&y, x)) in U::widen(y).iter().zip(elements).enumerate() {
        let exact = exact(reduction, x);
        let (y, allowed) = (f64::from(y), allowed::<U>(reduction, x, exact));
        let right = y == exact || (y.is_nan() && exact.is_nan()) || (y - exact).abs() <= allowed;
        assert!(
            right,
            "{what}, {reduction:?}: result {i} is {y:e}, must be {exact:e}, to within {allowed:e}"
        );
    }
}

/// Checks the results of all kernels that can compute these reductions, in one type after the other; gives the kernels' names.
pub fn check<T: Number>(
    device: &Device,
    x: &TensorView<'_, T>,
    dims: &[usize],
    reductions: &[Reduction],
) -> tilewright_support::Result<BTreeSet<&'static str>>
where
    f32: ReducedFrom<T>,
{
    let (stream, shape) = (Stream::new(device)?, x.shape().to_vec());
    let values = T::widen(&x.to_vec()?);
    let elements = Elements { shape: &shape, values: &values }.of_results(dims);
    let kept: Vec<usize> = (0..shape.len()).filter(|dim| !dims.contains(dim)).map(|dim| shape[dim]).collect();
    let mut names = BTreeSet::new();
    for &reduction in reductions {
        let mut y = Tensor::<T>::zeros(device, &kept)?;
        let mut wide = Tensor::<f32>::zeros(device, &kept)?;
        let candidates = Reduce::new(reduction).candidates(x, dims, &y.view_mut())?;
        let possible = candidates.iter().filter(|k| k.rejection().is_none()).map(|k| k.name());
        for (i, name) in possible.enumerate() {
            let (what, mut by_name) =
                (format!("{name}, {shape:?} over {dims:?}"), Reduce::new(reduction).kernel(name));
            if i % 2 == 0 {
                y.fill(&stream, T::POISON)?;
                by_name.run(&stream, x, dims, &mut y.view_mut())?;
                assert_results(&what, reduction, &y.to_vec_on(&stream)?, &elements);
            } else {
                wide.fill(&stream, f32::NAN)?;
                by_name.run(&stream, x, dims, &mut wide.view_mut())?;
                assert_results(&what, reduction, &wide.to_vec_on(&stream)?, &elements);
            }
            names.insert(name);
        }
    }
    Ok(names)
}
