//! The largest elements of rows: values and places are exact.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use tilewright::ops::{IndexElement, TopK, top_k};
use tilewright::{Device, Stream, Tensor, TensorViewMut, bf16, f16};
use tilewright_support::Real;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{Number, packed, runnable};

/// NaN is larger than all numbers.
fn order(a: f32, b: f32) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The columns of the largest elements of a row, or of the least, in their order.
fn places(row: &[f32], found: usize, least: bool) -> Vec<u32> {
    let mut all: Vec<u32> = (0..row.len() as u32).collect();
    all.sort_by(|&a, &b| {
        let [x, y] = [a, b].map(|i| row[i as usize]);
        if least { order(x, y) } else { order(y, x) }
    });
    all.truncate(found);
    all
}

/// Checks the results of all kernels, with indices of 4 bytes; gives their names.
fn check<T: Number>(
    device: &Device,
    x: &[T],
    at: Place,
    found: usize,
    least: bool,
) -> tilewright_support::Result<BTreeSet<&'static str>> {
    check_with(device, x, at, found, least, ("", |column: u32| column))
}

/// The same with any indices, of kernels whose names contain some text.
fn check_with<T: Number, I: IndexElement>(
    device: &Device,
    x: &[T],
    at: Place,
    found: usize,
    least: bool,
    (part, index): (&str, impl Fn(u32) -> I),
) -> tilewright_support::Result<BTreeSet<&'static str>> {
    let stream = Stream::new(device)?;
    let [batch, rows, cols] = at.shape;
    let wide = T::widen(x);
    let exact: Vec<u32> = wide.chunks(cols).flat_map(|row| places(row, found, least)).collect();
    let given = Guarded::with(device, at, x)?;
    let to = Place::by_rows([batch, rows, found], found + 3).shifted(1);
    let expected: Vec<I> = exact.iter().map(|&column| index(column)).collect();
    let mut indices = Tensor::<I>::zeros(device, &[batch, rows, found])?;
    let options = if least { TopK::new().least() } else { TopK::new() };
    let mut names = BTreeSet::new();
    let mut values = Guarded::<T>::at(device, to)?;
    let candidates = options.candidates(&given.view()?, &values.view_mut()?, &indices.view_mut())?;
    let possible = candidates.iter().filter(|k| k.rejection().is_none()).map(|k| k.name());
    for name in possible.filter(|name| name.contains(part)) {
        let what = format!("{name}, {found} of {at:?}");
        let mut values = Guarded::<T>::at(device, to)?;
        indices.fill(&stream, index(7_777_777))?;
        options.kernel(name).run(
            &stream,
            &given.view()?,
            &mut values.view_mut()?,
            &mut indices.view_mut(),
        )?;
        assert_eq!(indices.to_vec_on(&stream)?, expected, "{what}");
        let (values, outside) = values.read()?;
        assert_eq!(outside, 0, "{what}: elements outside were written");
        for (i, (value, column)) in T::widen(&values).into_iter().zip(&exact).enumerate() {
            let x = wide[i / found * cols + *column as usize];
            assert!(
                value.to_bits() == x.to_bits() || value.is_nan() && x.is_nan(),
                "{what}: {value}, not {x}"
            );
        }
        names.insert(name);
    }
    Ok(names)
}

/// Rows of every length, few and many elements of them, with equal ones among them.
pub fn every_kernel(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        let mut seen = BTreeSet::new();
        for (cols, rows, found) in [
            (1, 3, 1),
            (8, 3, 8),
            (31, 2, 1),
            (32, 2, 20),
            (33, 2, 33),
            (127, 2, 64),
            (1000, 2, 10),
            (2048, 1, 2048),
            (4096, 1, 128),
            (4097, 1, 129),
            (8191, 2, 50),
            (20_000, 1, 2048),
        ] {
            let coarse = if cols % 2 == 0 { 8.0 } else { 1000.0 };
            let x: Vec<f32> = normal::<f32>(cols as u64, rows * cols)
                .iter()
                .map(|x| (x * coarse).round() / coarse)
                .collect();
            seen.append(&mut check(device, &T::round(&x), packed(rows, cols), found, cols % 3 == 0)?);
        }
        assert_eq!(seen, runnable::<T>(device, "top_k_"));
        Ok(())
    }
    of::<f16>(device)?;
    of::<bf16>(device)?;
    Ok(of::<f32>(device)?)
}

