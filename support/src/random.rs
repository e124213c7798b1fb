//! Random data.
//!
//! Tensor cores draw less power, and run faster, on constant data; numbers from zeros mean nothing.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use crate::Real;

/// Values drawn from one generator.
const CHUNK: usize = 1 << 16;

/// Normally distributed values of mean 0 and deviation 1: the same for the same seed, on any number of threads.
pub fn normal<T: Real>(seed: u64, len: usize) -> Vec<T> {
    T::round(&draw(seed, len))
}

fn draw(seed: u64, len: usize) -> Vec<f32> {
    let mut data = vec![0.0; len];
    data.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, data)| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&(chunk as u64).to_le_bytes());
        let mut generator = StdRng::from_seed(bytes);
        data.fill_with(|| StandardNormal.sample(&mut generator));
    });
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_normal_and_repeats() {
        let x = normal::<f32>(7, 3 * CHUNK + 5);
        assert_eq!(x, normal::<f32>(7, x.len()));
        assert_ne!(x[..8], x[CHUNK..CHUNK + 8]);
        assert_ne!(x[..8], normal::<f32>(8, 8));
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / x.len() as f64;
        let square = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / x.len() as f64;
        assert!(mean.abs() < 0.01 && (square - 1.0).abs() < 0.02, "{mean} {square}");
    }
}
