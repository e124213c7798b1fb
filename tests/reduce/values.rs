//! Values of reductions.

use std::collections::BTreeSet;

use tilewright::ops::{Reduce, ReducedFrom, Reduction, reduce};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::Real;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{Elements, LENGTHS, Number, assert_results, check, packed, runnable};

/// Normal numbers, or for products such near 1.
fn numbers<T: Number>(reduction: Reduction, count: usize) -> Vec<T> {
    let x = normal::<f32>(count as u64, count);
    match reduction {
        Reduction::Product => T::round(&x.iter().map(|x| 1.0 + x / 128.0).collect::<Vec<_>>()),
        _ => T::round(&x),
    }
}

/// Rows and columns of every length.
pub fn every_kernel(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()>
    where
        f32: ReducedFrom<T>,
    {
        let mut seen = BTreeSet::new();
        for (i, (len, others)) in LENGTHS.into_iter().enumerate() {
            // Every reduction over some lengths: they differ in what is done to values alone.
            let reduction = Reduction::ALL[i % Reduction::ALL.len()];
            let x = Guarded::with(device, packed(others, len), &numbers::<T>(reduction, others * len))?;
            seen.append(&mut check(device, &x.view()?, &[2], &[reduction])?);
            let x = Guarded::with(device, packed(len, others), &numbers::<T>(reduction, others * len))?;
            seen.append(&mut check(device, &x.view()?, &[1], &[reduction])?);
        }
        for reduction in Reduction::ALL {
            let x = Guarded::with(device, packed(9, 240), &numbers::<T>(reduction, 9 * 240))?;
            check(device, &x.view()?, &[1], &[reduction])?;
            check(device, &x.view()?, &[2], &[reduction])?;
        }
        assert_eq!(seen, runnable::<T>(device, "reduce_"));
        Ok(())
    }
    of::<f16>(device)?;
    of::<bf16>(device)?;
    Ok(of::<f32>(device)?)
}

/// Padded, unaligned, by columns, every third element; results that lie apart.
pub fn dimensions(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let all = [&[0][..], &[1], &[2], &[0, 1], &[1, 2], &[2, 0], &[0, 1, 2]];
    for shape @ [_, rows, cols] in [[3, 5, 7], [2, 40, 72], [5, 3, 300]] {
        let x = numbers::<f16>(Reduction::Sum, shape.iter().product());
        let by_rows = Place::by_rows(shape, (cols + 8).next_multiple_of(8));
        let sparse = Place::by_rows(shape, 3 * cols).strided([3 * cols * (rows + 1), 3 * cols, 3]);
        for at in [
            by_rows,
            by_rows.shifted(1),
            Place::by_rows(shape, cols + 3),
            Place::by_columns(shape, rows + 2),
            sparse,
        ] {
            let x = Guarded::with(device, at, &x)?;
            for dims in all {
                check(device, &x.view()?, dims, &[Reduction::Sum, Reduction::Min])?;
            }
        }
        let x = Guarded::with(device, by_rows.shifted(3), &x)?;
        let values = f16::widen(&x.view()?.to_vec()?);
        let mut y = Guarded::<f16>::at(device, Place::by_columns([1, shape[0], cols], shape[0] + 3))?;
        let mut to = y.view_mut()?.select(0, 0)?;
        reduce(&stream, Reduction::Mean, &x.view()?, &[1], &mut to)?;
        stream.synchronize()?;
        let (y, outside) = y.read()?;
        assert_eq!(outside, 0, "elements outside were written");
        let elements = Elements { shape: &shape, values: &values }.of_results(&[1]);
        assert_results("results that lie apart", Reduction::Mean, &y, &elements);
    }
    Ok(())
}

/// Dimensions that are not one with their neighbours.
pub fn five_dimensions(device: &Device) -> Outcome {
    let shape = [2, 3, 4, 5, 6];
    let x = numbers::<f32>(Reduction::Sum, 3 * 5 * 6 * 7 * 8);
    let x = Tensor::from_slice(device, &x, &[3, 5, 6, 7, 8])?;
    let mut view = x.view();
    for (dim, &size) in shape.iter().enumerate() {
        view = view.narrow(dim, 1, size)?;
    }
    for dims in [&[0][..], &[4], &[0, 4], &[1, 3], &[0, 2, 4], &[1, 2, 3], &[0, 1, 2, 3, 4], &[0, 1, 3, 4]] {
        check(device, &view, dims, &[Reduction::Sum, Reduction::Max])?;
    }
    // Elements that repeat count as often.
    let one = x.view().narrow(0, 0, 1)?.narrow(1, 0, 1)?.broadcast(&[2, 9, 6, 7, 8])?;
    for dims in [&[1][..], &[0, 1, 4], &[0, 1, 2, 3, 4]] {
        check(device, &one, dims, &[Reduction::Sum])?;
    }
    Ok(())
}

