//! The gradient of softmax and log-softmax.

use std::collections::BTreeSet;

use tilewright::ops::Softmax;
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::rows;
use tilewright_support::suite::Outcome;

use crate::case::{LENGTHS, Number, Tried, assert_each, output, packed, runnable};

/// A softmax's results and the gradient by them, at places.
struct Inputs<T> {
    y: Vec<T>,
    dy: Vec<T>,
    scale: f32,
    log: bool,
    from: Place,
    to: Place,
}

impl<T: Number> Inputs<T> {
    fn new(scale: f32, log: bool, from: Place, to: Place) -> Self {
        let (count, cols) = (from.count(), from.shape[2]);
        let x = T::widen(&normal::<T>(cols as u64, count));
        let y = x.chunks(cols).flat_map(|row| rows::softmax(row, f64::from(scale), log));
        let y = T::round(&y.map(|y| y as f32).collect::<Vec<_>>());
        Inputs { y, dy: normal::<T>(17, count), scale, log, from, to }
    }

    fn softmax(&self) -> Softmax<'static> {
        let softmax = Softmax::new().scale(self.scale);
        if self.log { softmax.log() } else { softmax }
    }

    /// Runs the kernel of this name, or any; checks the result.
    fn check(&self, device: &Device, kernel: Option<&str>) -> tilewright_support::Result<()> {
        let Inputs { y, dy, scale, log, from, to } = self;
        let stream = Stream::new(device)?;
        let softmax = self.softmax();
        let softmax = kernel.into_iter().fold(softmax, |softmax: Softmax<'_>, name| softmax.kernel(name));
        let mut dx = output::<T>(device, *to)?;
        let [y_at, dy_at] = [Guarded::with(device, *from, y)?, Guarded::with(device, *from, dy)?];
        softmax.run_gradient(&stream, &y_at.view()?, &dy_at.view()?, &mut dx.view_mut()?)?;
        let (y, dy, cols) = (T::widen(y), T::widen(dy), from.shape[2]);
        let (mut exact, mut allowed) = (Vec::new(), Vec::new());
        for (y, dy) in y.chunks(cols).zip(dy.chunks(cols)) {
            let gradient = rows::softmax_gradient(y, dy, f64::from(*scale), *log);
            let each = y.iter().zip(dy).map(|(&y, &dy)| (f64::from(y), f64::from(dy).abs()));
            let size: f64 = each.clone().map(|(y, dy)| if *log { dy } else { y * dy }).sum();
            // Of sums of so large terms, and of the exponential.
            let off = each.map(|(y, dy)| if *log { dy + y.exp() * size } else { y * (dy + size) } * 2e-6);
            let rounded = gradient.iter().map(|dx| dx.abs() * T::ROUNDING + T::LEAST);
            allowed.extend(off.zip(rounded).map(|(off, rounded)| f64::from(*scale) * off + rounded));
            exact.extend(gradient);
        }
        let what = format!("{kernel:?} of {}, log {log}, scale {scale}, {from:?} to {to:?}", T::DTYPE);
        assert_each(&what, &dx, &exact, 0, |i| allowed[i]);
        Ok(())
    }

    /// The kernels that can compute it.
    fn possible(&self, device: &Device, tried: Tried) -> tilewright_support::Result<Vec<&'static str>> {
        let [y, dy] = [output::<T>(device, self.from)?, output::<T>(device, self.from)?];
        let mut dx = output::<T>(device, self.to)?;
        let all = Softmax::new().candidates_gradient(&y.view()?, &dy.view()?, &dx.view_mut()?)?;
        Ok(tried.of(device, all.iter().map(|k| (k.name(), k.cycles()))))
    }
}

