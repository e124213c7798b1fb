//! RMSNorm and LayerNorm.

use std::collections::BTreeSet;

use tilewright::ops::{Norm, layer_norm, rms_norm};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::Real;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::rows;
use tilewright_support::suite::Outcome;

use crate::case::{LENGTHS, Number, Tried, assert_rows, output, packed, runnable};

/// What is normalised, and how.
#[derive(Clone, Copy, Debug)]
struct Case {
    centred: bool,
    added: bool,
    weight: bool,
    bias: bool,
}

const PLAIN: Case = Case { centred: false, added: false, weight: true, bias: false };
const LAYER: Case = Case { centred: true, added: false, weight: true, bias: true };

/// Of rounding, and of sums and the reciprocal root in f32.
fn allowed<T: Number>(exact: f64) -> f64 {
    exact.abs() * T::ROUNDING + T::LEAST + 3e-6 * (1.0 + exact.abs())
}

/// Elements of x and the residual, rounded, at places; y and sum elsewhere.
struct Inputs<T> {
    x: Vec<T>,
    residual: Vec<T>,
    weight: Vec<T>,
    bias: Vec<T>,
    from: Place,
    to: Place,
}

impl<T: Number> Inputs<T> {
    fn new(from: Place, to: Place) -> Self {
        let (count, cols) = (from.count(), from.shape[2]);
        // Off the mean, so that LayerNorm has one to take away.
        let x = T::round(&normal::<f32>(1, count).iter().map(|x| x * 2.0 + 3.0).collect::<Vec<_>>());
        let [weight, bias] = [3, 4].map(|seed| normal::<T>(seed, cols));
        Inputs { x, residual: normal::<T>(2, count), weight, bias, from, to }
    }

    /// The exact sum and the exact norm.
    fn exact(&self, case: Case, epsilon: f32) -> [Vec<f64>; 2] {
        let (x, r) = (T::widen(&self.x), T::widen(&self.residual));
        let sum = |(x, r): (&f32, &f32)| f64::from(*x) + if case.added { f64::from(*r) } else { 0.0 };
        let s: Vec<f64> = x.iter().zip(&r).map(sum).collect();
        let cols = self.from.shape[2];
        let w = if case.weight { T::widen(&self.weight) } else { vec![1.0; cols] };
        let b = if case.bias { T::widen(&self.bias) } else { vec![0.0; cols] };
        let norm = |row| rows::norm(row, [&w, &b], f64::from(epsilon), case.centred);
        let y = s.chunks(cols).flat_map(norm).collect();
        [s, y]
    }

    /// Runs the kernel of this name, or any; checks the results.
    fn check(&self, device: &Device, case: Case, kernel: Option<&str>) -> tilewright_support::Result<()> {
        let (stream, epsilon) = (Stream::new(device)?, 1e-3);
        let cols = self.from.shape[2];
        let [w, b] = [&self.weight, &self.bias].map(|data| Tensor::from_slice(device, data, &[cols]));
        let (w, b) = (w?, b?);
        let (w, b) = (w.view(), b.view());
        let norm = if case.centred { Norm::layer() } else { Norm::rms() }.epsilon(epsilon);
        let norm = if case.weight { norm.weight(&w) } else { norm };
        let norm = if case.bias { norm.bias(&b) } else { norm };
        let norm = kernel.into_iter().fold(norm, Norm::kernel);
        let x = Guarded::with(device, self.from, &self.x)?;
        let residual = Guarded::with(device, self.from, &self.residual)?;
        let (mut y, mut sum) = (output::<T>(device, self.to)?, output::<T>(device, self.to)?);
        let (x, residual) = (x.view()?, residual.view()?);
        if case.added {
            norm.run_added(&stream, &x, &residual, &mut sum.view_mut()?, &mut y.view_mut()?)?;
        } else {
            norm.run(&stream, &x, &mut y.view_mut()?)?;
        }
        let what = format!("{kernel:?} of {}, {case:?}, {:?} to {:?}", T::DTYPE, self.from, self.to);
        let [s, exact] = self.exact(case, epsilon);
        // A single element is its own mean: what rounding leaves of it is divided by no more than epsilon's root.
        let most = s.iter().fold(0.0, |most: f64, s| most.max(s.abs()));
        let single = if case.centred && cols == 1 { 1.3e-7 * most / f64::from(epsilon).sqrt() } else { 0.0 };
        assert_rows(&what, &y, &exact, 0, |y| allowed::<T>(y) + single);
        if case.added {
            assert_rows(&what, &sum, &s, 0, |s| s.abs() * (T::ROUNDING + 1.3e-7) + T::LEAST);
        }
        Ok(())
    }

