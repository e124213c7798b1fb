//! Cross-entropy and its gradient.

use std::collections::BTreeSet;

use tilewright::ops::{CrossEntropy, IndexElement, cross_entropy};
use tilewright::{Device, Stream, Tensor, TensorView, bf16, f16};
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::rows;
use tilewright_support::suite::Outcome;

use crate::case::{Number, Tried, assert_rows, output, packed, runnable};

/// Those that kernels have room for among them.
const LENGTHS: [usize; 17] =
    [1, 31, 32, 33, 127, 256, 1000, 1024, 4096, 8191, 8192, 16384, 32768, 65536, 131_072, 196_608, 196_616];

/// Options, and what is done with rows.
#[derive(Clone, Copy, Debug)]
struct Case {
    smoothing: f32,
    z_loss: f32,
    scale: f32,
    gradient: bool,
}

const PLAIN: Case = Case { smoothing: 0.0, z_loss: 0.0, scale: 1.0, gradient: true };
const ALL: Case = Case { smoothing: 0.1, z_loss: 0.02, scale: 0.25, gradient: true };
const IGNORED: i32 = -7;

/// Labels that count; of the later rows one that is ignored, and some that are out of range.
fn labels(rows: usize, cols: usize) -> Vec<i32> {
    let label = |i: usize| match i % 7 {
        2 => IGNORED,
        4 => cols as i32,
        5 => -1,
        6 => i32::MIN,
        _ => ((i * 31 + cols / 2) % cols) as i32,
    };
    (0..rows).map(label).collect()
}

/// Loss and gradient, exactly.
fn exact<T: Number>(x: &[T], labels: &[i32], cols: usize, case: Case) -> [Vec<f64>; 2] {
    let options = [case.smoothing, case.z_loss].map(f64::from);
    let (mut losses, mut gradients) = (Vec::new(), Vec::new());
    for (row, &label) in T::widen(x).chunks(cols).zip(labels) {
        let (loss, gradient) = match usize::try_from(label) {
            _ if label == IGNORED => (0.0, vec![0.0; cols]),
            Ok(label) if label < cols => rows::cross_entropy(row, label, options),
            _ => (f64::NAN, vec![f64::NAN; cols]),
        };
        losses.push(loss);
        gradients.extend(gradient.iter().map(|g| g * f64::from(case.scale)));
    }
    [losses, gradients]
}

/// Runs a kernel on logits at a place, with a gradient at another.
fn check<T: Number>(
    device: &Device,
    (case, kernel): (Case, Option<&str>),
    x: &[T],
    [from, to]: [Place; 2],
) -> tilewright_support::Result<()> {
    let [_, rows, cols] = from.shape;
    let labels = labels(rows, cols);
    let stream = Stream::new(device)?;
    let logits = Guarded::with(device, from, x)?;
    let targets = Tensor::from_slice(device, &labels, &[1, rows])?;
    // One loss a line, with room between.
    let lines = Place::by_rows([1, rows, 1], 2);
    let (mut losses, mut gradient) = (output::<f32>(device, lines)?, output::<T>(device, to)?);
    let options = CrossEntropy::new().ignored(IGNORED).smoothing(case.smoothing).z_loss(case.z_loss);
    let options = kernel.into_iter().fold(options.scale(case.scale), CrossEntropy::kernel);
    let mut loss = losses.view_mut()?.select(2, 0)?;
    if case.gradient {
        let mut gradient = gradient.view_mut()?;
        options.run_with_gradient(&stream, &logits.view()?, &targets.view(), &mut loss, &mut gradient)?;
    } else {
        options.run(&stream, &logits.view()?, &targets.view(), &mut loss)?;
    }
    let what = format!("{kernel:?} of {}, {case:?}, {from:?} to {to:?}", T::DTYPE);
    let [exact, gradients] = exact(x, &labels, cols, case);
    let nan = |values: &[f64]| values.iter().filter(|x| x.is_nan()).count();
    assert_rows(&what, &losses, &exact, nan(&exact), |loss| 5e-6 * (1.0 + loss.abs()));
    if case.gradient {
        let even = f64::from(case.smoothing * case.scale) / cols as f64;
        let allowed = |g: f64| g.abs() * (T::ROUNDING + 5e-6) + T::LEAST + 5e-6 * even;
        // Of a row of one element nothing is left but what rounding leaves.
        let alone = if cols == 1 { 2e-6 } else { 0.0 };
        assert_rows(&what, &gradient, &gradients, nan(&gradients), |g| allowed(g) + alone);
    }
    Ok(())
}

