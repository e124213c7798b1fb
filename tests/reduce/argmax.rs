//! Argmax: the places are exact.

use std::collections::BTreeSet;

use tilewright::ops::{Argmax, argmax};
use tilewright::{Device, Stream, Tensor, TensorView, bf16, f16};
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{LENGTHS, Number, packed, runnable};

/// Checks the places of the largest and of the least elements of a matrix over each of its dimensions.
fn check_dims(device: &Device, x: &[f32], [rows, cols]: [usize; 2]) -> tilewright_support::Result<()> {
    let stream = Stream::new(device)?;
    let view = Tensor::from_slice(device, x, &[rows, cols])?;
    for dim in [0, 1] {
        let lines: Vec<Vec<f32>> = match dim {
            0 => (0..cols).map(|col| (0..rows).map(|row| x[row * cols + col]).collect()).collect(),
            _ => x.chunks(cols).map(<[f32]>::to_vec).collect(),
        };
        let mut y = Tensor::<i32>::zeros(device, &[lines.len()])?;
        for (argmax, sign) in [(Argmax::new(), 1.0), (Argmax::new().least(), -1.0)] {
            let exact: Vec<i32> =
                lines.iter().map(|line| place(&line.iter().map(|x| sign * x).collect::<Vec<_>>())).collect();
            let argmax = argmax.dim(dim);
            let candidates = argmax.candidates(&view.view(), &y.view_mut())?;
            for name in candidates.iter().filter(|k| k.rejection().is_none()).map(|k| k.name()) {
                argmax.kernel(name).run(&stream, &view.view(), &mut y.view_mut())?;
                assert_eq!(y.to_vec_on(&stream)?, exact, "{name}, {rows} x {cols} over {dim}, {argmax:?}");
            }
        }
    }
    Ok(())
}

/// The places over either dimension, of the largest and the least.
pub fn dimensions(device: &Device) -> Outcome {
    let most = if device.is_emulator() { 1500 } else { 10_000 };
    for shape @ [rows, cols] in [[1, 1], [7, 33], [300, 8], [24, 1024], [most, 4]] {
        let x: Vec<f32> = normal::<f32>(9, rows * cols).iter().map(|x| (x * 8.0).round()).collect();
        check_dims(device, &x, shape)?;
    }
    let mut x = vec![0.0; 64 * 16];
    (x[5], x[9 * 16 + 5], x[3 * 16]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    Ok(check_dims(device, &x, [64, 16])?)
}

/// The place of the first NaN, or else of the first of the largest.
fn place(row: &[f32]) -> i32 {
    let nan = row.iter().position(|x| x.is_nan());
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    nan.or_else(|| row.iter().position(|&x| x == max)).map_or(-1, |at| at as i32)
}

/// Checks the kernel's results, or those of all that can compute rows that lie so; gives the kernels' names.
fn check<T: Number>(
    device: &Device,
    x: &[T],
    at: Place,
) -> tilewright_support::Result<BTreeSet<&'static str>> {
    let stream = Stream::new(device)?;
    let [batch, rows, cols] = at.shape;
    let exact: Vec<i32> = T::widen(x).chunks(cols).map(place).collect();
    let x = Guarded::with(device, at, x)?;
    let mut y = Tensor::<i32>::zeros(device, &[batch, rows])?;
    let candidates = Argmax::new().candidates(&x.view()?, &y.view_mut())?;
    let possible = candidates.iter().filter(|k| k.rejection().is_none()).map(|k| k.name());
    let possible: BTreeSet<_> = possible.collect();
    for name in &possible {
        y.fill(&stream, -7)?;
        Argmax::new().kernel(name).run(&stream, &x.view()?, &mut y.view_mut())?;
        assert_eq!(y.to_vec_on(&stream)?, exact, "{name}, {at:?}");
    }
    Ok(possible)
}

/// Rows of every length, with few different values, so that many are equal.
pub fn every_kernel(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        let mut seen = check(device, &normal::<T>(1, 40 * 16), Place::by_columns([1, 16, 40], 16))?;
        for (cols, rows) in LENGTHS {
            let x: Vec<f32> = normal::<f32>(cols as u64, rows * cols).iter().map(|x| x.round()).collect();
            seen.append(&mut check(device, &T::round(&x), packed(rows, cols))?);
        }
        assert_eq!(seen, runnable::<T>(device, "reduce_"));
        Ok(())
    }
    of::<f16>(device)?;
    of::<bf16>(device)?;
    Ok(of::<f32>(device)?)
}

