//! Matrices that lie in memory as views do: pitches, windows, transposes, gaps, repetition.

use tilewright::ops::gemm;
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::guarded::Place;
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, product, relative_error};
use tilewright_support::suite::Outcome;

use crate::case::{Case, Input, Output};
use crate::operand::Operand;
use crate::reference::Reference;

const M: usize = 150;
const N: usize = 200;
const K: usize = 136;

/// Places for one matrix: aligned as TMA wants it or not, in either order, with gaps.
fn places(rows: usize, cols: usize) -> Vec<Place> {
    let shape = [1, rows, cols];
    let aligned = |len: usize| (len + 16).next_multiple_of(8);
    let by_rows = Place::by_rows(shape, aligned(cols));
    let by_columns = Place::by_columns(shape, aligned(rows));
    vec![
        by_rows,
        by_columns,
        // Windows of larger matrices: aligned to 16, 8 and 2 bytes.
        by_rows.shifted(8),
        by_rows.shifted(4),
        by_columns.shifted(1),
        // Pitches that are aligned to 4 and 2 bytes.
        Place::by_rows(shape, aligned(cols) + 2),
        Place::by_rows(shape, aligned(cols) + 1),
        Place::by_columns(shape, aligned(rows) + 1),
        // No contiguous dimension.
        by_rows.strided([0, 2 * aligned(cols), 2]),
        by_rows.strided([0, 3, 3 * rows + 1]),
    ]
}

/// All places of A, B and C with each other; on the emulator all pairs of two.
pub fn everywhere(device: &Device) -> Outcome {
    fn of<T: Input, U: Output>(device: &Device) -> Outcome {
        let operands = |seed, rows, cols| -> tilewright::Result<Vec<Operand<T>>> {
            places(rows, cols).into_iter().map(|place| Operand::random(device, seed, place)).collect()
        };
        let (left, right) = (operands(1, M, K)?, operands(2, K, N)?);
        let reference = Reference::new(left[0].values(), right[0].values(), 1, M);
        for (i, a) in left.iter().enumerate() {
            for (j, b) in right.iter().enumerate() {
                let mut c = places(M, N);
                if device.is_emulator() {
                    c = vec![c[(i + j) % c.len()]];
                }
                c.into_iter().try_for_each(|c| Case::<T, U>::new(a, b, &reference, c).check(device))?;
            }
        }
        Ok(())
    }
    of::<f16, f16>(device)?;
    of::<bf16, f32>(device)
}

/// Every kernel stores to every place of C, and reads it there.
pub fn outputs_of_every_kernel(device: &Device) -> Outcome {
    let a = Operand::<f16>::random(device, 1, places(M, K)[0])?;
    for b in &places(K, N)[..2] {
        let b = Operand::random(device, 2, *b)?;
        let reference = Reference::new(a.values(), b.values(), 1, M);
        for c in places(M, N) {
            Case::<f16, f16> { beta: 0.5, ..Case::new(&a, &b, &reference, c) }.check_all(device)?;
            Case::<f16, f32>::new(&a, &b, &reference, c).check_all(device)?;
            // Those that take no beta.
            let case = Case::<f16, f16>::new(&a, &b, &reference, c);
            let names = case.kernels(device)?.into_iter().filter(|name| name.ends_with("c2"));
            names.into_iter().try_for_each(|name| case.run(device, Some(name)))?;
        }
    }
    Ok(())
}

/// Elements that stand in several places: rows that repeat, and windows that overlap, as in a convolution.
pub fn repetition(device: &Device) -> Outcome {
    let b = Operand::<f16>::random(device, 2, places(K, N)[0])?;
    for strides in [[0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 8, 1], [0, 1, 8]] {
        let a = Operand::random(device, 1, places(M, K)[0].strided(strides))?;
        let reference = Reference::new(a.values(), b.values(), 1, M);
        Case::<f16, f16>::new(&a, &b, &reference, places(M, N)[0]).check_all(device)?;
    }
    Ok(())
}

/// The attention scores of one head, cut out of a fused projection by the methods of views.
pub fn methods(device: &Device) -> Outcome {
    let (tokens, heads, depth) = (70, 3, 64);
    let fused = normal::<bf16>(5, tokens * 3 * heads * depth);
    let tensor = Tensor::from_slice(device, &fused, &[tokens, 3, heads, depth])?;
    let mut scores = Tensor::filled(device, f32::NAN, &[heads, tokens, tokens])?;
    let stream = Stream::new(device)?;
    // [tokens, heads, depth] -> [heads, tokens, depth]
    let part = |which| tensor.view().select(1, which)?.transpose(0, 1);
    gemm(&stream, &part(0)?, &part(1)?.transpose(1, 2)?, &mut scores.view_mut())?;
    let scores = scores.to_vec_on(&stream)?;
    let pitch = 3 * heads * depth;
    for head in 0..heads {
        let at =
            |which: usize| Matrix::strided(&fused[(which * heads + head) * depth..], tokens, depth, pitch, 1);
        let all: Vec<_> = (0..tokens).collect();
        let exact = product(&at(0), &at(1).t(), &all);
        let error = relative_error(&scores[head * tokens * tokens..][..tokens * tokens], &exact);
        assert!(error < 3e-6, "head {head}: {error}");
    }
    Ok(())
}