/// The kernels that can compute rows that lie so.
fn possible<T: Number>(
    device: &Device,
    place: Place,
    tried: Tried,
) -> tilewright_support::Result<Vec<&'static str>> {
    let [_, rows, _] = place.shape;
    let (x, mut gradient) = (output::<T>(device, place)?, output::<T>(device, place)?);
    let (labels, mut loss) = (Tensor::<i32>::zeros(device, &[1, rows])?, Tensor::zeros(device, &[1, rows])?);
    let all = CrossEntropy::new().candidates(
        &x.view()?,
        &labels.view(),
        &loss.view_mut(),
        &gradient.view_mut()?,
    )?;
    Ok(tried.of(device, all.iter().map(|k| (k.name(), k.cycles()))))
}

fn on_every_kernel<T: Number>(
    device: &Device,
    shapes: impl IntoIterator<Item = [usize; 2]>,
    tried: impl Fn(usize) -> Tried,
) -> tilewright_support::Result<BTreeSet<&'static str>> {
    let mut seen = BTreeSet::new();
    for (turn, [rows, cols]) in shapes.into_iter().enumerate() {
        let (x, place) = (normal::<T>(cols as u64, rows * cols), packed(rows, cols));
        for (turn, name) in possible::<T>(device, place, tried(turn))?.into_iter().enumerate() {
            let case = if (turn + cols).is_multiple_of(2) { ALL } else { PLAIN };
            check(device, (case, Some(name)), &x, [place; 2])?;
            seen.insert(name);
        }
    }
    Ok(seen)
}