/// Rows that lanes of a warp share: of every length, few and many of them, up to as many elements as their lists have.
pub fn short_rows(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        for cols in [1, 2, 3, 7, 8, 9, 16, 17, 32, 63, 64, 100, 128, 129, 250, 256, 384, 500, 512, 777, 1024]
        {
            for (rows, found) in [(1, 2), (3, 1), (7, 8), (20, 9), (2, 16), (5000 / cols, 5)] {
                let found = found.min(cols);
                // Equal elements among them, and in some rows many.
                let coarse = [2.0, 1000.0, 16.0][(rows + found) % 3];
                let x: Vec<f32> = normal::<f32>((cols * found) as u64, rows * cols)
                    .iter()
                    .map(|x| (x * coarse).round() / coarse)
                    .collect();
                let (at, least) = (packed(rows, cols), (cols + found) % 2 == 0);
                let names =
                    check_with(device, &T::round(&x), at, found, least, ("short", |column: u32| column))?;
                assert!(!names.is_empty(), "{found} of {cols} columns");
            }
        }
        // Values that differ in their last bits alone.
        let close: Vec<f32> = (0..6 * 160).map(|i| 1.0 + (i * 7 % 16) as f32 * f32::EPSILON).collect();
        check(device, &close, packed(6, 160), 16, false)?;
        // In order, either way.
        let rising: Vec<f32> = (0..5 * 1024).map(|i| (i % 1024) as f32 - 500.0).collect();
        for least in [false, true] {
            check(device, &T::round(&rising), packed(5, 1024), 16, least)?;
        }
        Ok(())
    }
    of::<f16>(device)?;
    of::<bf16>(device)?;
    Ok(of::<f32>(device)?)
}

/// Indices of each type.
pub fn indices(device: &Device) -> Outcome {
    for (cols, found) in [(24, 8), (1100, 40), (9000, 3)] {
        let (x, at) = (normal::<f16>(2, 3 * cols), packed(3, cols));
        check_with(device, &x, at, found, false, ("", i64::from))?;
        check_with(device, &x, at, found, false, ("", |column| column as i32))?;
    }
    Ok(())
}

/// As long as rows may be; all but a few equal, so that columns decide.
pub fn long_rows(device: &Device) -> Outcome {
    let cols = 1 << 18;
    check(device, &normal::<f16>(4, cols), packed(1, cols), 2048, false)?;
    let mut x = vec![f32::NEG_INFINITY; 70_000];
    (x[69_999], x[3], x[30_000]) = (1.0, 0.5, f32::NAN);
    check(device, &x, packed(1, x.len()), 300, false)?;
    check(device, &vec![bf16::from_f32(2.0); 40_001], packed(1, 40_001), 1000, true)?;
    // In order, so that all of the largest lie together.
    let rising: Vec<f32> = (0..50_000).map(|i| i as f32 - 20_000.0).collect();
    for least in [false, true] {
        check(device, &rising, packed(1, rising.len()), 40, least)?;
    }
    Ok(())
}

/// Padded, unaligned, by columns; several batches.
pub fn places_anywhere(device: &Device) -> Outcome {
    for (shape @ [_, rows, cols], found) in
        [([2, 3, 100], 7), ([3, 4, 64], 3), ([2, 2, 512], 12), ([1, 2, 5000], 40)]
    {
        let x = normal::<f16>(7, shape.iter().product());
        let by_rows = Place::by_rows(shape, cols + 8);
        for at in
            [by_rows, by_rows.shifted(1), Place::by_rows(shape, cols + 3), Place::by_columns(shape, rows + 2)]
        {
            check(device, &x, at, found, false)?;
        }
    }
    // More rows than the device takes at a time.
    let rows = device.sm_count() as usize * 5;
    check(device, &normal::<f32>(3, rows * 64), packed(rows, 64), 4, true)?;
    Ok(())
}

