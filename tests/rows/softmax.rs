//! Softmax and log-softmax.

use std::collections::BTreeSet;

use tilewright::ops::{Softmax, log_softmax, softmax};
use tilewright::{Arch, Device, Stream, Tensor, TensorView, TensorViewMut, bf16, f16};
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::rows;
use tilewright_support::suite::Outcome;

use crate::case::{LENGTHS, Number, Tried, assert_rows, output, packed, runnable};

/// What an element may be off by: its rounding, that of exponents of 2, and what the approximations leave.
fn allowed<T: Number>(log: bool) -> impl Fn(f64) -> f64 {
    move |exact: f64| {
        let rounding = exact.abs() * T::ROUNDING + T::LEAST;
        if log {
            rounding + 1e-6 + exact.abs() * 3e-7
        } else {
            rounding + exact * (1e-6 + exact.max(1e-300).ln().abs() * 3e-7)
        }
    }
}

fn reference<T: Number>(x: &[T], cols: usize, scale: f32, log: bool) -> Vec<f64> {
    T::widen(x).chunks(cols).flat_map(|row| rows::softmax(row, f64::from(scale), log)).collect()
}

/// Runs `softmax`, whose reference is of this scale, on rows with these elements at these places.
fn check<T: Number>(
    device: &Device,
    (what, scale, log): (&str, f32, bool),
    x: &[T],
    [from, to]: [Place; 2],
    run: impl Fn(&TensorView<'_, T>, &mut TensorViewMut<'_, T>) -> tilewright::Result<()>,
) -> tilewright_support::Result<()> {
    let exact = reference(x, from.shape[2], scale, log);
    let (x, mut y) = (Guarded::with(device, from, x)?, output::<T>(device, to)?);
    run(&x.view()?, &mut y.view_mut()?)?;
    let nan = exact.iter().filter(|x| x.is_nan()).count();
    assert_rows(what, &y, &exact, nan, allowed::<T>(log));
    Ok(())
}

/// The kernels that can compute rows that lie so.
fn possible<T: Number>(device: &Device, place: Place, tried: Tried) -> tilewright::Result<Vec<&'static str>> {
    let (x, mut y) = (output::<T>(device, place)?, output::<T>(device, place)?);
    let all = Softmax::new().candidates(&x.view()?, &y.view_mut()?)?;
    Ok(tried.of(device, all.iter().map(|k| (k.name(), k.cycles()))))
}

/// Runs every kernel that can compute these shapes; gives their names.
fn on_every_kernel<T: Number>(
    device: &Device,
    shapes: impl IntoIterator<Item = [usize; 2]>,
    tried: impl Fn(usize) -> Tried,
) -> tilewright_support::Result<BTreeSet<&'static str>> {
    let stream = Stream::new(device)?;
    let (mut seen, mut log) = (BTreeSet::new(), false);
    for (turn, [rows, cols]) in shapes.into_iter().enumerate() {
        let (x, place) = (normal::<T>(cols as u64, rows * cols), packed(rows, cols));
        for name in possible::<T>(device, place, tried(turn))? {
            let softmax = Softmax::new().kernel(name);
            let softmax = if log { softmax.log() } else { softmax };
            let what = format!("{name}, {rows} x {cols}, log {log}");
            check(device, (&what, 1.0, log), &x, [place; 2], |x, y| softmax.run(&stream, x, y))?;
            seen.insert(name);
            log = !log;
        }
    }
    Ok(seen)
}

/// Rows that fill nothing, and that fill every tile.
pub fn every_kernel(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        let shapes = LENGTHS.map(|cols| [if cols > 10_000 { 2 } else { 5 }, cols]);
        assert_eq!(
            on_every_kernel::<T>(device, shapes, Tried::InTurn)?,
            runnable::<T>(device, "softmax_sm_")
        );
        Ok(())
    }
    of::<f16>(device)?;
    of::<bf16>(device)?;
    Ok(of::<f32>(device)?)
}