    /// The kernels that can compute it.
    fn possible(
        &self,
        device: &Device,
        added: bool,
        tried: Tried,
    ) -> tilewright_support::Result<Vec<&'static str>> {
        let [x, r] = [output::<T>(device, self.from)?, output::<T>(device, self.from)?];
        let [mut y, mut sum] = [output::<T>(device, self.to)?, output::<T>(device, self.to)?];
        let norm = Norm::rms();
        let all = match added {
            true => norm.candidates_added(&x.view()?, &r.view()?, &sum.view_mut()?, &y.view_mut()?)?,
            false => norm.candidates(&x.view()?, &y.view_mut()?)?,
        };
        Ok(tried.of(device, all.iter().map(|k| (k.name(), k.cycles()))))
    }

    /// Every kernel that can, with and without all that may be absent.
    fn check_all(
        &self,
        device: &Device,
        tried: Tried,
        seen: &mut BTreeSet<&'static str>,
    ) -> tilewright_support::Result<()> {
        for added in [false, true] {
            for (turn, name) in self.possible(device, added, tried)?.into_iter().enumerate() {
                let turn = turn + self.from.shape[2] % 7;
                let case = Case {
                    centred: turn.is_multiple_of(2),
                    added,
                    weight: !turn.is_multiple_of(3),
                    bias: turn % 5 < 3,
                };
                self.check(device, case, Some(name))?;
                seen.insert(name);
            }
        }
        Ok(())
    }
}

/// Rows that fill nothing, and that fill every tile.
pub fn every_kernel(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        let mut seen = BTreeSet::new();
        for (turn, cols) in LENGTHS.into_iter().filter(|&cols| cols <= 131_072).enumerate() {
            let place = packed(if cols > 10_000 { 2 } else { 5 }, cols);
            Inputs::<T>::new(place, place).check_all(device, Tried::InTurn(turn), &mut seen)?;
        }
        let all: BTreeSet<_> =
            ["norm_sm_", "add_norm_"].into_iter().flat_map(|p| runnable::<T>(device, p)).collect();
        assert_eq!(seen, all);
        Ok(())
    }
    of::<f16>(device)?;
    of::<bf16>(device)?;
    Ok(of::<f32>(device)?)
}

/// More tiles than the device takes at a time.
pub fn several_tiles(device: &Device) -> Outcome {
    let (sms, mut seen) = (device.sm_count() as usize, BTreeSet::new());
    for [rows, cols] in [
        [sms * 3 * 16 * 16 + 5, 8],
        [sms * 40, 256],
        [sms * 40, 1000],
        [sms * 70, 333],
        [sms * 7, 2048],
        [sms * 5, 5001],
        [sms * 3, 16384],
    ] {
        let place = packed(rows, cols);
        Inputs::<f16>::new(place, place).check_all(device, Tried::Likely, &mut seen)?;
    }
    for [rows, cols] in [[sms * 40, 128], [sms * 5, 5000]] {
        let place = packed(rows, cols);
        Inputs::<f32>::new(place, place).check_all(device, Tried::Likely, &mut seen)?;
    }
    Ok(())
}

/// Padded, unaligned, by columns, with other places of the results.
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
                    let inputs = Inputs::<T>::new(from, to);
                    inputs.check(device, Case { added: true, ..LAYER }, None)?;
                    inputs.check(device, PLAIN, None)?;
                }
            }
        }
        Ok(())
    }
    of::<bf16>(device)?;
    Ok(of::<f32>(device)?)
}

/// Weights that begin at any multiple of their elements, of rows that begin anywhere.
pub fn weights_anywhere(device: &Device) -> Outcome {
    let (stream, count) = (Stream::new(device)?, 5);
    for cols in [7, 333, 1000, 4097] {
        let x = normal::<f16>(1, count * cols);
        let parameters = Tensor::from_slice(device, &normal::<f16>(2, cols + 8), &[cols + 8])?;
        let wide: Vec<f64> = f16::widen(&x).iter().map(|&x| f64::from(x)).collect();
        let x = Tensor::from_slice(device, &x, &[count, cols])?;
        for [first, other] in [[0, 0], [0, 1], [8, 0], [3, 5]] {
            let [w, b] = [first, other].map(|at| parameters.view().narrow(0, at, cols));
            let (w, b) = (w?, b?);
            let mut y = Tensor::filled(device, f16::NAN, &[count, cols])?;
            layer_norm(&stream, &x.view(), &w, &b, 1e-5, &mut y.view_mut())?;
            let [w, b] = [f16::widen(&w.to_vec()?), f16::widen(&b.to_vec()?)];
            let exact = wide.chunks(cols).flat_map(|row| rows::norm(row, [&w, &b], 1e-5, true));
            let near = |(y, exact): (&f32, f64)| (f64::from(*y) - exact).abs() <= allowed::<f16>(exact);
            assert!(f16::widen(&y.to_vec()?).iter().zip(exact).all(near), "{cols} columns, {first}, {other}");
        }
    }
    Ok(())
}