/// Integers whose sums f32 has are added without an error, in any order.
pub fn integers(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for (rows, cols) in [(3, 8191), (1, 131_072), (4096, 24)] {
        let x: Vec<f32> = normal::<f32>(5, rows * cols).iter().map(|x| (x * 4.0).round()).collect();
        let x = Tensor::from_slice(device, &f16::round(&x), &[rows, cols])?;
        let values = f16::widen(&x.to_vec()?);
        for dim in [0, 1] {
            let elements = Elements { shape: &[rows, cols], values: &values }.of_results(&[dim]);
            for reduction in [Reduction::Sum, Reduction::Max, Reduction::Min] {
                let mut y = Tensor::filled(device, f32::NAN, &[[cols, rows][dim]])?;
                reduce(&stream, reduction, &x.view(), &[dim], &mut y.view_mut())?;
                for (y, x) in y.to_vec_on(&stream)?.into_iter().zip(&elements) {
                    assert_eq!(f64::from(y), crate::case::exact(reduction, x), "{rows} x {cols} over {dim}");
                }
            }
        }
    }
    Ok(())
}

/// NaN of either sign, infinities, zeros of either sign, all equal.
pub fn extremes(device: &Device) -> Outcome {
    for cols in [8, 100, 1001] {
        let ordinary = normal::<f32>(cols as u64, cols);
        let with = |places: &[(usize, f32)]| {
            let mut row = ordinary.clone();
            places.iter().for_each(|&(at, x)| row[at % cols] = x);
            row
        };
        let negative = f32::from_bits(f32::NAN.to_bits() | 1 << 31);
        let rows = [
            ordinary.clone(),
            with(&[(cols - 1, f32::NAN)]),
            with(&[(cols / 2, negative), (0, f32::INFINITY)]),
            with(&[(cols / 3, f32::INFINITY)]),
            with(&[(cols / 3, f32::NEG_INFINITY)]),
            with(&[(0, f32::INFINITY), (cols - 1, f32::NEG_INFINITY)]),
            vec![f32::NEG_INFINITY; cols],
            vec![f32::INFINITY; cols],
            vec![f32::NAN; cols],
            vec![1.0; cols],
            vec![-0.0; cols],
        ];
        let count = rows.len();
        let reductions = [Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min, Reduction::Norm];
        let by_rows = Tensor::from_slice(device, &f16::round(&rows.concat()), &[count, cols])?;
        check(device, &by_rows.view(), &[1], &reductions)?;
        let by_columns: Vec<f32> = (0..cols * count).map(|i| rows[i % count][i / count]).collect();
        check(device, &Tensor::from_slice(device, &by_columns, &[cols, count])?.view(), &[0], &reductions)?;
    }
    Ok(())
}

pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let none = Tensor::<f32>::zeros(device, &[3, 0])?;
    for (reduction, result) in [
        (Reduction::Sum, 0.0),
        (Reduction::Mean, f32::NAN),
        (Reduction::Max, f32::NEG_INFINITY),
        (Reduction::Min, f32::INFINITY),
        (Reduction::Product, 1.0),
        (Reduction::Norm, 0.0),
    ] {
        for shape in [[3, 0], [0, 3]] {
            let x = Tensor::<bf16>::zeros(device, &shape)?;
            let dim = usize::from(shape[1] == 0);
            let mut y = Tensor::filled(device, 7.0, &[3])?;
            let candidates = Reduce::new(reduction).candidates(&x.view(), &[dim], &y.view_mut())?;
            for name in candidates.iter().filter(|k| k.rejection().is_none()).map(|k| k.name()) {
                Reduce::new(reduction).kernel(name).run(&stream, &x.view(), &[dim], &mut y.view_mut())?;
                for y in y.to_vec_on(&stream)? {
                    assert!(y == result || y.is_nan() && result.is_nan(), "{name}, {reduction:?}: {y}");
                }
            }
        }
        // No results.
        let mut y = Tensor::<f32>::zeros(device, &[0])?;
        reduce(&stream, reduction, &none.view(), &[0], &mut y.view_mut())?;
    }
    Ok(())
}