/// NaN of either sign, infinities, zeros of either sign, all equal.
pub fn extremes(device: &Device) -> Outcome {
    let negative = f32::from_bits(f32::NAN.to_bits() | 1 << 31);
    for cols in [16, 5000] {
        let mut mixed = normal::<f32>(1, cols);
        let special = [f32::NAN, negative, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::NAN, -0.0, 0.0];
        for (i, x) in special.into_iter().enumerate() {
            mixed[(i * 7 + 1) % cols] = x;
        }
        let zeros = (0..cols).map(|i| if i % 3 == 0 { 0.0 } else { -0.0 }).collect();
        let rows =
            [mixed, zeros, vec![f32::NAN; cols], vec![f32::NEG_INFINITY; cols], vec![3.0; cols]].concat();
        for least in [false, true] {
            check::<f32>(device, &rows, packed(5, cols), 16, least)?;
            check::<f16>(device, &f16::round(&rows), packed(5, cols), 11, least)?;
            check::<bf16>(device, &bf16::round(&rows), packed(5, cols), 3, least)?;
        }
    }
    Ok(())
}

/// Nothing to do; calls that are refused.
pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for (shape, found) in [([0, 5], 2), ([3, 5], 0), ([3, 0], 0)] {
        let x = Tensor::<f16>::zeros(device, &shape)?;
        let mut values = Tensor::<f16>::zeros(device, &[shape[0], found])?;
        let mut indices = Tensor::<u32>::zeros(device, &[shape[0], found])?;
        top_k(&stream, &x.view(), &mut values.view_mut(), &mut indices.view_mut())?;
    }
    let x = Tensor::<f32>::zeros(device, &[2, 3000])?;
    let mut values = Tensor::filled(device, f32::NAN, &[2, 2049])?;
    let mut indices = Tensor::<u32>::zeros(device, &[2, 2049])?;
    let mut says = |x: &tilewright::TensorView<'_, f32>, [found, places]: [usize; 2], text: &str| {
        let mut values = values.view_mut().narrow(1, 0, found).expect("columns");
        let mut indices = indices.view_mut().narrow(1, 0, places).expect("columns");
        let error = top_k(&stream, x, &mut values, &mut indices).expect_err(text);
        assert_eq!(error.to_string(), text);
    };
    let text = "`values` was of shape [2, 2049]; it must be that of `x`, [2, 3000], but for the last dimension, which is up to 2048";
    says(&x.view(), [2049, 2049], text);
    let text = "`values` was of shape [2, 6]; it must be that of `x`, [2, 5], but for the last dimension, which is up to 5";
    says(&x.view().narrow(1, 0, 5)?, [6, 6], text);
    let text = "`indices` was of shape [2, 4]; it must be of shape [2, 3], the shape of `values`";
    says(&x.view(), [3, 4], text);
    says(
        &x.view().select(0, 0)?.select(0, 0)?,
        [1, 1],
        "`x` was of shape []; it must be of 1 dimension or more",
    );
    let long = x.view().narrow(1, 0, 1)?.broadcast(&[2, (1 << 18) + 1])?;
    says(&long, [1, 1], "`x` was of shape [2, 262145]; it must be of rows of up to 262144 elements");
    let there = Tensor::<f32>::zeros(&Device::emulator_with_seed(5), &[2, 3000])?;
    let text = format!("`x` was on emulator:5; it must be on {}, the device of this call", device.label());
    says(&there.view(), [1, 1], &text);
    // SAFETY: no call may use it.
    let mut over = unsafe { TensorViewMut::<f32>::from_raw_parts(device, x.address(), &[2, 1], &[1, 1])? };
    let mut few = Tensor::<u32>::zeros(device, &[2, 1])?;
    let error = top_k(&stream, &x.view(), &mut over, &mut few.view_mut()).expect_err("values over x");
    let text = "`values` overlaps `x`; what a call writes must lie apart from all else that it uses";
    assert_eq!(error.to_string(), text);
    assert!(values.to_vec()?.iter().all(|value| value.is_nan()));
    Ok(())
}