/// Weights with strides; rows of five dimensions.
pub fn views(device: &Device) -> Outcome {
    let (stream, shape) = (Stream::new(device)?, [2, 3, 4, 2, 8]);
    let values = normal::<f32>(3, shape.iter().product());
    let x = Tensor::from_slice(device, &values, &shape)?;
    let parameters = Tensor::from_slice(device, &normal::<f32>(4, 16), &[8, 2])?;
    let w = parameters.view().select(1, 1)?;
    let b = parameters.view().select(1, 0)?;
    let (wide_w, wide_b) = (w.to_vec()?, b.to_vec()?);
    let mut y = Tensor::filled(device, f32::NAN, &[3, 2, 2, 4, 8])?;
    let permuted = x.view().transpose(0, 1)?.transpose(2, 3)?.transpose(1, 2)?;
    layer_norm(&stream, &permuted.clone().transpose(1, 2)?, &w, &b, 1e-5, &mut y.view_mut())?;
    let x = permuted.transpose(1, 2)?.to_vec()?;
    let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    let exact = wide.chunks(8).flat_map(|row| rows::norm(row, [&wide_w, &wide_b], 1e-5, true));
    let near = |(y, exact): (&f32, f64)| (f64::from(*y) - exact).abs() <= allowed::<f32>(exact);
    assert!(y.to_vec()?.iter().zip(exact).all(near));
    // Rows of one element: its stride means nothing, nor does that of its weight.
    let data = normal::<f16>(3, 18);
    let x = Tensor::from_slice(device, &data, &[2, 9])?;
    let column = x.view().narrow(0, 0, 1)?.transpose(0, 1)?;
    let weight = x.view().select(1, 0)?.narrow(0, 0, 1)?;
    let mut y = Tensor::filled(device, f16::NAN, &[9, 1])?;
    rms_norm(&stream, &column, &weight, 1e-5, &mut y.view_mut())?;
    for (y, x) in y.to_vec()?.iter().zip(&data) {
        let (x, w) = (f64::from(x.to_f32()), f64::from(data[0].to_f32()));
        let exact = x / (x * x + 1e-5).sqrt() * w;
        assert!((f64::from(y.to_f32()) - exact).abs() < 2e-3, "{x}: {y} for {exact}");
    }
    Ok(())
}

/// NaN, infinities, zeros and sizes whose squares overflow.
pub fn extremes(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for cols in [8, 1000, 8192, 8193, 20_000] {
        let ordinary = normal::<f32>(cols as u64, cols);
        let with = |x: f32| {
            let mut row = ordinary.clone();
            row[cols / 2] = x;
            row
        };
        let all = [
            ordinary.clone(),
            with(f32::NAN),
            with(f32::INFINITY),
            with(f32::NEG_INFINITY),
            vec![0.0; cols],
            vec![7.0; cols],
            with(1e30),
            ordinary.clone(),
        ];
        let x = Tensor::from_slice(device, &all.concat(), &[all.len(), cols])?;
        let ones = Tensor::filled(device, 1f32, &[cols])?;
        let mut y = Tensor::filled(device, f32::NAN, &[all.len(), cols])?;
        let mut rows = |layer: bool| -> tilewright_support::Result<Vec<Vec<f32>>> {
            match layer {
                true => Norm::layer().weight(&ones.view()).run(&stream, &x.view(), &mut y.view_mut())?,
                false => rms_norm(&stream, &x.view(), &ones.view(), 1e-5, &mut y.view_mut())?,
            }
            Ok(y.to_vec()?.chunks(cols).map(<[f32]>::to_vec).collect())
        };
        for layer in [false, true] {
            let y = rows(layer)?;
            // Where rows begin anywhere, sums of equal ones may round differently.
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * (1.0 + a.abs());
            assert!(y[0].iter().zip(&y[7]).all(near), "{cols}, {layer}");
            assert!(y[1].iter().all(|y| y.is_nan()), "{cols}, {layer}: a NaN");
            for infinite in &y[2..4] {
                let others = infinite.iter().enumerate().filter(|(i, _)| *i != cols / 2);
                assert!(infinite[cols / 2].is_nan(), "{cols}, {layer}: an infinity");
                assert!(others.into_iter().all(|(_, y)| if layer { y.is_nan() } else { *y == 0.0 }));
            }
            assert!(y[4].iter().all(|&y| y == 0.0), "{cols}, {layer}: zeros");
            let all_equal = if layer { 0.0 } else { 1.0 };
            assert!(y[5].iter().all(|&y| (y - all_equal).abs() < 1e-3), "{cols}, {layer}: all equal");
            assert!(y[6].iter().all(|&y| y == 0.0), "{cols}, {layer}: squares overflow");
        }
    }
    Ok(())
}

pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for shape in [&[0, 5][..], &[5, 0], &[0], &[2, 0, 3, 4]] {
        let (x, mut y) = (Tensor::<f16>::zeros(device, shape)?, Tensor::<f16>::zeros(device, shape)?);
        Norm::rms().run(&stream, &x.view(), &mut y.view_mut())?;
        let (r, mut s) = (Tensor::<f16>::zeros(device, shape)?, Tensor::<f16>::zeros(device, shape)?);
        Norm::layer().run_added(&stream, &x.view(), &r.view(), &mut s.view_mut(), &mut y.view_mut())?;
    }
    Ok(())
}
