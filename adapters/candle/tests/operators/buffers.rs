use candle_core::{DType, Module, Result, Tensor};
use tilewright_candle::{Buffers, Linear, flash_attn, rms_norm_residual, softmax_last_dim};

use crate::support::{close, random, wide};

/// Several results, of which later calls use earlier ones.
fn step(x: &Tensor, layer: &Linear) -> Result<[Tensor; 3]> {
    let (normed, sum) = rms_norm_residual(x, x, &layer.weight().get(0)?, 1e-5)?;
    let heads = layer.forward(&normed)?.reshape((1, x.dim(0)?, 1, 64))?;
    Ok([flash_attn(&heads, &heads, &heads, 0.125, true)?, normed, sum])
}

#[test]
fn results_are_written_again() -> Result<()> {
    let layer = Linear::new(random(&[64, 64], 1, DType::BF16)?, None);
    let buffers = Buffers::new();
    let mut first = None;
    for (seed, rows) in [(2, 6), (3, 6), (4, 9), (5, 9)] {
        let x = random(&[rows, 64], seed, DType::BF16)?;
        let expected = step(&x, &layer)?;
        let actual = buffers.run(|| step(&x, &layer))?;
        for (actual, expected) in actual.iter().zip(&expected) {
            close(actual, &wide(expected)?, 0.0);
        }
        // The second run writes what the first one made; the third needs other memory.
        match &first {
            None => first = Some((rows, actual)),
            Some((of, first)) if *of == rows => close(&first[2], &wide(&actual[2])?, 0.0),
            Some((_, first)) => assert_ne!(first[2].dims(), actual[2].dims()),
        }
    }
    Ok(())
}

/// A result that comes back as an argument is not written while it is read.
#[test]
fn what_is_read_is_not_written() -> Result<()> {
    let buffers = Buffers::new();
    let mut x = random(&[2, 32], 6, DType::F32)?;
    let mut expected = x.clone();
    for _ in 0..3 {
        x = buffers.run(|| softmax_last_dim(&x))?;
        expected = softmax_last_dim(&expected)?;
        close(&x, &wide(&expected)?, 0.0);
    }
    Ok(())
}
