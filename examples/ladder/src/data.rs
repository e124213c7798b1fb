//! Random data, and what comes out of it in f64.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, StandardNormal};
use tilewright::f16;

/// Normally distributed numbers of mean 0 and deviation 1: GPUs run faster on constant data.
pub fn normal(seed: u64, len: usize) -> Vec<f32> {
    StandardNormal.sample_iter(Xoshiro256PlusPlus::seed_from_u64(seed)).take(len).collect()
}

/// The same as f16.
pub fn normal_f16(seed: u64, len: usize) -> Vec<f16> {
    normal(seed, len).into_iter().map(f16::from_f32).collect()
}

/// `cols` x `rows` of `rows` x `cols` elements.
pub fn transposed<T: Copy>(x: &[T], cols: usize) -> Vec<T> {
    (0..cols).flat_map(|col| x[col..].iter().step_by(cols)).copied().collect()
}

/// Up to `most` of `rows` rows, the first and the last among them.
pub fn sample(rows: usize, most: usize) -> Vec<usize> {
    if rows <= most {
        return (0..rows).collect();
    }
    (0..most).map(|i| i * (rows - 1) / (most - 1)).collect()
}

/// These rows of a matrix.
pub fn pick<T: Copy>(x: &[T], cols: usize, rows: &[usize]) -> Vec<T> {
    rows.iter().flat_map(|row| &x[row * cols..(row + 1) * cols]).copied().collect()
}

/// These rows of A B, for B of `n` columns.
pub fn product<T: Copy + Into<f64>>(a: &[T], b: &[T], k: usize, n: usize, rows: &[usize]) -> Vec<f64> {
    let mut out = vec![0.0; rows.len() * n];
    for (row, sums) in rows.iter().zip(out.chunks_mut(n)) {
        for (a, b) in a[row * k..(row + 1) * k].iter().zip(b.chunks(n)) {
            let a: f64 = (*a).into();
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += a * (*b).into();
            }
        }
    }
    out
}

/// Softmax over rows of `cols` numbers.
pub fn softmax(x: &[f64], cols: usize) -> Vec<f64> {
    let row = |row: &[f64]| {
        let most = row.iter().fold(f64::NEG_INFINITY, |most, x| most.max(*x));
        let e: Vec<f64> = row.iter().map(|x| (x - most).exp()).collect();
        let sum: f64 = e.iter().sum();
        e.into_iter().map(move |e| e / sum)
    };
    x.chunks(cols).flat_map(row).collect()
}

/// These queries' rows of softmax(Q Kᵀ / √d) V, of one head.
pub fn attention([q, k, v]: [&[f16]; 3], d: usize, queries: &[usize]) -> Vec<f64> {
    let keys = k.len() / d;
    let scores = product(q, &transposed(k, d), d, keys, queries);
    let scores: Vec<f64> = scores.into_iter().map(|s| s / (d as f64).sqrt()).collect();
    let v: Vec<f64> = v.iter().map(|&v| v.into()).collect();
    let all: Vec<usize> = (0..queries.len()).collect();
    product(&softmax(&scores, keys), &v, keys, d, &all)
}

/// The distance of `y` from the reference, relative to the reference's length; NaN if `y` has one.
pub fn relative_error<T: Copy + Into<f64>>(y: &[T], reference: &[f64]) -> f64 {
    assert_eq!(y.len(), reference.len());
    let square = |x: f64| x * x;
    let distance: f64 = y.iter().zip(reference).map(|(y, r)| square((*y).into() - r)).sum();
    (distance / reference.iter().copied().map(square).sum::<f64>()).sqrt()
}
