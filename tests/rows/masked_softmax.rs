//! Softmax and log-softmax of masked rows.

use std::collections::BTreeSet;

use tilewright::ops::Softmax;
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::rows;
use tilewright_support::suite::Outcome;

use crate::case::{LENGTHS, Number, Tried, assert_each, output, packed, runnable};

/// What masks a softmax.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Added {
    None,
    Narrow,
    Wide,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    added: Added,
    causal: bool,
    scale: f32,
    log: bool,
}

const PLAIN: Case = Case { added: Added::Narrow, causal: false, scale: 1.0, log: false };

/// A mask of numbers that are exact in every type, some of which take elements out.
fn mask_of(count: usize) -> Vec<f32> {
    let of = |i: usize| match i * 7919 % 11 {
        0..3 => f32::NEG_INFINITY,
        n => n as f32 * 0.25 - 1.0,
    };
    (0..count).map(of).collect()
}

/// The exact results of matrices of `rows` rows, where `mask` has an element for each of x.
fn exact<T: Number>(x: &[T], mask: &[f32], [rows, cols]: [usize; 2], case: Case) -> Vec<f64> {
    let (x, mut all) = (T::widen(x), Vec::new());
    for (i, (x, mask)) in x.chunks(cols).zip(mask.chunks(cols)).enumerate() {
        let seen = |j: usize| !case.causal || j + rows <= i % rows + cols;
        let score = |j: usize| {
            let mask = if case.added == Added::None { 0.0 } else { f64::from(mask[j]) };
            if seen(j) { f64::from(x[j]) * f64::from(case.scale) + mask } else { f64::NEG_INFINITY }
        };
        let scores: Vec<f64> = (0..cols).map(score).collect();
        all.extend(rows::softmax_of(&scores, case.log));
    }
    all
}

/// Runs the kernel of this name, or any, on x and a mask at a place; checks the result.
fn check<T: Number>(
    device: &Device,
    case: Case,
    [from, to]: [Place; 2],
    kernel: Option<&str>,
) -> tilewright_support::Result<()> {
    let (stream, [_, rows, cols]) = (Stream::new(device)?, from.shape);
    let (x, mask) = (normal::<T>(cols as u64, from.count()), mask_of(from.count()));
    let exact = exact(&x, &mask, [rows, cols], case);
    let wide = Guarded::with(device, from, &mask)?;
    let narrow = Guarded::with(device, from, &T::round(&mask))?;
    let (x, mut y) = (Guarded::with(device, from, &x)?, output::<T>(device, to)?);
    {
        let (narrow, wide) = (narrow.view()?, wide.view()?);
        let softmax = Softmax::new().scale(case.scale);
        let softmax = if case.log { softmax.log() } else { softmax };
        let softmax = if case.causal { softmax.causal() } else { softmax };
        let softmax = match case.added {
            Added::None => softmax,
            Added::Narrow => softmax.mask(&narrow),
            Added::Wide => softmax.mask(&wide),
        };
        let softmax = kernel.into_iter().fold(softmax, Softmax::kernel);
        softmax.run(&stream, &x.view()?, &mut y.view_mut()?)?;
    }
    let what = format!("{kernel:?} of {}, {case:?}, {from:?} to {to:?}", T::DTYPE);
    assert_each(&what, &y, &exact, 0, |i| allowed::<T>(exact[i], case.log));
    Ok(())
}

/// What an element may be off by: its rounding, that of scores, and what the approximations leave.
fn allowed<T: Number>(exact: f64, log: bool) -> f64 {
    let rounding = exact.abs() * T::ROUNDING + T::LEAST;
    if log { rounding + 3e-6 } else { rounding + exact * 4e-6 }
}

/// The kernels that can compute masked rows that lie so.
fn possible<T: Number>(device: &Device, place: Place, tried: Tried) -> tilewright::Result<Vec<&'static str>> {
    let (x, mut y) = (output::<T>(device, place)?, output::<T>(device, place)?);
    let all = Softmax::new().causal().candidates(&x.view()?, &y.view_mut()?)?;
    Ok(tried.of(device, all.iter().map(|k| (k.name(), k.cycles()))))
}

/// Every kernel, rows of every length; more tiles than the device takes at a time.
pub fn every_kernel(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        let mut seen = BTreeSet::new();
        let shapes = LENGTHS.map(|cols| [if cols > 10_000 { 2 } else { 5 }, cols]);
        let sms = device.sm_count() as usize;
        for (turn, [rows, cols]) in shapes.into_iter().chain([[sms * 20, 1000], [sms * 5, 2048]]).enumerate()
        {
            let place = packed(rows, cols);
            for (turn, name) in possible::<T>(device, place, Tried::InTurn(turn))?.into_iter().enumerate() {
                let turn = turn + cols % 7;
                let case = Case {
                    added: [Added::Narrow, Added::Wide, Added::None][turn % 3],
                    causal: turn % 3 == 2 || turn.is_multiple_of(2),
                    scale: if turn % 5 < 2 { 1.0 } else { 0.3 },
                    log: turn % 4 < 2,
                };
                check::<T>(device, case, [place; 2], Some(name))?;
                seen.insert(name);
            }
        }
        assert_eq!(seen, runnable::<T>(device, "masked_softmax_"));
        Ok(())
    }
    of::<f16>(device)?;
    of::<bf16>(device)?;
    Ok(of::<f32>(device)?)
}