/// More tiles than the device takes at a time.
pub fn several_tiles(device: &Device) -> Outcome {
    let sms = device.sm_count() as usize;
    let shapes =
        [[sms * 3 * 16 * 16 + 5, 8], [sms * 40, 256], [sms * 40, 1000], [sms * 7, 2048], [sms * 3, 16384]];
    on_every_kernel::<f16>(device, shapes, |_| Tried::Likely)?;
    on_every_kernel::<f32>(device, [[sms * 40, 128], [sms * 5, 5000]], |_| Tried::Likely)?;
    Ok(())
}

/// Padded, unaligned, by columns, with other places of y.
pub fn places(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        let stream = Stream::new(device)?;
        for shape @ [_, rows, cols] in [[2, 3, 1000], [1, 5, 33], [3, 2, 4096], [1, 2, 40_000]] {
            let by_rows = Place::by_rows(shape, cols + 8);
            let places = [
                by_rows,
                Place::by_rows(shape, cols + 3),
                by_rows.shifted(1),
                Place::by_columns(shape, rows + 2),
                Place::by_rows(shape, 3 * cols).strided([3 * cols * (rows + 1), 3 * cols, 3]),
            ];
            let x = normal::<T>(7, shape.iter().product());
            for (i, &from) in places.iter().enumerate() {
                for to in [from, places[(i + 1) % 5]] {
                    let what = format!("{} from {from:?} to {to:?}", T::DTYPE);
                    check(device, (&what, 1.0, false), &x, [from, to], |x, y| softmax(&stream, x, y))?;
                }
            }
        }
        // Rows of one element, whose stride means nothing.
        let place = Place::by_rows([2, 9, 1], 1).strided([9, 1, 9]);
        let x = normal::<T>(8, 18);
        check(device, ("one column", 1.0, false), &x, [place; 2], |x, y| softmax(&stream, x, y))
    }
    of::<f16>(device)?;
    Ok(of::<f32>(device)?)
}

/// Softmax of every dimension of five, whose rows no two dimensions step over evenly.
pub fn dimensions(device: &Device) -> Outcome {
    let (shape, stream) = ([2, 3, 4, 5, 6], Stream::new(device)?);
    let values = normal::<f32>(3, shape.iter().product());
    let x = Tensor::from_slice(device, &values, &shape)?;
    for dim in 0..5 {
        let mut y = Tensor::filled(device, f32::NAN, &shape)?;
        softmax(&stream, &x.view().transpose(dim, 4)?, &mut y.view_mut().transpose(dim, 4)?)?;
        let (is, x) = (y.view().transpose(dim, 4)?.to_vec()?, x.view().transpose(dim, 4)?.to_vec()?);
        let exact = reference(&x, shape[dim], 1.0, false);
        let near = |(y, exact): (&f32, &f64)| (f64::from(*y) - exact).abs() < 1e-6;
        assert!(is.iter().zip(&exact).all(near), "dimension {dim}");
    }
    // A broadcast row, and a vector.
    let row = x.view().select(0, 0)?.select(0, 0)?.select(0, 0)?;
    let mut y = Tensor::filled(device, f32::NAN, &[5, 6])?;
    softmax(&stream, &row.clone().narrow(0, 1, 1)?.broadcast(&[5, 6])?, &mut y.view_mut())?;
    let mut one = Tensor::filled(device, f32::NAN, &[6])?;
    softmax(&stream, &row.select(0, 1)?, &mut one.view_mut())?;
    let one = one.to_vec()?;
    assert!(y.to_vec()?.chunks(6).all(|y| y == one), "{one:?}");
    Ok(())
}

pub fn scales(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for cols in [8, 100, 3000, 5001] {
        let x = normal::<f16>(5, 3 * cols);
        for (scale, log) in [(0.125, false), (30.0, false), (0.125, true), (30.0, true)] {
            let what = format!("{cols} columns, scale {scale}, log {log}");
            let softmax = Softmax::new().scale(scale);
            let softmax = if log { softmax.log() } else { softmax };
            check(device, (&what, scale, log), &x, [packed(3, cols); 2], |x, y| softmax.run(&stream, x, y))?;
        }
        check(device, ("log_softmax", 1.0, true), &x, [packed(3, cols); 2], |x, y| {
            log_softmax(&stream, x, y)
        })?;
    }
    Ok(())
}