/// Padded, unaligned, by columns; rows of odd pitches, with many equal elements; more tiles than the device takes at a time.
pub fn places(device: &Device) -> Outcome {
    fn odd<T: Number>(device: &Device) -> Outcome {
        for cols in [1, 7, 8, 9, 33, 1001] {
            let shape = [2, 3, cols];
            let x: Vec<f32> = normal::<f32>(cols as u64, 6 * cols).iter().map(|x| x.round()).collect();
            for (more, first) in [(0, 0), (0, 1), (2, 5)] {
                check(device, &T::round(&x), Place::by_rows(shape, cols + more).shifted(first))?;
            }
        }
        Ok(())
    }
    odd::<f16>(device)?;
    odd::<bf16>(device)?;
    odd::<f32>(device)?;
    for shape @ [_, rows, cols] in [[2, 3, 1000], [1, 5, 33], [1, 2, 9000]] {
        let x = normal::<f16>(7, shape.iter().product());
        let by_rows = Place::by_rows(shape, cols + 8);
        for at in [by_rows, by_rows.shifted(1), Place::by_columns(shape, rows + 2)] {
            check(device, &x, at)?;
        }
    }
    let rows = device.sm_count() as usize * 20;
    check(device, &normal::<f32>(3, rows * 128), packed(rows, 128))?;
    Ok(())
}

/// NaN of either sign, infinities, zeros of either sign, all equal.
pub fn extremes(device: &Device) -> Outcome {
    for cols in [8, 96, 1001, 8193] {
        let ordinary = normal::<f32>(cols as u64, cols);
        let with = |places: &[(usize, f32)]| {
            let mut row = ordinary.clone();
            places.iter().for_each(|&(at, x)| row[at % cols] = x);
            row
        };
        let negative = f32::from_bits(f32::NAN.to_bits() | 1 << 31);
        let mut zeros = vec![-1.0; cols];
        (zeros[cols - 3], zeros[cols - 1]) = (-0.0, 0.0);
        let rows = [
            ordinary.clone(),
            with(&[(cols / 2, f32::NAN), (cols - 1, f32::NAN), (0, f32::INFINITY)]),
            with(&[(5, negative)]),
            with(&[(cols - 1, f32::INFINITY), (cols - 2, f32::INFINITY)]),
            vec![f32::NEG_INFINITY; cols],
            vec![f32::NAN; cols],
            vec![3.0; cols],
            zeros,
        ];
        check::<f32>(device, &rows.concat(), packed(rows.len(), cols))?;
        check::<bf16>(device, &tilewright_support::Real::round(&rows.concat()), packed(rows.len(), cols))?;
    }
    Ok(())
}

pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for shape in [[0, 5], [0, 0]] {
        let (x, mut y) = (Tensor::<f16>::zeros(device, &shape)?, Tensor::<i32>::zeros(device, &[0])?);
        argmax(&stream, &x.view(), &mut y.view_mut())?;
    }
    // A vector has one place; of no elements there is none.
    let (x, mut y) =
        (Tensor::<f32>::from_slice(device, &[1.0, 2.0], &[2])?, Tensor::<i64>::zeros(device, &[])?);
    argmax(&stream, &x.view(), &mut y.view_mut())?;
    assert_eq!(y.to_vec()?, [1]);
    let text = "`x` was of shape [2, 0]; it must be of rows of 1 to 2^31 - 1 elements";
    let (none, mut y) = (Tensor::<f32>::zeros(device, &[2, 0])?, Tensor::<i32>::zeros(device, &[2])?);
    let says = |x: &TensorView<'_, f32>, y: &mut Tensor<i32>, text: &str| {
        assert_eq!(argmax(&stream, x, &mut y.view_mut()).expect_err(text).to_string(), text);
    };
    says(&none.view(), &mut y, text);
    let pair = x.view().insert_dim(0)?;
    says(&pair, &mut y, "`y` was of shape [2]; it must be of shape [1]: one for each row of `x`");
    let text = "`x` was of shape []; it must be of 1 dimension or more";
    says(&pair.clone().select(0, 0)?.select(0, 0)?, &mut y, text);
    let there = Tensor::<f32>::zeros(&Device::emulator_with_seed(5), &[2, 3])?;
    let text = format!("`x` was on emulator:5; it must be on {}, the device of this call", device.label());
    says(&there.view(), &mut y, &text);
    // SAFETY: no call may use it.
    let inside = unsafe { TensorView::<f32>::from_raw_parts(device, y.address(), &[2, 1], &[1, 1])? };
    let text = "`y` overlaps `x`; what a call writes must lie apart from all else that it uses";
    says(&inside, &mut y, text);
    let error = Argmax::new().dim(2).run(&stream, &pair, &mut y.view_mut()).expect_err("no such dimension");
    assert_eq!(error.to_string(), "`dim` was 2; it must be a dimension of shape [1, 2], below 2");
    Ok(())
}