/// Rows that begin anywhere in registers, by every mask and none: of odd lengths, of the longest, and more rows than columns.
pub fn ragged(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        let all = runnable::<T>(device, "masked_softmax_");
        for name in all.into_iter().filter(|name| name.contains("_ragged_1x")) {
            for (rows, cols) in [(9, 1), (3, 7), (40, 33), (5, 1001), (9, 5113)] {
                for (i, added) in [Added::None, Added::Narrow, Added::Wide].into_iter().enumerate() {
                    let case = Case { added, causal: (i + cols) % 2 == 1, log: cols % 3 == 1, scale: 0.3 };
                    check::<T>(device, case, [packed(rows, cols); 2], Some(name))?;
                }
            }
        }
        Ok(())
    }
    of::<f16>(device)?;
    of::<bf16>(device)?;
    Ok(of::<f32>(device)?)
}

/// Padded, unaligned, by columns; batches of few and of many rows, more rows than columns.
pub fn places(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        for shape @ [_, rows, cols] in [[2, 3, 1000], [3, 21, 8], [2, 40, 33], [4, 1, 64], [1, 2, 20_000]] {
            let by_rows = Place::by_rows(shape, cols + 8);
            let places = [
                by_rows,
                Place::by_rows(shape, cols + 3),
                by_rows.shifted(1),
                Place::by_columns(shape, rows + 2),
            ];
            for (i, &from) in places.iter().enumerate() {
                let to = places[(i + 1) % 4];
                check::<T>(device, Case { causal: true, added: Added::None, ..PLAIN }, [from; 2], None)?;
                check::<T>(
                    device,
                    Case { causal: i % 2 == 0, added: Added::Wide, ..PLAIN },
                    [from, to],
                    None,
                )?;
                check::<T>(device, Case { log: true, scale: 0.5, ..PLAIN }, [from; 2], None)?;
            }
        }
        Ok(())
    }
    of::<bf16>(device)?;
    Ok(of::<f32>(device)?)
}

/// Masks that repeat: over heads, over rows, over columns, over a batch.
pub fn broadcast(device: &Device) -> Outcome {
    let (stream, shape) = (Stream::new(device)?, [2, 3, 4, 40]);
    let [rows, cols] = [4, 40];
    let x = normal::<f16>(3, shape.iter().product());
    let x_at = Tensor::from_slice(device, &x, &shape)?;
    for mask_shape in
        [&[2, 1, 4, 40][..], &[1, 1, 4, 40], &[4, 40], &[40], &[2, 1, 1, 40], &[2, 3, 4, 1], &[3, 1, 1], &[]]
    {
        let values = mask_of(mask_shape.iter().product::<usize>().max(1));
        let mask = Tensor::from_slice(device, &values[..mask_shape.iter().product()], mask_shape)?;
        for causal in [false, true] {
            let mut y = Tensor::filled(device, f16::NAN, &shape)?;
            let view = mask.view();
            let softmax = Softmax::new().mask(&view);
            let softmax = if causal { softmax.causal() } else { softmax };
            softmax.run(&stream, &x_at.view(), &mut y.view_mut())?;
            let wide = mask.view().broadcast(&shape)?.to_vec()?;
            let case = Case { causal, added: Added::Wide, ..PLAIN };
            let exact = exact(&x, &wide, [rows, cols], case);
            for (i, (y, exact)) in y.to_vec()?.iter().zip(exact).enumerate() {
                let off = (f64::from(y.to_f32()) - exact).abs();
                assert!(off <= allowed::<f16>(exact, false), "{mask_shape:?}, causal {causal}: {i}");
            }
        }
    }
    Ok(())
}

/// Rows of which nothing is left; NaN and infinities that are seen, and that are not.
pub fn extremes(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for cols in [8, 1000, 8193] {
        // Of the first two rows of 8 columns nothing is left.
        let rows = 10;
        let mut x = normal::<f32>(cols as u64, rows * cols);
        let last = rows * cols - 1;
        for (at, value) in [(cols - 1, f32::NAN), (2 * cols - 1, f32::INFINITY), (last, f32::NAN)] {
            x[at] = value;
        }
        let x = Tensor::from_slice(device, &x, &[rows, cols])?;
        for log in [false, true] {
            let softmax = if log { Softmax::new().log() } else { Softmax::new() };
            let mut y = Tensor::filled(device, 7f32, &[rows, cols])?;
            softmax.causal().run(&stream, &x.view(), &mut y.view_mut())?;
            let nothing = if log { f32::NEG_INFINITY } else { 0.0 };
            for (i, row) in y.to_vec()?.chunks(cols).enumerate() {
                let seen = (i + 1 + cols).saturating_sub(rows);
                let what = format!("{cols} columns, row {i}, log {log}");
                if i == rows - 1 {
                    assert!(row.iter().all(|y| y.is_nan()), "{what}: a NaN that is seen");
                    continue;
                }
                assert!(row[seen..].iter().all(|&y| y == nothing), "{what}: what is not seen");
                assert!(row[..seen].iter().all(|y| y.is_finite()), "{what}: what is seen");
            }
            let all = Tensor::filled(device, f32::NEG_INFINITY, &[1])?;
            let view = all.view();
            let mut y = Tensor::filled(device, 7f32, &[rows - 1, cols])?;
            let ordinary = Tensor::filled(device, 2f32, &[rows - 1, cols])?;
            softmax.mask(&view).run(&stream, &ordinary.view(), &mut y.view_mut())?;
            assert!(y.to_vec()?.iter().all(|&y| y == nothing), "{cols} columns, log {log}: nothing is left");
        }
    }
    for shape in [&[0, 5][..], &[5, 0], &[2, 0, 3, 4]] {
        let (x, mut y) = (Tensor::<f16>::zeros(device, shape)?, Tensor::<f16>::zeros(device, shape)?);
        let mask = Tensor::<f32>::zeros(device, &[1])?;
        Softmax::new().causal().mask(&mask.view()).run(&stream, &x.view(), &mut y.view_mut())?;
    }
    Ok(())
}