/// Runs every kernel that can compute these shapes; gives their names.
fn on_every_kernel<T: Number>(
    device: &Device,
    shapes: impl IntoIterator<Item = [usize; 2]>,
    tried: impl Fn(usize) -> Tried,
) -> tilewright_support::Result<BTreeSet<&'static str>> {
    let (mut seen, mut log) = (BTreeSet::new(), false);
    for (turn, [rows, cols]) in shapes.into_iter().enumerate() {
        let place = packed(rows, cols);
        let both = [false, true].map(|log| Inputs::<T>::new(0.5, log, place, place));
        for name in both[0].possible(device, tried(turn))? {
            both[usize::from(log)].check(device, Some(name))?;
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
            runnable::<T>(device, "softmax_gradient_")
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
    let shapes = [[sms * 16 * 16 * 2 + 5, 8], [sms * 40, 1000], [sms * 7, 2048], [sms * 3, 16384]];
    on_every_kernel::<f16>(device, shapes, |_| Tried::Likely)?;
    on_every_kernel::<f32>(device, [[sms * 5, 5000]], |_| Tried::Likely)?;
    Ok(())
}

/// Padded, unaligned, by columns, with other places of dx.
pub fn places(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        for shape @ [_, rows, cols] in [[2, 3, 1000], [1, 5, 33], [1, 2, 20_000]] {
            let by_rows = Place::by_rows(shape, cols + 8);
            let places = [
                by_rows,
                Place::by_rows(shape, cols + 3),
                by_rows.shifted(1),
                Place::by_columns(shape, rows + 2),
            ];
            for (i, &from) in places.iter().enumerate() {
                for to in [from, places[(i + 1) % 4]] {
                    Inputs::<T>::new(1.0, i % 2 == 0, from, to).check(device, None)?;
                }
            }
        }
        Ok(())
    }
    of::<bf16>(device)?;
    Ok(of::<f32>(device)?)
}

/// NaN, infinities, rows that have nothing left; rows without elements.
pub fn extremes(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for cols in [8, 1000, 8193] {
        let even = vec![1.0 / cols as f32; cols];
        let ordinary = normal::<f32>(cols as u64, cols);
        let with = |x: f32| {
            let mut row = ordinary.clone();
            row[cols / 2] = x;
            row
        };
        let y = [even.clone(), even.clone(), even.clone(), vec![0.0; cols], even];
        let dy = [ordinary.clone(), with(f32::NAN), with(f32::INFINITY), ordinary.clone(), ordinary.clone()];
        let dy_at = Tensor::from_slice(device, &dy.concat(), &[5, cols])?;
        let mut dx = Tensor::filled(device, f32::NAN, &[5, cols])?;
        let y_at = Tensor::from_slice(device, &y.concat(), &[5, cols])?;
        Softmax::new().run_gradient(&stream, &y_at.view(), &dy_at.view(), &mut dx.view_mut())?;
        let is = dx.to_vec()?;
        let row = |i: usize| &is[i * cols..][..cols];
        assert!(row(0) == row(4) && row(0).iter().all(|dx| dx.is_finite()), "{cols}");
        assert!(row(1).iter().all(|dx| dx.is_nan()), "{cols}: a NaN");
        assert!(!row(2).iter().any(|dx| dx.is_finite()), "{cols}: an infinity");
        assert!(row(3).iter().all(|&dx| dx == 0.0), "{cols}: nothing left");
        let y: Vec<f32> = y.concat().iter().map(|y| y.ln()).collect();
        let y_at = Tensor::from_slice(device, &y, &[5, cols])?;
        let log = Softmax::new().log().scale(0.5);
        log.run_gradient(&stream, &y_at.view(), &dy_at.view(), &mut dx.view_mut())?;
        let is = dx.to_vec()?;
        assert!(is[cols..2 * cols].iter().all(|dx| dx.is_nan()), "{cols}: a NaN");
        let halves = ordinary.iter().map(|dy| dy * 0.5);
        assert!(is[3 * cols..4 * cols].iter().copied().eq(halves), "{cols}: nothing left");
    }
    for shape in [&[0, 5][..], &[5, 0], &[0], &[2, 0, 3, 4]] {
        let (y, mut dx) = (Tensor::<f16>::zeros(device, shape)?, Tensor::<f16>::zeros(device, shape)?);
        Softmax::new().run_gradient(&stream, &y.view(), &y.view(), &mut dx.view_mut())?;
    }
    Ok(())
}