/// Rows of all that is no ordinary number, beside ordinary ones.
pub fn extremes(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device, huge: f32) -> Outcome {
        let stream = Stream::new(device)?;
        for cols in [8, 96, 1000, 8192, 8193, 40_000] {
            let ordinary = normal::<f32>(cols as u64, cols);
            let with = |at: usize, x: f32| {
                let mut row = ordinary.clone();
                row[at % cols] = x;
                row
            };
            let only = |x: f32| {
                let mut row = vec![f32::NEG_INFINITY; cols];
                row[cols - 1] = x;
                row
            };
            let all = [
                ordinary.clone(),
                with(cols / 2, f32::NAN),
                with(cols - 1, f32::INFINITY),
                with(3, f32::NEG_INFINITY),
                vec![f32::NEG_INFINITY; cols],
                only(2.0),
                only(f32::NAN),
                only(f32::INFINITY),
                vec![huge; cols],
                vec![-huge; cols],
                with(cols - 2, huge),
                ordinary.clone(),
            ];
            let x = T::round(&all.concat());
            let place = packed(all.len(), cols);
            for name in possible::<T>(device, place, Tried::Likely)? {
                for log in [false, true] {
                    // An element that is -inf beside +inf, whose difference is none: exactly NaN, as the row.
                    let softmax = Softmax::new().kernel(name);
                    let softmax = if log { softmax.log() } else { softmax };
                    let exact = whole_rows(reference(&x, cols, 1.0, log), cols);
                    let (x, mut y) = (Guarded::with(device, place, &x)?, output::<T>(device, place)?);
                    softmax.run(&stream, &x.view()?, &mut y.view_mut()?)?;
                    let nan = exact.iter().filter(|x| x.is_nan()).count();
                    assert_rows(&format!("{name}, {cols}, log {log}"), &y, &exact, nan, allowed::<T>(log));
                }
            }
        }
        Ok(())
    }
    of::<f16>(device, 60_000.0)?;
    of::<f32>(device, 1e30)
}

/// NaN in a row is NaN everywhere in it.
fn whole_rows(mut exact: Vec<f64>, cols: usize) -> Vec<f64> {
    for row in exact.chunks_mut(cols) {
        if row.iter().any(|x| x.is_nan()) {
            row.fill(f64::NAN);
        }
    }
    exact
}

pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for shape in [&[0, 5][..], &[5, 0], &[0], &[2, 0, 3, 4]] {
        let (x, mut y) = (Tensor::<f16>::zeros(device, shape)?, Tensor::<f16>::zeros(device, shape)?);
        softmax(&stream, &x.view(), &mut y.view_mut())?;
        Softmax::new().plan(&x.view(), &y.view_mut())?;
    }
    Ok(())
}

/// A capture fails where something is allocated or waited for; two runs give the same bits.
pub fn replay(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let [rows, cols] = [9, if device.runs(Arch::Sm90a) { 20_000 } else { 2000 }];
    let mut x = Tensor::<bf16>::zeros(device, &[rows, cols])?;
    let mut y = Tensor::<bf16>::zeros(device, &[rows, cols])?;
    softmax(&stream, &x.view(), &mut y.view_mut())?;
    stream.synchronize()?;
    let graph = stream.capture(|stream| softmax(stream, &x.view(), &mut y.view_mut()))?;
    for seed in 0..3 {
        let data = normal::<bf16>(seed, rows * cols);
        x.write(&data)?;
        let mut results = Vec::new();
        for _ in 0..2 {
            y.write(&vec![bf16::NAN; rows * cols])?;
            // SAFETY: the tensors are alive.
            unsafe { graph.launch(&stream)? };
            results.push(y.to_vec_on(&stream)?);
        }
        assert!(results[0] == results[1], "seed {seed}");
        let sums = results[0].chunks(cols).map(|y| y.iter().map(|y| f64::from(y.to_f32())).sum::<f64>());
        sums.for_each(|sum| assert!((sum - 1.0).abs() < 0.01, "{sum}"));
    }
    Ok(())
}