/// Rows that fill nothing, and that fill every tile.
pub fn every_kernel(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        let shapes = LENGTHS.map(|cols| [if cols > 10_000 { 3 } else { 8 }, cols]);
        assert_eq!(
            on_every_kernel::<T>(device, shapes, Tried::InTurn)?,
            runnable::<T>(device, "cross_entropy_")
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
    let shapes = [[sms * 40, 256], [sms * 40, 1000], [sms * 5, 4096], [sms * 3, 16384]];
    on_every_kernel::<f16>(device, shapes, |_| Tried::Likely)?;
    on_every_kernel::<f32>(device, [[sms * 40, 128], [sms * 5, 5000]], |_| Tried::Likely)?;
    Ok(())
}

/// Padded, unaligned, by columns, with other places of the gradient, and without one.
pub fn places(device: &Device) -> Outcome {
    for shape @ [_, rows, cols] in [[1, 6, 1000], [1, 5, 33], [1, 2, 20_000]] {
        let by_rows = Place::by_rows(shape, cols + 8);
        let places = [
            by_rows,
            Place::by_rows(shape, cols + 3),
            by_rows.shifted(1),
            Place::by_columns(shape, rows + 2),
        ];
        let x = normal::<bf16>(9, rows * cols);
        for (i, &from) in places.iter().enumerate() {
            for to in [from, places[(i + 1) % 4]] {
                check(device, (ALL, None), &x, [from, to])?;
            }
            check(device, (Case { gradient: false, ..ALL }, None), &x, [from; 2])?;
        }
    }
    Ok(())
}

/// Logits that are no numbers, infinite, or far apart; ignored rows count nothing whatever they hold.
pub fn extremes(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for cols in [8, 1000, 8193, 20_000] {
        let ordinary = normal::<f32>(cols as u64, cols);
        let with = |at: usize, x: f32| {
            let mut row = ordinary.clone();
            row[at] = x;
            row
        };
        let all = [
            ordinary.clone(),
            with(1, f32::NAN),
            with(1, f32::INFINITY),
            with(1, f32::NEG_INFINITY),
            with(0, f32::NEG_INFINITY),
            vec![f32::NEG_INFINITY; cols],
            vec![f32::NAN; cols],
            vec![5.0; cols],
            with(0, 1e30),
            ordinary.clone(),
        ];
        let labels: Vec<i32> = (0..all.len()).map(|i| if i == 6 { -100 } else { 0 }).collect();
        let x = Tensor::from_slice(device, &all.concat(), &[all.len(), cols])?;
        let labels = Tensor::from_slice(device, &labels, &[all.len()])?;
        let mut loss = Tensor::filled(device, -1f32, &[all.len()])?;
        let mut gradient = Tensor::filled(device, -1f32, &[all.len(), cols])?;
        cross_entropy(&stream, &x.view(), &labels.view(), &mut loss.view_mut(), &mut gradient.view_mut())?;
        let (loss, gradient) = (loss.to_vec()?, gradient.to_vec()?);
        let row = |i: usize| &gradient[i * cols..][..cols];
        // Where rows begin anywhere, sums of equal ones may round differently.
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * (1.0 + a.abs());
        assert!(near((&loss[0], &loss[9])) && row(0).iter().zip(row(9)).all(near), "{cols}: {loss:?}");
        assert!([1, 2].iter().all(|&i| loss[i].is_nan() && row(i).iter().all(|g| g.is_nan())), "{cols}");
        assert!(loss[3].is_finite() && row(3)[1] == 0.0, "{cols}: a logit of -inf");
        assert!(loss[4] == f32::INFINITY && row(4)[0] == -1.0, "{cols}: a label of probability 0");
        assert!(loss[5] == f32::INFINITY, "{cols}: no probabilities");
        assert!(loss[6] == 0.0 && row(6).iter().all(|&g| g == 0.0), "{cols}: an ignored row");
        assert!((loss[7] - (cols as f32).ln()).abs() < 1e-5, "{cols}: all equal");
        assert!(loss[8] == 0.0 && row(8).iter().all(|&g| g == 0.0), "{cols}: one huge");
    }
    Ok(())
}

/// The bits of losses and gradients.
fn bits<I: IndexElement>(
    stream: &Stream,
    x: &Tensor<f16>,
    labels: &TensorView<'_, I>,
) -> tilewright_support::Result<[Vec<u32>; 2]> {
    let mut loss = Tensor::filled(x.device(), -7f32, labels.shape())?;
    let mut gradient = Tensor::filled(x.device(), f16::from_f32(-7.0), x.shape())?;
    cross_entropy(stream, &x.view(), labels, &mut loss.view_mut(), &mut gradient.view_mut())?;
    let losses = loss.to_vec()?.iter().map(|loss| loss.to_bits()).collect();
    Ok([losses, gradient.to_vec()?.iter().map(|g| g.to_bits().into()).collect()])
}

/// Labels of every type, some of which 32 bits do not hold: the same losses, and those of labels out of range.
pub fn labels_of_all_types(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for cols in [1, 40, 1000, 8193, 40_000] {
        let narrow: Vec<i64> = vec![0, cols as i64 / 2, cols as i64 - 1, -1, cols as i64, -100];
        let beyond = [1 << 32, -1 << 32, (1 << 32) - 100, i64::MIN, i64::MAX, u32::MAX.into()];
        let rows = narrow.len() + beyond.len();
        let x = Tensor::from_slice(device, &normal::<f16>(cols as u64, rows * cols), &[rows, cols])?;
        let all: Vec<i64> = narrow.iter().chain(&beyond).copied().collect();
        // Those that i32 does not hold are out of range: as any other label that is.
        let by_i32: Vec<i32> = all.iter().map(|&label| i32::try_from(label).unwrap_or(-3)).collect();
        let by_u32: Vec<u32> = by_i32.iter().map(|&label| label.cast_unsigned()).collect();
        // Every other one of a longer vector.
        let apart: Vec<i64> = all.iter().flat_map(|&label| [label, 5]).collect();
        let (by_i32, by_u32) =
            (Tensor::from_slice(device, &by_i32, &[rows])?, Tensor::from_slice(device, &by_u32, &[rows])?);
        let by_i64 = Tensor::from_slice(device, &apart, &[rows, 2])?;
        let by_i64 = by_i64.view().select(1, 0)?;
        let expected = bits(&stream, &x, &by_i32.view())?;
        let nan = expected[0].iter().filter(|&&loss| f32::from_bits(loss).is_nan()).count();
        assert_eq!(nan, 2 + beyond.len(), "{cols} columns");
        assert!(bits(&stream, &x, &by_u32.view())? == expected, "u32, {cols} columns");
        assert!(bits(&stream, &x, &by_i64)? == expected, "i64, {cols} columns");
        // A label that ends in the ignored one's bits is not ignored, whichever that is.
        let odd = Tensor::from_slice(device, &vec![(1i64 << 32) - 1; rows], &[rows])?;
        let mut loss = Tensor::filled(device, -7f32, &[rows])?;
        let options = CrossEntropy::new().ignored(-1);
        options.run(&stream, &x.view(), &odd.view(), &mut loss.view_mut())?;
        assert!(loss.to_vec()?.iter().all(|loss| loss.is_nan()), "{cols} columns");
    }
    Ok(())
}

pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for (shape, rows) in [(&[0, 5][..], &[0][..]), (&[5, 0], &[5]), (&[2, 0, 3], &[2, 0])] {
        let x = Tensor::<f16>::zeros(device, shape)?;
        let (labels, mut loss) = (Tensor::<i32>::zeros(device, rows)?, Tensor::zeros(device, rows)?);
        CrossEntropy::new().run(&stream, &x.view(), &labels.view(), &mut loss.view_mut())?;
    }
    Ok(())
}
